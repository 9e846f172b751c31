// Packs the package, installs the tarball into an empty project, and runs a turn there on Node 20, 22 and 24, by import and by
// require, and through the installed command.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
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
    new RedisStateStore({ redis: 'redis://127.0.0.1:1' });
    console.log('ok');
  });
`;
const parts = [
  ['millrace', '{ AgentLoop, LocalToolProvider, tool }'],
  ['millrace/litellm', '{ LiteLLMProvider }'],
  ['millrace/otel', '{ startTracing }'],
  ['millrace/redis', '{ RedisStateStore }'],
  ['millrace/testing', '{ scriptedLLM }'],
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
    printed = error.message;
  }
  const good = expected.test(printed);
  if (!good) failures++;
  console.log(`${good ? 'ok  ' : 'FAIL'} ${what}${good ? '' : `: ${printed}`}`);
};

try {
  const [{ filename }] = JSON.parse(run('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', project]));
  writeFileSync(join(project, 'package.json'), JSON.stringify({ name: 'project', private: true }));
  run('npm', ['install', '--no-audit', '--no-fund', '--silent', join(project, filename)], { cwd: project });
  for (const [name, source] of Object.entries(programs)) writeFileSync(join(project, name), source);
  for (const version of ['20', '22', '24']) {
    for (const name of Object.keys(programs)) {
      const node = ['-y', '-p', `node@${version}`, 'node', '--no-warnings', name];
      check(`node ${version} ${name}`, /^ok$/, () => run('npx', node, { cwd: project }));
    }
  }
  check('npx millrace run', /84/, () =>
    run('npx', ['millrace', 'run', 'What is 12 * 7?'], { cwd: project, stdio: ['ignore', 'pipe', 'ignore'] }),
  );
} finally {
  rmSync(project, { recursive: true, force: true });
}
process.exit(failures === 0 ? 0 : 1);
