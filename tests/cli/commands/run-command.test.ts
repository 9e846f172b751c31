import { EventEmitter } from 'node:events';
import { existsSync, mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';
import { eventually } from '../../eventually.ts';
import { startOtlpReceiver } from '../../otlp-receiver.ts';
import { runInProcess } from '../run-in-process.ts';
import { modelServer, settingsOf } from './model-servers.ts';

const tools = fileURLToPath(new URL('some-tools.mjs', import.meta.url));
const key = 'sk-very-secret-0123456789';
const call = { name: 'add', arguments: { a: 2, b: 3 } };

function eventsOf(stdout: string): Record<string, unknown>[] {
  expect(stdout.endsWith('\n')).toBe(true);
  return stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
}

describe('millrace run', () => {
  it('is over with Ctrl-C while an MCP server does not answer, and leaves nothing of it running', async () => {
    const started = join(mkdtempSync(join(tmpdir(), 'mcp-')), 'pid');
    const script = `require('node:fs').writeFileSync('${started}', String(process.pid)); setInterval(() => {}, 1000)`;
    const signals = new EventEmitter();
    const run = runInProcess(['run', 'Hi', '--mcp', `${process.execPath} -e "${script}"`], { signals });
    await eventually(() => existsSync(started) && readFileSync(started, 'utf8') !== '');
    signals.emit('SIGINT', 'SIGINT');
    expect(await run).toMatchObject({ exitCode: 130, stdout: '' });
    expect(() => process.kill(Number(readFileSync(started, 'utf8')), 0)).toThrow('ESRCH');
  });

  it('offers the tools of a file, runs them, and shows them', async () => {
    const server = await modelServer({ script: [{ text: 'Adding.', toolCalls: [call, call] }, { text: '5.' }] });
    const end = await runInProcess(['run', 'What is 2 + 3?', '--tools', tools], { env: settingsOf(server) });
    expect(end).toMatchObject({ exitCode: 0, stdout: 'Adding.\n\n5.\n' });
    expect(end.stderr.replace(/[\d.]+ m?s\b/g, 'n ms').split('\n')).toEqual([
      '  · add a: 2, b: 3',
      '  · add a: 2, b: 3',
      '  ✓ add           a: 2, b: 3 → 5  n ms',
      '  ✓ add           a: 2, b: 3 → 5  n ms',
      expect.stringMatching(/^ {2}2 iterations · 2 tool calls · \S+ tokens · n ms$/),
      '',
    ]);
    const [first, second] = server.requests;
    expect(first).toMatchObject({ tools: [{ function: { name: 'add' } }, { function: { name: 'stubborn' } }] });
    expect(second?.['messages']).toMatchObject([{}, {}, { role: 'tool', content: '5' }, { role: 'tool' }]);
    server.assertDone();
  });

  it('takes the prompt from stdin, and a system prompt from its option', async () => {
    const server = await modelServer({ script: [{ text: 'Yes.' }] });
    const args = ['run', '-', '--system', 'Be brief.', '--base-url', server.baseUrl, '--model', 'large'];
    expect(await runInProcess(args, { stdin: 'Is it\ntrue?\n' })).toMatchObject({ exitCode: 0, stdout: 'Yes.\n' });
    expect(server.requests[0]).toMatchObject({
      model: 'large',
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'Is it\ntrue?' },
      ],
    });
  });

  it.each<[string, object, string]>([
    [
      'a refused key that the server echoes',
      { status: 401, body: { error: { message: `bad ${key}` } } },
      'PROVIDER_AUTH',
    ],
    ['an answer that is cut off', { text: 'Well, ', closeAfter: 1 }, 'PROVIDER_STREAM_CLOSED'],
    ['too many iterations', { toolCalls: [call] }, 'MAX_ITERATIONS'],
  ])('%s: exit code 1, one sentence with the code, no stack, no key', async (_what, step, code) => {
    const server = await modelServer({ script: [step] });
    const env = { ...settingsOf(server), MY_KEY: key };
    const flags = ['--api-key-env', 'MY_KEY', '--max-iterations', '1', '--tools', tools, '--trace'];
    const { exitCode, stdout, stderr } = await runInProcess(['run', 'Hi', ...flags], { env });
    expect(exitCode).toBe(1);
    const sentences = stderr.match(/^millrace: .*$/gm);
    expect(sentences).toEqual([expect.stringMatching(new RegExp(`^millrace: \\S.* \\(${code}\\)$`))]);
    expect(stderr).not.toMatch(/^\s+at /m);
    expect(stdout + stderr).not.toContain(key);
    expect(server.headers[0]?.authorization).toBe(`Bearer ${key}`);
  });

  it('an unreachable model: exit code 1', async () => {
    const server = await modelServer({});
    await server.close();
    const end = await runInProcess(['run', 'Hi', '--base-url', server.baseUrl, '--model', 'm']);
    expect(end).toMatchObject({ exitCode: 1, stdout: '' });
    expect(end.stderr).toContain('(PROVIDER_UNREACHABLE)');
  });

  it('colours only where it is told to', async () => {
    const server = await modelServer({ script: [{ text: 'a' }, { text: 'b' }] });
    const plain = await runInProcess(['run', 'Hi'], { env: settingsOf(server) });
    const forced = await runInProcess(['run', 'Hi'], { env: { ...settingsOf(server), FORCE_COLOR: '1' } });
    expect(plain.stderr).not.toContain('\u001b[');
    expect(forced.stderr).toContain('\u001b[2m');
    expect(forced.stdout).toBe('b\n');
  });

  it('leaves no listener for signals behind', async () => {
    const server = await modelServer({ script: [{ text: 'a' }] });
    const signals = new EventEmitter();
    await runInProcess(['run', 'Hi'], { env: settingsOf(server), signals });
    expect([signals.listenerCount('SIGINT'), signals.listenerCount('SIGTERM')]).toEqual([0, 0]);
  });
});

