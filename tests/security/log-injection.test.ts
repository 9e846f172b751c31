import { once } from 'node:events';
import { createServer } from 'node:http';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { afterEach, expect, it } from '@jest/globals';
import { agent, type Logger } from 'millrace';
import { complain, guardedLogger, noteLine as note } from 'millrace/internals';
import { LmdbStateStore } from 'millrace/lmdb';
import { mcpTools } from 'millrace/mcp';
import { scriptedLLM } from 'millrace/testing';
import { ServeProcess } from '../a2a/server/serve-process.ts';
import { modelServer, settingsOf } from '../cli/commands/model-servers.ts';
import { runInProcess } from '../cli/run-in-process.ts';
import { fakeScreen } from '../cli/screen.ts';
import { temporaryFolder } from '../cli/tools/temporary-folder.ts';

const open: ServeProcess[] = [];
afterEach(async () => {
  for (const server of open.splice(0)) await server.end('SIGKILL');
});

/** Clears the screen, ends the line, and begins one that looks like ours. */
const attack = '\u001b[2J\u001b]0;owned\u0007\r\nmillrace: all is well\u009b31m\u202e\u2028';
const forged = /^millrace: all is well/m;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they must not be there.
const controls = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/;

it('H-05 nothing that a client sends reaches the log of a server as it is', async () => {
  const server = new ServeProcess(['--store', 'memory']);
  open.push(server);
  const url = await server.url();
  const post = (path: string, body: object, headers: object = {}) =>
    fetch(`${url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'a2a-version': '1.0', ...headers },
      body: JSON.stringify(body),
    }).then(async (response) => `${response.status} ${await response.text()}`);
  const rpc = (method: string, params: object, version: string, id: string = attack) =>
    post('/a2a/jsonrpc', { jsonrpc: '2.0', id, method, params }, { 'a2a-version': version });
  const authentication = { schemes: [attack, 'Bearer'], scheme: attack, credentials: attack };
  const push = { id: attack, url: 'https://example.com/', token: attack, authentication };
  const parts = [{ kind: 'text', text: attack }];
  const message = { kind: 'message', role: 'user', messageId: attack, contextId: attack, taskId: attack, parts };
  await rpc('tasks/pushNotificationConfig/set', { taskId: attack, pushNotificationConfig: push }, '0.3');
  await rpc('tasks/pushNotificationConfig/set', { taskId: 't', pushNotificationConfig: { ...push, id: 'a' } }, '0.3');
  await rpc('message/send', { message, configuration: { pushNotificationConfig: push } }, '0.3');
  await rpc(
    'SendMessage',
    { message: { role: 'ROLE_USER', messageId: attack, parts: [{ text: attack }] }, tenant: attack },
    '1.0',
  );
  await rpc(attack, {}, '1.0');
  await rpc('GetTask', { id: attack, tenant: attack }, attack.replace(/[^ -~]/g, ''));
  const path = encodeURIComponent(attack);
  await post(`/a2a/rest/${path}/message:send`, {
    tenant: 'other',
    message: { role: 'ROLE_USER', messageId: 'm', parts: [{ text: 'x' }] },
  });
  await post(`/a2a/rest/acme/message:send`, {
    tenant: attack,
    message: { role: 'ROLE_USER', messageId: 'm', parts: [{ text: 'x' }] },
  });
  await post(`/a2a/rest/acme/message:send?tenant=${path}`, {
    message: { role: 'ROLE_USER', messageId: 'n', parts: [{ text: 'x' }] },
  });
  await post(`/a2a/rest/tasks/${path}:cancel`, {});
  await fetch(`${url}/a2a/rest/${path}/tasks/t?tenant=${path}`, { headers: { 'a2a-version': '1.0' } }).then(
    (response) => response.text(),
  );
  expect(await server.end('SIGTERM')).toBe(0);
  expect(server.output.replace(/\n/g, '')).not.toMatch(controls);
  expect(server.output).not.toMatch(forged);
});

it('H-05 a logger gets messages and fields without control characters, and stacks with their lines', () => {
  const lines: unknown[] = [];
  const line = (message: string, fields?: object) => void lines.push([message, fields]);
  const logger: Logger = { debug: line, info: line, warn: line, error: line };
  const stack = `Error: bad ${attack}\n    at run (file.ts:1:2)\n    at next (file.ts:3:4)`;
  const log = guardedLogger(logger);
  log.warn(`turn of ${attack}`, { taskId: attack, nested: { list: [attack] }, count: 3, stack });
  expect(lines).toEqual([
    [
      expect.stringMatching(
        /^turn of \\u001b\[2J\\u001b\]0;owned\\u0007\\r\\nmillrace: all is well\\u009b31m\\u202e\\u2028$/,
      ),
      {
        taskId: expect.not.stringMatching(controls),
        nested: { list: [expect.not.stringMatching(controls)] },
        count: 3,
        stack: expect.any(String),
      },
    ],
  ]);
  const [[, fields]] = lines as [[string, { stack: string; taskId: string }]];
  expect(fields.taskId).not.toMatch(controls);
  expect(fields.stack.split('\n')).toEqual([
    expect.stringMatching(/^Error: bad \\u001b/),
    '    at run (file.ts:1:2)',
    '    at next (file.ts:3:4)',
  ]);
});

/** A bidirectional mark, and the password of an address. */
const hostile = `${attack}\u200e\u061c postgres://ada:hunter2Zq9vK2mXw7@db/x`;

function listOf(lines: string[]): Logger {
  const line = (message: string, fields?: object) => void lines.push(message, ...stringsIn(fields));
  return { debug: line, info: line, warn: line, error: line };
}

function stringsIn(value: unknown): readonly string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.entries(value).flat().flatMap(stringsIn) : [];
}

function expectClean(lines: readonly string[]): void {
  expect(lines.join('')).toContain('\\u001b[2J\\u001b]0;owned');
  expect(lines.join('')).not.toMatch(/[\u061c\u200e\u200f]|hunter2/);
  for (const line of lines) expect(line).not.toMatch(controls);
}

it('R-14 the logger of an agent gets errors of listeners without control characters and secrets', async () => {
  const lines: string[] = [];
  const served = agent({ provider: scriptedLLM([{ text: 'Hi.' }]), logger: listOf(lines) });
  served.on('task', () => {
    throw new Error(hostile);
  });
  await served.run('Hi.');
  expectClean(lines);
});

it('R-14 the logger of MCP tools gets what a server says without control characters and secrets', async () => {
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      if (request.method !== 'POST') return response.writeHead(405).end();
      const { id, method } = JSON.parse(body);
      if (id === undefined) return response.writeHead(202).end();
      const serverInfo = { name: 's', version: '1' };
      const result =
        method === 'initialize'
          ? { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo }
          : { tools: [{ name: hostile, inputSchema: { type: 'object', $schema: hostile } }] };
      const isKnown = method === 'initialize' || method === 'tools/list';
      const answer = isKnown ? { result } : { error: { code: -32_601, message: 'No.' } };
      return response
        .writeHead(200, { 'content-type': 'application/json' })
        .end(JSON.stringify({ jsonrpc: '2.0', id, ...answer }));
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : undefined;
  const lines: string[] = [];
  const tools = mcpTools({ servers: { s: { url: `http://127.0.0.1:${port}/` } }, logger: listOf(lines) });
  try {
    await agent({ provider: scriptedLLM([{ text: 'Well.' }]), toolProviders: [tools] }).run('Hi.');
    expectClean(lines);
  } finally {
    await tools.close();
    server.closeAllConnections();
    await once(server.close(), 'close');
  }
});

it('R-14 the failure of a turn says nothing secret of the error that caused it, which keeps it', async () => {
  const fail = () => {
    throw new Error(hostile);
  };
  const provider = { info: { providerName: 'p', model: 'm' }, call: fail };
  const error = await agent({ provider, retry: null })
    .run('Hi.')
    .catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ code: 'PROVIDER_FAILED', message: expect.stringContaining('[redacted]@db/x') });
  expect(Object(error).message).not.toContain('hunter2');
  expect(Object(error).cause.message).toContain('hunter2');
});

