// Packs the package, installs the tarball into an empty project with npm 10 and 11, and runs a turn there on Node 20, 22 and 24, by
// import and by require, and through the installed command; then all examples, as a copy out of the installed package.
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const project = mkdtempSync(join(tmpdir(), 'millrace-tarball-'));
const run = (command, args, options = {}) =>
  execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'], ...options });

const turn = `
  const loop = new AgentLoop({
    agentId: 'check',
    llmProvider: scriptedLLM([{ toolCalls: [{ name: 'add', arguments: { a: 2, b: 3 } }] }, { text: 'five' }]),
    toolProviders: [
      new LocalToolProvider([
        tool({
          name: 'add',
          description: 'Adds two numbers.',
          parameters: {
            type: 'object',
            properties: { a: { type: 'number' }, b: { type: 'number' } },
            required: ['a', 'b'],
          },
          execute: ({ a, b }) => a + b,
        }),
      ]),
    ],
  });
  loop.startTurn([{ role: 'user', content: '2 + 3?' }]).result().then(({ text, messages }) => {
    if (text !== 'five' || messages[1].content !== '5') throw new Error('unexpected: ' + JSON.stringify(messages));
    if (typeof LiteLLMProvider !== 'function' || typeof startTracing !== 'function') throw new Error('a subpath is empty');
    if (turnIdGenerator().generateTraceId().length !== 32) throw new Error('not a trace id');
    const spans = ['sdk-trace-node', 'core', 'resources'].map((name) => '@opentelemetry/' + name);
    for (const [name, make] of [
      ['ioredis', () => new RedisStateStore({ redis: 'redis://127.0.0.1:1' })],
      ['ioredis', () => StoreFactory.createStateStore({ type: 'redis', redis: 'redis://127.0.0.1:1' })],
      ['pg', () => new PostgresStateStore({ postgres: 'postgres://127.0.0.1:1/x' })],
      ['lmdb', () => new LmdbStateStore({ path: 'store' })],
      ['lmdb', () => StoreFactory.createStateStore({ type: 'lmdb', path: 'store' })],
      [spans.join(' '), () => startTracing({ exporter: 'none' })],
      [[...spans, '@opentelemetry/exporter-trace-otlp-proto'].join(' '), () => startTracing()],
      ['@opentelemetry/sdk-trace-node', () => recordSpans()],
    ]) {
      let code = 'none';
      try {
        make();
      } catch (error) {
        code = error instanceof AgentLoopError && !/\\n/.test(error.message) && error.code;
        if (!error.message.includes('run \`npm install ' + name + '\`')) throw error;
      }
      if (code !== 'MISSING_PACKAGE') throw new Error(name + ': ' + code);
    }
    const unmeasured = startMetrics().then(() => 'started', (error) => error.message);
    const unanswered = new LiteLLMProvider({ baseUrl: 'http://127.0.0.1:1', model: 'm' }).call({ messages: [], tools: [] });
    const asked = unanswered.then(
      () => 'answered',
      ({ code, message }) => (/npm install openai\`/.test(message) && code === 'MISSING_PACKAGE' ? 'ok' : message),
    );
    return Promise.all([asked, unmeasured]).then(([answer, measured]) => {
      console.log(/run \`npm install @opentelemetry\\/sdk-metrics /.test(measured) ? answer : measured);
    });
  });
`;
const parts = [
  ['millrace', '{ AgentLoop, AgentLoopError, LocalToolProvider, StoreFactory, tool }'],
  ['millrace/litellm', '{ LiteLLMProvider }'],
  ['millrace/lmdb', '{ LmdbStateStore }'],
  ['millrace/otel', '{ startMetrics, startTracing, turnIdGenerator }'],
  ['millrace/postgres', '{ PostgresStateStore }'],
  ['millrace/redis', '{ RedisStateStore }'],
  ['millrace/stores', '{ checkAppend }'],
  ['millrace/testing', '{ recordSpans, scriptedLLM }'],
];
const programs = {
  'by-import.mjs': parts.map(([path, names]) => `import ${names} from '${path}';`).join('\n') + turn,
  'by-require.cjs': parts.map(([path, names]) => `const ${names} = require('${path}');`).join('\n') + turn,
};

let failures = 0;
const check = (what, expected, action) => {
  let printed;
  try {
    printed = action().trim();
  } catch (error) {
    printed = `${error.message}\n${error.stdout ?? ''}`;
  }
  const good = expected.test(printed);
  if (!good) failures++;
  console.log(`${good ? 'ok  ' : 'FAIL'} ${what}${good ? '' : `: ${printed}`}`);
};