describe('millrace run --json', () => {
  it('S1-58 S1-59 S1-60 writes one event a line and nothing else: task, working, …, one final status', async () => {
    const server = await modelServer({ script: [{ toolCalls: [call] }, { text: 'It is 5.' }] });
    const flags = ['--json', '--tools', tools, '--task', 'task-1', '--context-id', 'talk-1'];
    const end = await runInProcess(['run', 'What is 2 + 3?', ...flags], { env: settingsOf(server) });
    expect(end).toMatchObject({ exitCode: 0, stderr: '' });
    const events = eventsOf(end.stdout);
    expect(events[0]).toMatchObject({ kind: 'task', id: 'task-1' });
    expect(events[1]).toMatchObject({ kind: 'status-update', status: { state: 'working' }, final: false });
    expect(events.filter((event) => event['final'] === true)).toEqual([events.at(-1)]);
    expect(events.at(-1)).toMatchObject({ kind: 'status-update', status: { state: 'completed' } });
    for (const event of events) expect(event).toMatchObject({ taskId: 'task-1', contextId: 'talk-1' });
    const completed = events.filter((event) => event['kind'] === 'internal:tool-complete');
    expect(completed).toMatchObject([{ content: '5', success: true }]);
  });

  it('S1-61 a failed turn ends with a failed status on stdout, and its sentence on stderr', async () => {
    const server = await modelServer({ script: [{ status: 500 }] });
    const end = await runInProcess(['run', 'Hi', '--json'], { env: settingsOf(server) });
    expect(end.exitCode).toBe(1);
    expect(end.stderr).toMatch(/^millrace: .*\(PROVIDER_SERVER\)\n$/);
    const last = eventsOf(end.stdout).at(-1);
    expect(last).toMatchObject({ final: true, status: { state: 'failed' }, error: { code: 'PROVIDER_SERVER' } });
  });
});

describe('millrace run, traced', () => {
  it('--trace draws the spans and --otlp sends them, without the key', async () => {
    const receiver = await startOtlpReceiver();
    try {
      const server = await modelServer({ script: [{ toolCalls: [call] }, { text: '5.' }] });
      const env = { ...settingsOf(server), OPENAI_API_KEY: key };
      const end = await runInProcess(['run', 'Hi', '--tools', tools, '--trace', '--otlp', receiver.url], { env });
      expect(end).toMatchObject({ exitCode: 0, stdout: '5.\n' });
      expect(end.stderr).toMatch(
        /agent\.execute .*\n.*hook\[conversation.*\n.*iteration\[1\] .*\n.*llm\.call .*\n.*tools\.execute .*\n.*tool\[add\] /,
      );
      const isHook = (name: string) => name.startsWith('hook[conversation.');
      const names = receiver.spans.map((span) => span.name).sort();
      const ofTurn = ['agent.execute', 'agent.turn', 'iteration[1]', 'iteration[2]'];
      const others = names.filter((name) => !isHook(name));
      expect(others).toEqual([...ofTurn, 'llm.call', 'llm.call', 'tool[add]', 'tools.execute']);
      expect(end.stderr).toContain(`${names.length} spans sent to ${receiver.url}/v1/traces`);
      expect(JSON.stringify(receiver.spans) + end.stderr).not.toContain(key);
    } finally {
      await receiver.close();
    }
  });
});
