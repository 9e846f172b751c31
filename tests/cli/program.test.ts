import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { runInProcess } from './run-in-process.ts';
import { temporaryFolder } from './tools/temporary-folder.ts';

const local = 'http://127.0.0.1:9/v1';

describe('a command line that cannot work: exit code 2, one sentence, nothing on stdout', () => {
  it.each<[string, readonly string[], string, Record<string, string>?]>([
    ['an unknown option', ['run', 'hi', '--nope'], "millrace: unknown option '--nope'"],
    ['an unknown command', ['sing'], "millrace: unknown command 'sing'"],
    ['no prompt', ['run'], "millrace: missing required argument 'prompt'"],
    ['a prompt without quotes', ['run', 'hi', 'there'], 'millrace: too many arguments'],
    ['an empty prompt', ['run', '  '], 'millrace: the prompt is empty; say what to ask'],
    ['an empty prompt on stdin', ['run', '-'], 'millrace: the prompt is empty; say what to ask'],
    ['a bad number', ['run', 'hi', '--max-iterations', '0'], 'It must be a whole number from 1.'],
    ['a bad port', ['model', '--port', '70000'], 'It must be a whole number from 0 to 65535.'],
    ['a bad address', ['run', 'hi', '--base-url', 'localhost'], 'It must be an http or https address'],
    ['an address without a model', ['run', 'hi', '--base-url', local], `${local} needs the name of a model`],
    ['the same in a chat', ['chat', '--base-url', local], `${local} needs the name of a model`],
    ['a key that is not set', ['run', 'hi', '--api-key-env', 'NOT_SET'], 'NOT_SET of --api-key-env is not set'],
    ['tools that are not there', ['run', 'hi', '--tools', 'not-there.mjs'], 'file "not-there.mjs" cannot be found'],
    ['a bad task id', ['run', 'hi', '--task', 'no spaces'], 'It must be 1 to 128 letters, digits'],
    ['a bad conversation id', ['chat', '--context-id', 'a/b'], 'It must be 1 to 128 letters, digits'],
    ['a bad lease', ['run', 'hi', '--lease-ms', '5'], 'It must be a whole number from 100 to 3600000.'],
    [
      'a store that there is not',
      ['run', 'hi', '--store', 'mongo'],
      '--store must be memory, lmdb[:FOLDER], redis://HOST:PORT or postgres://HOST/DATABASE; with TLS, an address begins with rediss://',
    ],
    ['the same in the environment', ['run', 'hi'], 'MILLRACE_STORE must be memory', { MILLRACE_STORE: 'mongo' }],
    ['a bad collector', ['run', 'hi', '--otlp', 'localhost:4318'], 'It must be an http or https address'],
    ['an unknown vendor', ['run', 'hi', '--model', 'acme:large'], 'without an address there are anthropic:NAME, '],
    ['a vendor without a key', ['run', 'hi', '--model', 'anthropic:x'], 'needs a key: set ANTHROPIC_API_KEY'],
    ['an empty model', ['run', 'hi', '--model', ''], 'millrace: --model is empty; name a model'],
    [
      'a bad address in the environment',
      ['run', 'hi'],
      'OPENAI_BASE_URL is not an http or https address, like http',
      { OPENAI_BASE_URL: 'local', OPENAI_MODEL: 'm' },
    ],
    ['a collector that is none', ['run', 'hi', '--otlp', 'x'], 'like http://localhost:4318.'],
    ['a file of a journal that is not there', ['replay', 'x.jsonl'], 'x.jsonl cannot be found; name a file'],
    ['MCP servers that are not there', ['run', 'hi', '--mcp', 'no.json'], 'check the path'],
    [
      'an agent that is not there',
      ['serve', '--agent', 'no.mjs'],
      'The agent file "no.mjs" cannot be found; check the path',
    ],
  ])('U-19 %s', async (_what, args, sentence, env = {}) => {
    const end = await runInProcess(args, { env });
    expect(end).toMatchObject({ exitCode: 2, stdout: '' });
    expect(end.stderr).toContain(sentence);
    expect(end.stderr).not.toMatch(/^\s+at /m);
  });

  it.each<[string, string, string, string]>([
    ['tools', 'no-export.mjs', 'export const a = 1;', 'must have an array of tools'],
    ['tools', 'function.mjs', 'export default () => [];', 'exports a function by default; export its result'],
    ['tools', 'throws.mjs', 'throw new Error("boom");', 'cannot be loaded: Error: boom'],
    ['tools', 'tool.mjs', 'export default [{ name: "x" }];', 'Tool "x": description is undefined; say in a sentence'],
    ['mcp', 'none.json', '{"mcpServers":{}}', 'holds no servers: write { "mcpServers"'],
    ['mcp', 'broken.json', '{', 'is not JSON: '],
    ['agent', 'function.mjs', 'export default () => 1;', 'exports a function by default; export its result'],
    ['agent', 'object.mjs', 'export default {};', 'must have an agent as its default export: export default agent('],
    [
      'agent',
      'named.mjs',
      'export default { name: "a", provider: "openai" };',
      'give an object, e.g. new LiteLLMProvider',
    ],
  ])('U-19 --%s %s that does not fit: what to do', async (flag, file, content, sentence) => {
    const folder = temporaryFolder({ [file]: content });
    try {
      const command = flag === 'agent' ? ['serve'] : ['run', 'hi'];
      const end = await runInProcess([...command, `--${flag}`, join(folder.path, file)]);
      expect(end).toMatchObject({ exitCode: 2, stdout: '' });
      expect(end.stderr).toContain(sentence);
    } finally {
      folder.remove();
    }
  });

  it.each([
    ['Redis', 'redis'],
    ['PostgreSQL', 'postgres'],
  ])('U-19 a %s that is away is named once, without its password', async (name, protocol) => {
    const end = await runInProcess(['run', 'hi', '--store', `${protocol}://user:hunter2@127.0.0.1:1`]);
    expect(end).toMatchObject({ exitCode: 1, stdout: '' });
    expect(end.stderr.split('does not answer')).toHaveLength(2);
    expect(end.stderr).toContain(`${name} at ${protocol}://127.0.0.1:1 does not answer`);
    expect(end.stderr).not.toContain('hunter2');
  });

  it('no command: the help', async () => {
    const end = await runInProcess([]);
    expect(end).toMatchObject({ exitCode: 2, stdout: '' });
    expect(end.stderr).toContain('Usage: millrace');
  });

  it('a key that cannot be one is not shown', async () => {
    const env = { OPENAI_BASE_URL: local, OPENAI_MODEL: 'm', OPENAI_API_KEY: 'sk with spaces' };
    const end = await runInProcess(['run', 'Hi'], { env });
    expect(end).toMatchObject({ exitCode: 2, stdout: '' });
    expect(end.stderr).toMatch(/^millrace: .*apiKey/);
    expect(end.stderr).not.toContain('sk with');
  });
});

it.each([
  ['OTEL_TRACES_EXPORTER', 'none', ['--otlp', local]],
  ['OTEL_SDK_DISABLED', 'true', ['--otlp', local]],
  ['OTEL_SDK_DISABLED', 'true', ['--trace']],
])('where %s is %s the flags %j, which it turns off, are refused by its name', async (name, value, flags) => {
  const before = process.env[name];
  process.env[name] = value;
  try {
    const end = await runInProcess(['run', 'hi', ...flags]);
    expect(end).toMatchObject({ exitCode: 2, stdout: '', stderr: expect.stringContaining(`millrace: ${name} `) });
  } finally {
    delete process.env[name];
    if (before !== undefined) process.env[name] = before;
  }
});

it('--help, help and --version answer on stdout with 0', async () => {
  const help = await runInProcess(['run', '--help']);
  expect(help).toMatchObject({ exitCode: 0, stderr: '' });
  expect(help.stdout).toContain('Exit codes: 0 completed, 1 failed, 2 usage, 3 waits');
  expect(await runInProcess(['help', 'run'])).toEqual(help);
  const version = await runInProcess(['--version']);
  expect(version).toMatchObject({ exitCode: 0, stderr: '' });
  expect(version.stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
});
