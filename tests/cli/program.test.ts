import { describe, expect, it } from '@jest/globals';
import { runInProcess } from './run-in-process.ts';

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
    ['a bad task id', ['run', 'hi', '--task', 'no spaces'], 'taskId must have 1 to 128 characters'],
    ['a bad lease', ['run', 'hi', '--lease-ms', '5'], 'It must be a whole number from 100 to 3600000.'],
    [
      'a store that there is not',
      ['run', 'hi', '--store', 'mongo'],
      '--store has to be memory, lmdb, lmdb:FOLDER, or redis',
    ],
    ['the same in the environment', ['run', 'hi'], 'MILLRACE_STORE has to be memory', { MILLRACE_STORE: 'mongo' }],
    ['a bad collector', ['run', 'hi', '--otlp', 'localhost:4318'], 'It must be an http or https address'],
  ])('%s', async (_what, args, sentence, env = {}) => {
    const end = await runInProcess(args, { env });
    expect(end).toMatchObject({ exitCode: 2, stdout: '' });
    expect(end.stderr).toContain(sentence);
    expect(end.stderr).not.toMatch(/^\s+at /m);
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