try {
  const [{ filename }] = JSON.parse(run('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', project]));
  const quiet = ['--no-audit', '--no-fund'];
  for (const version of ['10', '11']) {
    rmSync(join(project, 'node_modules'), { recursive: true, force: true });
    rmSync(join(project, 'package-lock.json'), { force: true });
    writeFileSync(join(project, 'package.json'), JSON.stringify({ name: 'project', private: true }));
    const install = ['-y', `npm@${version}`, 'install', ...quiet, join(project, filename)];
    const { stdout, stderr, status } = spawnSync('npx', install, { cwd: project, encoding: 'utf8' });
    const warnings = `${stdout}${stderr}`
      .split('\n')
      .filter((line) => /millrace@|deprecated|peer|ERESOLVE/i.test(line));
    check(`npm ${version} installs it without a warning of ours`, /^0$/, () => [status, ...warnings].join('; '));
  }
  for (const [name, source] of Object.entries(programs)) writeFileSync(join(project, name), source);
  for (const version of ['20', '22', '24']) {
    for (const name of Object.keys(programs)) {
      const node = ['-y', '-p', `node@${version}`, 'node', '--no-warnings', name];
      check(`node ${version} ${name}`, /^ok$/, () => run('npx', node, { cwd: project }));
    }
  }
  const inMemory = () =>
    run('npx', ['millrace', 'run', 'What is 12 * 7?'], { cwd: project, stdio: ['ignore', 'pipe', 'ignore'] });
  check('npx millrace run, without lmdb', /84/, inMemory);
  const chat = () =>
    run('npx', ['millrace', 'chat'], { cwd: project, input: 'What is 12 * 7?\n', stdio: ['pipe', 'pipe', 'ignore'] });
  check('npx millrace chat, without the OpenTelemetry SDK', /84/, chat);
  const demo = () => spawnSync('npx', ['millrace', 'demo'], { cwd: project, encoding: 'utf8' }).stderr;
  const installed = /^millrace: .*run `npm install lmdb @opentelemetry\/sdk-trace-node @opentelemetry[^\n`]*`[^\n]*$/m;
  check('npx millrace demo says what to install', installed, demo);
  for (const [what, args, env] of [
    ['run --trace', ['run', 'Hello', '--trace'], {}],
    ['run with OTEL_TRACES_EXPORTER', ['run', 'Hello'], { OTEL_TRACES_EXPORTER: 'otlp' }],
    ['chat --trace', ['chat', '--trace'], {}],
    ['serve with OTEL_EXPORTER_OTLP_ENDPOINT', ['serve'], { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1' }],
  ]) {
    const options = { cwd: project, encoding: 'utf8', input: '', env: { ...process.env, ...env } };
    const started = () => spawnSync('npx', ['millrace', ...args, '--store', 'memory'], options).stderr;
    check(`npx millrace ${what} says what to install`, /^millrace: .*run `npm install @opentelemetry\//m, started);
  }
  const { devDependencies } = JSON.parse(readFileSync('package.json', 'utf8'));
  const needed = [
    'zod',
    '@a2a-js/sdk',
    'express',
    '@modelcontextprotocol/client',
    '@modelcontextprotocol/server',
    '@modelcontextprotocol/node',
    '@modelcontextprotocol/server-everything',
    '@ai-sdk/anthropic',
    '@ai-sdk/provider',
    'ioredis',
    'lmdb',
    'openai',
    '@opentelemetry/core',
    '@opentelemetry/exporter-trace-otlp-proto',
    '@opentelemetry/resources',
    '@opentelemetry/sdk-trace-node',
  ];
  const exact = needed.map((name) => `${name}@${devDependencies[name]}`);
  run('npm', ['install', ...quiet, '--silent', ...exact], { cwd: project });
  cpSync(join(project, 'node_modules', 'millrace', 'examples'), join(project, 'examples'), { recursive: true });
  for (const version of ['22', '24']) {
    const node = ['-y', '-p', `node@${version}`, 'node', '--no-warnings', 'examples/run.mjs'];
    check(`the examples, copied, on node ${version}`, /^(ok {6}\S+\n?)+$/, () => run('npx', node, { cwd: project }));
  }
  check('npx millrace run', /84/, () =>
    run('npx', ['millrace', 'run', 'What is 12 * 7?'], { cwd: project, stdio: ['ignore', 'pipe', 'ignore'] }),
  );
} finally {
  rmSync(project, { recursive: true, force: true });
}
process.exit(failures === 0 ? 0 : 1);