it('H-05 what a command says on stderr steers no terminal and forges no line', () => {
  for (const errTTY of [true, false]) {
    const screen = fakeScreen({ errTTY });
    note(screen.terminal, `the model failed: ${attack}`);
    complain(screen.terminal, `the tool failed: ${attack}`);
    expect(screen.stderr().replace(/\n/g, '')).not.toMatch(controls);
    expect(screen.stderr()).not.toMatch(forged);
  }
});

it('H-05 what a model and its tools say steers no terminal, live and in show and tasks', async () => {
  const folder = temporaryFolder({});
  const store = ['--store', `lmdb:${folder.path}/store`];
  const toolCalls = [
    { name: 'calculate', arguments: { expression: attack } },
    { name: attack, arguments: { [attack]: attack } },
  ];
  const script = [{ reasoning: attack, text: attack, toolCalls }, { text: attack }, { text: attack }];
  const model = await modelServer({ script });
  const env = settingsOf(model);
  const stdin = () => Readable.from([]);
  const run = await runInProcess(['run', attack, '--system', attack, ...store], { env, stdin: stdin() });
  expect(run.exitCode).toBe(0);
  const tasks = await runInProcess(['tasks', ...store], { env, stdin: stdin() });
  const journals = new LmdbStateStore({ path: `${folder.path}/store` });
  const [task] = journals.list();
  await journals.close();
  const show = await runInProcess(['show', task?.taskId ?? '', ...store], { env, stdin: stdin() });
  const asJson = [
    await runInProcess(['tasks', '--json', ...store], { env, stdin: stdin() }),
    await runInProcess(['show', task?.taskId ?? '', '--json', ...store], { env, stdin: stdin() }),
    await runInProcess(['run', attack, '--json', ...store], { env, stdin: stdin() }),
  ];
  folder.remove();
  for (const { stdout } of asJson) {
    expect(stdout.replace(/\n/g, '')).not.toMatch(controls);
    for (const line of stdout.trimEnd().split('\n')) expect(JSON.parse(line)).toEqual(expect.any(Object));
  }
  expect(JSON.parse(asJson[1]?.stdout ?? '')).toMatchObject({ finalMessage: attack });
  for (const { stdout, stderr } of [run, tasks, show]) {
    const shown = stdout + stderr;
    expect(shown).toContain('owned');
    for (const sequence of ['\u001b[2J', '\u001b]', '\u0007', '\u009b', '\u202e'])
      expect(shown).not.toContain(sequence);
  }
});
