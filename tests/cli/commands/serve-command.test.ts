import { EventEmitter, once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { rpc, wireMessage } from '../../a2a/server/test-server.ts';
import { eventually } from '../../eventually.ts';
import { startOtlpReceiver } from '../../otlp-receiver.ts';
import { runInProcess } from '../run-in-process.ts';
import { fakeScreen } from '../screen.ts';
import { modelServer, settingsOf } from './model-servers.ts';

const folder = mkdtempSync(join(tmpdir(), 'millrace-serve-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** An agent file that is never loaded, and what resolves once somebody loads it. */
function endlessAgent(): { readonly file: string; readonly loading: Promise<void> } {
  const file = join(folder, `${crypto.randomUUID()}.mjs`);
  const loading = new Promise<void>((resolve) => Object.assign(globalThis, { [file]: resolve }));
  writeFileSync(file, `globalThis[${JSON.stringify(file)}](); await new Promise(() => {}); export default {};`);
  return { file, loading };
}

describe('Ctrl-C while a server starts', () => {
  it.each([
    ['serve', 'SIGINT', 130],
    ['serve', 'SIGTERM', 143],
    ['mcp', 'SIGINT', 130],
  ] as const)('ends millrace %s while the agent file is loaded, by %s', async (command, signal, exitCode) => {
    const { file, loading } = endlessAgent();
    const signals = new EventEmitter();
    const ended = runInProcess([command, '--port', '0', '--agent', file], { signals });
    await loading;
    signals.emit(signal, signal);
    expect(await ended).toEqual({ exitCode, stdout: '', stderr: '' });
    expect(signals.eventNames()).toEqual([]);
  });

  it('ends millrace worker while the agent file is loaded', async () => {
    const { file, loading } = endlessAgent();
    const signals = new EventEmitter();
    const store = `lmdb:${join(folder, 'worker')}`;
    const args = ['worker', '--agent', file, '--store', store, '--queue', 'redis://127.0.0.1:1'];
    const ended = runInProcess(args, { signals });
    await loading;
    signals.emit('SIGTERM', 'SIGTERM');
    expect(await ended).toEqual({ exitCode: 143, stdout: '', stderr: '' });
    expect(signals.eventNames()).toEqual([]);
  });

  it.each(['serve', 'mcp'])('ends millrace %s with a word on where its spans went', async (command) => {
    const receiver = await startOtlpReceiver();
    const { file, loading } = endlessAgent();
    const signals = new EventEmitter();
    const ended = runInProcess([command, '--port', '0', '--agent', file, '--otlp', receiver.url], { signals });
    await loading;
    signals.emit('SIGINT', 'SIGINT');
    expect((await ended).stderr).toBe(`millrace: 0 spans sent to ${receiver.url}/v1/traces\n`);
    await receiver.close();
  });

  it.each(['serve', 'mcp'])('ends millrace %s while the store does not answer', async (command) => {
    const silent = createServer().listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const { port } = silent.address() as AddressInfo;
    const signals = new EventEmitter();
    const asked = once(silent, 'connection');
    const ended = runInProcess([command, '--port', '0', '--store', `redis://127.0.0.1:${port}`], { signals });
    const [socket] = await asked;
    signals.emit('SIGINT', 'SIGINT');
    expect(await ended).toEqual({ exitCode: 130, stdout: '', stderr: '' });
    socket.destroy();
    silent.close();
  });
});

describe('the keys of callers', () => {
  it.each([
    [
      { MILLRACE_CLIENT_KEYS: 'alice=short-key' },
      'the key of alice in MILLRACE_CLIENT_KEYS is too short; use a random one',
    ],
    [{ MILLRACE_CLIENT_KEYS: 'short-key' }, 'the key of client in MILLRACE_CLIENT_KEYS is too short'],
    [{ MILLRACE_CLIENT_KEYS: `a=${'x'.repeat(16)},a=${'y'.repeat(16)}` }, 'MILLRACE_CLIENT_KEYS names a caller twice'],
  ])('are refused in words of the command line: case %#', async (env, sentence) => {
    const { exitCode, stderr } = await runInProcess(['serve', '--port', '0'], { env });
    expect(stderr.replace(/\s+/g, ' ')).toContain(sentence);
    expect(stderr).not.toContain('short-');
    expect(exitCode).toBe(2);
  });
});

const builtIn = ['calculate', 'current_time'];
const fileTools = ['list_files', 'read_file', 'search_files'];

/** Runs a server until `use`, which is given where it listens, is done; gives what the model was offered. */
async function offeredBy(args: readonly string[], use: (url: string) => Promise<unknown>): Promise<readonly unknown[]> {
  const model = await modelServer({ script: [{ text: 'Done.' }] });
  const screen = fakeScreen();
  const signals = new EventEmitter();
  const env = { ...settingsOf(model), TERM: 'xterm', NO_COLOR: '1' };
  const screenOfRun = { ...screen, terminal: { ...screen.terminal, env: { ...env, MILLRACE_STORE: 'memory' } } };
  const ended = runInProcess([...args, '--port', '0'], { signals, screen: screenOfRun });
  await eventually(() => /http\S+/.test(screen.stdout()));
  await use(/http\S+/.exec(screen.stdout())?.[0] ?? '');
  signals.emit('SIGINT', 'SIGINT');
  await ended;
  const [request] = model.requests;
  const tools = request?.['tools'];
  return Array.isArray(tools) ? tools.map((each) => each.function.name) : [];
}

describe('the file tools of an agent that is served', () => {
  const overA2A = (url: string) => rpc(url, 'SendMessage', wireMessage('Hello')).then((response) => response.text());
  const overMcp = async (url: string) => {
    const client = new Client({ name: 'test', version: '1' });
    await client.connect(new StreamableHTTPClientTransport(new URL(url)));
    const { tools } = await client.listTools();
    await client.callTool({ name: tools[0]?.name ?? '', arguments: { message: 'Hello' } });
    await client.close();
  };

  it.each([
    ['serve', overA2A],
    ['mcp', overMcp],
  ] as const)('H-02 millrace %s offers them with --workspace only', async (command, use) => {
    expect(await offeredBy([command], use)).toEqual(builtIn);
    expect(await offeredBy([command, '--workspace', folder], use)).toEqual([...builtIn, ...fileTools]);
  });

  it.each([
    [['--workspace', 'no/such/folder'], 'working folder "no/such/folder" cannot be read; name one that exists'],
    [['--workspace', '.', '--tools', 'tools.mjs'], '--tools replaces the built-in tools, so --workspace has no effect'],
    [['--workspace', '.', '--agent', 'agent.mjs'], 'remove --base-url, --model'],
  ])('H-02 millrace serve refuses %j', async (args, sentence) => {
    const { exitCode, stderr } = await runInProcess(['serve', '--port', '0', ...args]);
    expect(stderr.replace(/\s+/g, ' ')).toContain(sentence);
    expect(exitCode).toBe(2);
  });

  it('H-02 --workspace never opens the store', async () => {
    const store = join(folder, 'journals');
    const args = ['serve', '--port', '0', '--store', `lmdb:${store}`, '--workspace', store];
    const { exitCode, stderr } = await runInProcess(args);
    expect(stderr).toContain('is private');
    expect(exitCode).toBe(2);
  });
});

/** The statuses and the answers of requests to a server with these flags, one after another. */
async function answersWith(
  flags: readonly string[],
  requests: readonly ((url: string) => Promise<Response>)[],
): Promise<readonly (readonly [number, string])[]> {
  const model = await modelServer({ script: Array.from({ length: 10 }, () => ({ text: 'Done.' })) });
  const screen = fakeScreen();
  const signals = new EventEmitter();
  const env = { ...settingsOf(model), TERM: 'xterm', NO_COLOR: '1', MILLRACE_STORE: 'memory' };
  const screenOfRun = { ...screen, terminal: { ...screen.terminal, env } };
  const ended = runInProcess(['serve', ...flags, '--port', '0'], { signals, screen: screenOfRun });
  await eventually(() => /http\S+/.test(screen.stdout()));
  const url = /http\S+/.exec(screen.stdout())?.[0] ?? '';
  const answers: (readonly [number, string])[] = [];
  const open: Response[] = [];
  for (const request of requests) {
    const response = await request(url);
    const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true;
    if (isStream) open.push(response);
    answers.push([response.status, isStream ? 'a stream' : await response.text()]);
  }
  await Promise.all(open.map(({ body }) => body?.cancel()));
  signals.emit('SIGINT', 'SIGINT');
  await ended;
  return answers;
}

/** The flags of a model that never answers. */
async function silentModel() {
  const sockets = new Set<Socket>();
  const model = createServer((socket) => void sockets.add(socket.on('error', () => {})));
  model.listen(0, '127.0.0.1');
  await once(model, 'listening');
  const { port } = model.address() as AddressInfo;
  const close = () => {
    for (const socket of sockets) socket.destroy();
    model.close();
  };
  return { flags: ['--base-url', `http://127.0.0.1:${port}/v1`, '--model', 'silent'], close };
}

describe('the limits of millrace serve', () => {
  const send =
    (text = 'Hi') =>
    (url: string) =>
      rpc(url, 'SendMessage', wireMessage(text));
  const card = (url: string) => rpc(url, 'GetExtendedAgentCard', {});

  it('H-17 --rate-limit counts the requests of one caller, which --trusted-proxies tells apart', async () => {
    const from = (address: string) => (url: string) => rpc(url, 'ListTasks', {}, { 'x-forwarded-for': address });
    const statuses = async (flags: readonly string[]) => {
      const requests = ['192.0.2.1', '192.0.2.2', '192.0.2.1'].map(from);
      return (await answersWith(['--rate-limit', '1', ...flags], requests)).map(([status]) => status);
    };
    expect(await statuses([])).toEqual([200, 429, 429]);
    expect(await statuses(['--trusted-proxies', '1'])).toEqual([200, 200, 429]);
    const many = Array.from({ length: 3 }, () => card);
    const unlimited = await answersWith(['--rate-limit', '0'], many);
    expect(unlimited.map(([status]) => status)).toEqual([200, 200, 200]);
  });

  it('H-17 --max-streams counts the open streams of one caller', async () => {
    const { flags: silent, close } = await silentModel();
    const stream = (url: string) => rpc(url, 'SendStreamingMessage', wireMessage('Hi'));
    const answers = await answersWith(['--max-streams', '2', ...silent], [stream, stream, stream]);
    expect(answers.map(([status, text]) => [status, /STREAM_LIMIT|a stream/.exec(text)?.[0]])).toEqual([
      [200, 'a stream'],
      [200, 'a stream'],
      [429, 'STREAM_LIMIT'],
    ]);
    close();
  });

  it('H-17 --max-turns counts the turns of one caller', async () => {
    const { flags: silent, close } = await silentModel();
    const immediate = (url: string) =>
      rpc(url, 'SendMessage', { ...wireMessage('Hi'), configuration: { returnImmediately: true } });
    const answers = await answersWith(['--max-turns', '1', ...silent], [immediate, immediate]);
    expect(answers.map(([status]) => status)).toEqual([200, 429]);
    expect(answers[1]?.[1]).toContain('TURN_LIMIT');
    close();
  });

  it('H-17 --max-kept and --max-history limit what is kept', async () => {
    const large = 'x'.repeat(250_000);
    const kept = await answersWith(['--max-kept', '1'], [send(large), send(large)]);
    expect(kept.map(([, text]) => text.includes('KEPT_LIMIT'))).toEqual([false, true]);
    const without = await answersWith(['--max-kept', '0'], [send(large), send(large)]);
    expect(without.map(([, text]) => text.includes('error'))).toEqual([false, false]);
  });

  it('H-17 --max-history limits the messages of one task', async () => {
    const { flags: silent, close } = await silentModel();
    let id = '';
    const immediate = async (url: string) => {
      const params = { ...wireMessage('Hi'), configuration: { returnImmediately: true } };
      const response = await rpc(url, 'SendMessage', params);
      id = /"id":"([0-9a-f-]{36})"/.exec(await response.clone().text())?.[1] ?? '';
      return response;
    };
    const more = (url: string) =>
      rpc(url, 'SendMessage', {
        message: { messageId: 'more', taskId: id, role: 'ROLE_USER', parts: [{ text: 'And?' }] },
      });
    const [, refused] = await answersWith(['--max-history', '1', ...silent], [immediate, more]);
    expect(refused?.[1]).toContain('as many messages as maxHistory allows (1)');
    close();
  });
});
