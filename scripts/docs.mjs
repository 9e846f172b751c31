// Builds the docs as a site in docs-site/: a page for each export of each entry of package.json, the README and the guides. Any warning fails it.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Application, Converter, ReflectionKind } from 'typedoc';

const root = fileURLToPath(new URL('..', import.meta.url));
const { exports, version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const entries = Object.entries(exports).flatMap(([path, target]) =>
  target.default === undefined
    ? []
    : [{ name: `millrace${path.slice(1)}`, source: target.default.replace(/^\.\/dist\/(.+)\.js$/, 'src/$1.ts') }],
);
const documents = [
  'docs/README.md',
  'docs/!(README).md',
  'examples/README.md',
  'A2A_ALIGNMENT.md',
  'bench/README.md',
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  'docs/decisions/README.md',
  'docs/decisions/!(README).md',
];

/** What the operators get from `operatorTurn` and from one another, which programs only pass on; and steps of computing a type. */
const opaque = [
  ...['AbortScope', 'CallParams', 'FusibleOperator', 'HookDeps', 'Hooks', 'Inbox', 'ModelCallDeps', 'OpenModelCall'],
  ...[
    'DeltaOwner',
    'ModelNoted',
    'PreparedView',
    'ReplacedPart',
    'SegmentContext',
    'ShownCall',
    'TurnNode',
    'UnstartedCalls',
    'servers',
  ],
  ...['EventsOf', 'FromType', 'NameOf', 'NotData', 'ResultsOf', 'src/agent/team-events.ts:ToolMessage'],
];

const app = await Application.bootstrap({
  name: `Millrace ${version}`,
  tsconfig: join(root, 'tsconfig.build.json'),
  entryPoints: entries.map(({ source }) => join(root, source)),
  readme: join(root, 'README.md'),
  projectDocuments: documents.map((files) => join(root, files)),
  sort: ['documents-last', 'alphabetical-ignoring-documents'],
  excludeExternals: true,
  intentionallyNotExported: opaque,
  highlightLanguages: ['ts', 'js', 'json', 'jsonl', 'sh', 'html', 'css', 'yaml', 'sql', 'mermaid', 'nginx', 'http'],
  out: join(root, 'docs-site'),
});
app.converter.on(Converter.EVENT_RESOLVE_BEGIN, ({ project }) => {
  for (const module of project.getReflectionsByKind(ReflectionKind.Module)) {
    const source = module.sources?.[0]?.fullFileName;
    const entry = entries.find((each) => join(root, each.source) === source);
    if (entry !== undefined) module.name = entry.name;
  }
  for (const document of project.getReflectionsByKind(ReflectionKind.Document)) {
    const [{ text }] = document.content;
    document.name = /^# (.+)$/m.exec(text)?.[1] ?? document.name;
  }
  const records = project.documents.filter(({ name }) => /^\d+\. /.test(name));
  const index = project.documents.find(({ name }) => name === 'Decision records');
  for (const record of records) {
    project.removeChild(record);
    record.parent = index;
    index.addChild(record);
  }
});
const project = await app.convert();
if (project !== undefined) {
  app.validate(project);
  await app.generateOutputs(project);
}
process.exitCode = project === undefined || app.logger.hasErrors() || app.logger.hasWarnings() ? 1 : 0;
