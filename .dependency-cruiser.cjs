const { peerDependencies, devDependencies } = require('./package.json');
/** Packages of vendors that no checkout installs. */
const ofVendors = Object.keys(peerDependencies).filter((name) => name.startsWith('@ai-sdk/') && !devDependencies[name]);
/** Packages that scripts/build.mjs bundles into the command. */
const broughtAlong = '^node_modules/(commander|decimal\\.js)/';
/** Packages that it bundles into the chat page. */
const inPage = '^node_modules/(marked|preact)/';

/** The layers of design: imports point inward. @type {import('dependency-cruiser').IConfiguration} */
module.exports = {
  forbidden: [
    {
      name: 'no-circular',
      comment: 'Modules that need each other, even if only for types, are one module or lack a third.',
      severity: 'error',
      from: {},
      to: { circular: true, viaOnly: { dependencyTypesNot: ['dynamic-import'] } },
    },
    {
      name: 'core-imports-no-implementation',
      comment:
        'The core receives stores, providers and tools; it knows their contracts and the spans only. What else it needs, it gets as Outside.',
      severity: 'error',
      from: { path: '^src/core/' },
      to: {
        path: '^src/',
        pathNot: ['^src/core/', '^src/observability/(spans/|attributes\\.ts$)'],
      },
    },
    {
      name: 'tasks-compose-the-core',
      comment: 'What callers hold of a turn needs no agent, protocol or store of this package, as the core does not.',
      severity: 'error',
      from: { path: '^src/(tasks|options)/' },
      to: {
        path: '^src/',
        pathNot: '^src/((core|tasks|options|observability)/|guarded-logger\\.ts$)',
      },
    },
    {
      name: 'one-door-per-room',
      comment: 'Outside of the core its files may move: what others use of a room is in its index.ts.',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/core/' },
      to: { path: '^src/core/[^/]+/', pathNot: '^src/core/[^/]+/index\\.ts$' },
    },
    {
      name: 'doors-in-the-core',
      comment: 'These rooms need none of the rooms that import them, so they have one door there too.',
      severity: 'error',
      from: { path: '^src/core/([^/]+)/', pathNot: '^src/core/(contracts|journal)/' },
      to: {
        path: '^src/core/(contracts|journal|streams|options)/',
        pathNot: ['^src/core/$1/', '^src/core/[^/]+/index\\.ts$'],
      },
    },
    {
      name: 'streams-know-no-turn',
      comment: 'Operators and the cancellation tree, of which every room is composed.',
      severity: 'error',
      from: { path: '^src/core/streams/' },
      to: { path: '^src/', pathNot: '^src/core/streams/' },
    },
    {
      name: 'contracts-import-no-room',
      comment: 'What the edges implement is read without the engine.',
      severity: 'error',
      from: { path: '^src/core/contracts/' },
      to: { path: '^src/', pathNot: ['^src/core/contracts/', '^src/core/journal/'] },
    },
    {
      name: 'contracts-name-records-only',
      comment:
        'Exception: stores keep records, and hooks read the state. The contracts name their types, and call nothing of the journal.',
      severity: 'error',
      from: { path: '^src/core/contracts/' },
      to: { path: '^src/core/journal/', dependencyTypesNot: ['type-only'] },
    },
    {
      name: 'journal-knows-no-caller',
      comment:
        'The fold and the events follow from the records alone, so that a journal is read without running anything.',
      severity: 'error',
      from: { path: '^src/core/journal/' },
      to: { path: '^src/core/', pathNot: '^src/core/(journal|contracts|streams)/' },
    },
    {
      name: 'options-and-ownership-run-nothing',
      comment: 'They say what a turn runs with and hold the lease; models and tools are called elsewhere.',
      severity: 'error',
      from: { path: '^src/core/(options|ownership)/' },
      to: { path: '^src/core/(model-call|tool-call)/' },
    },
    {
      name: 'rooms-below-the-turn',
      comment: 'The turn composes the other rooms. Each of them declares what it uses of a run.',
      severity: 'error',
      from: { path: '^src/core/', pathNot: '^src/core/turn/' },
      to: { path: '^src/core/turn/' },
    },
    {
      name: 'core-packages',
      comment: 'The core uses RxJS and the OpenTelemetry API, nothing else, and no module of Node.',
      severity: 'error',
      from: { path: '^src/core/' },
      to: { pathNot: ['^src/', '^node_modules/(rxjs|@opentelemetry/api)/'] },
    },
    {
      name: 'spans-use-the-api-only',
      comment: 'A library that bundles the SDK decides for its user where spans go.',
      severity: 'error',
      from: { path: '^src/observability/(spans/|attributes\\.ts$|trace-carrier\\.ts$)' },
      to: { path: '^node_modules/@opentelemetry/', pathNot: '^node_modules/@opentelemetry/api/' },
    },
    {
      name: 'sdk-in-its-place',
      comment: 'The OpenTelemetry SDK is optional: the first call that needs it loads it. All else knows its types.',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/observability/load-sdk\\.ts$' },
      to: {
        path: '^node_modules/@opentelemetry/',
        pathNot: '^node_modules/@opentelemetry/api/',
        dependencyTypesNot: ['type-only'],
      },
    },
    {
      name: 'nothing-imports-the-command',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/(a2a|cli)/' },
      to: { path: '^src/(a2a|worker|cli)/' },
    },
    {
      name: 'protocols-do-not-import-the-command',
      severity: 'error',
      from: { path: '^src/a2a/' },
      to: { path: '^src/(worker|cli)/' },
    },
    {
      name: 'the-fleet-is-an-entry',
      comment: 'It composes agents, stores and a queue; only the command starts it. Nothing else needs BullMQ.',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/(fleet|cli)/' },
      to: { path: ['^src/fleet/', '^node_modules/bullmq/'] },
    },
    {
      name: 'the-page-knows-types-only',
      comment: 'Of the engine it has what the API answers, and no code but what makes text safe to show.',
      severity: 'error',
      from: { path: '^src/inspect/page/' },
      to: {
        path: '^src/',
        pathNot: ['^src/inspect/page/', '^src/ui/visible-text\\.ts$'],
        dependencyTypesNot: ['type-only'],
      },
    },
    {
      name: 'testing-is-for-tests',
      comment: 'Only the command, which brings the stand-in model, uses what is shipped for tests.',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/(testing|cli)/' },
      to: { path: '^src/testing/' },
    },
    {
      name: 'no-dev-dependencies',
      severity: 'error',
      from: { path: '^src/' },
      to: {
        pathNot: [broughtAlong, inPage],
        dependencyTypes: ['npm-dev', 'npm-no-pkg', 'npm-unknown'],
        dependencyTypesNot: ['npm-peer', 'type-only'],
      },
    },
    {
      name: 'brought-along-by-the-command',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/cli/' },
      to: { path: broughtAlong },
    },
    {
      name: 'packages-of-pages',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/[^/]+/page/' },
      to: { path: inPage },
    },
    {
      name: 'resolvable',
      comment:
        'Exception: packages of vendors that no checkout installs; src/providers/ai-sdk/vendor-packages.d.ts declares them.',
      severity: 'error',
      from: {},
      to: { couldNotResolve: true, pathNot: `^(${ofVendors.join('|')})$` },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['import', 'node', 'types', 'default'] },
  },
};
