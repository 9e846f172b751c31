import { mkdtempSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, it, jest } from '@jest/globals';
import { agent, InMemoryStateStore } from 'millrace';
import {
  fileAuthStore,
  type McpAuthStore,
  type McpHttpOptions,
  type McpTools,
  mcpTools,
  memoryAuthStore,
} from 'millrace/mcp';
import { recordSpans, scriptedLLM } from 'millrace/testing';
import { capturedConsole } from '../captured-console.ts';
import { type AuthorizationServer, authorizationServer, secretDescription } from './authorization-server.ts';
import { type SdkServer, sdkServer } from './sdk-server.ts';

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
});

const redirectUrl = 'http://127.0.0.1:9/callback';

const servers: SdkServer[] = [];
beforeAll(async () => {
  servers.push(await sdkServer({ version: 'v2', way: 'http' }));
});
afterAll(async () => {
  for (const each of servers) await each.close();
});

async function protectedServer(version: 'v1' | 'v2' = 'v2'): Promise<AuthorizationServer> {
  const [shared] = servers;
  const server = version === 'v2' && shared ? shared : await sdkServer({ version, way: 'http' });
  if (server !== shared) open.push(server);
  const { url } = { url: '', ...server.options };
  const made = await authorizationServer(String(url));
  open.push(made);
  return made;
}

/** A process of its own, as far as memory goes: only the stores are shared. */
function process(url: string, store: McpAuthStore, more: Partial<McpHttpOptions> = {}): McpTools {
  const server = { url, auth: { redirectUrl, store }, ...more };
  const tools = mcpTools({ servers: { it: server }, reconnect: { initialMs: 1, maxMs: 1 } });
  open.push(tools);
  return tools;
}

const adding = [{ toolCalls: [{ name: 'it__add', arguments: { a: 1, b: 2 } }] }, { text: 'Three.' }];
const signingIn = [{ toolCalls: [{ name: 'it__oauth_sign_in' }] }];

interface Helper {
  readonly tools: McpTools;
  readonly taskStateStore: InMemoryStateStore;
  readonly provider: ReturnType<typeof scriptedLLM>;
}

function helper({ tools, taskStateStore, provider }: Helper) {
  return agent({ id: 'helper', name: 'helper', provider, toolProviders: [tools], taskStateStore });
}

function addressIn(data: unknown): string {
  return typeof data === 'object' && data !== null ? String(Reflect.get(data, 'url')) : '';
}

/** A turn that ends in the question to sign in, and where that leads. */
async function asked(server: AuthorizationServer, { tools, taskStateStore, provider }: Helper) {
  const turn = helper({ tools, taskStateStore, provider }).startTurn('Add 1 and 2.');
  const { questions, status } = await turn.result();
  const address = addressIn(questions[0]?.data);
  return { turn, questions, status, address, callback: await server.visit(address) };
}

it('P-08 signs in within a turn that another process resumes, and the tools are there', async () => {
  const server = await protectedServer();
  const folder = join(mkdtempSync(join(tmpdir(), 'mcp-auth-')), 'store');
  const taskStateStore = new InMemoryStateStore();
  const provider = scriptedLLM([...signingIn, ...adding]);
  const first = await asked(server, { tools: process(server.url, fileAuthStore(folder)), taskStateStore, provider });
  expect(first).toMatchObject({ status: 'auth-required', questions: [{ kind: 'auth' }] });
  const { searchParams } = new URL(first.address);
  expect(Object.fromEntries(searchParams)).toMatchObject({ code_challenge_method: 'S256', resource: server.url });

  const tools = process(server.url, fileAuthStore(folder));
  await tools.finishSignIn('it', first.callback);
  const second = helper({ tools, taskStateStore, provider });
  const done = await second.resume(first.turn.taskId, { answers: { '1:0': true } }).result();
  expect(done).toMatchObject({ status: 'completed', text: 'Three.' });
  expect(provider.calls[2]?.messages.at(-1)).toMatchObject({ content: '3' });
  expect(server.resources).toEqual([server.url]);
  expect(server.asked.filter((path) => path === '/register')).toHaveLength(1);
  for (const file of readdirSync(folder)) expect(statSync(join(folder, file)).mode & 0o777).toBe(0o600);
  expect(statSync(folder).mode & 0o777).toBe(0o700);
  const kept = readdirSync(folder)
    .map((file) => readFileSync(join(folder, file), 'utf8'))
    .join();
  expect(server.secrets.filter((each) => kept.includes(each))).toHaveLength(2);
});

it('P-08 takes the answer in another process, and no output holds a token, a verifier or a description of an error', async () => {
  const server = await protectedServer();
  const [store, taskStateStore, spans] = [memoryAuthStore(), new InMemoryStateStore(), recordSpans()];
  const provider = scriptedLLM([...signingIn, { text: 'Signed in.' }, ...adding]);
  const said: unknown[] = [];
  const note = (...each: readonly unknown[]) => void said.push(each);
  const logger = { debug: note, info: note, warn: note, error: note };
  const printed = (['log', 'info', 'warn', 'error', 'debug'] as const).map((name) =>
    jest.spyOn(console, name).mockImplementation(note),
  );
  const servers = { it: { url: server.url, auth: { redirectUrl, store } } };
  const made = () => mcpTools({ servers, logger });
  const [before, after] = [made(), made()];
  open.push(before, after);
  const turn = agent({ id: 'helper', name: 'helper', provider, toolProviders: [before], taskStateStore }).startTurn(
    'go',
  );
  turn.subscribe(note);
  const [question] = (await turn.result()).questions;
  const callback = await server.visit(addressIn(question?.data));
  const second = agent({ id: 'helper', name: 'helper', provider, toolProviders: [after], taskStateStore });
  const resumed = second.resume(turn.taskId, { answers: { '1:0': callback } });
  resumed.subscribe(note);
  expect(await resumed.result()).toMatchObject({ status: 'completed', text: 'Signed in.' });
  const last = second.startTurn('Add 1 and 2.');
  last.subscribe(note);
  expect(await last.result()).toMatchObject({ text: 'Three.' });
  expect(provider.calls.at(-1)?.messages.at(-1)).toMatchObject({ content: '3' });
  for (const { taskId } of [turn, last]) note(await taskStateStore.read(taskId));
  note(spans.spans().map(({ name, attributes, events, status }) => ({ name, attributes, events, status })));
  for (const each of printed) each.mockRestore();
  const all = JSON.stringify(said);
  expect(all).toContain('Add 1 and 2.');
  const code = new URL(callback).searchParams.get('code');
  // Only the answer that the turn was given has the code, which is used up.
  const secrets = server.secrets.filter((each) => each !== code);
  expect(secrets).toHaveLength(3);
  for (const each of [...secrets, secretDescription]) expect(all).not.toContain(each);
  await spans.dispose();
});

/** Tools of a user who has signed in before. */
async function signedIn(server: AuthorizationServer, store: McpAuthStore): Promise<McpTools> {
  const tools = process(server.url, store);
  const taskStateStore = new InMemoryStateStore();
  const { callback } = await asked(server, { tools, taskStateStore, provider: scriptedLLM(signingIn) });
  await tools.finishSignIn('it', callback);
  await tools.connect();
  return tools;
}

it('P-08 gets another access token with the refresh token, without asking', async () => {
  const server = await protectedServer();
  const tools = await signedIn(server, memoryAuthStore());
  server.expire();
  const provider = scriptedLLM(adding);
  const turn = helper({ tools, taskStateStore: new InMemoryStateStore(), provider }).startTurn('Add 1 and 2.');
  expect(await turn.result()).toMatchObject({ status: 'completed', questions: [] });
  expect(provider.calls[1]?.messages.at(-1)).toMatchObject({ content: '3' });
  expect(server.asked.filter((path) => path === '/token')).toHaveLength(2);
});

it('P-08 asks in the middle of a call whose tokens are void, and another process runs the call', async () => {
  const server = await protectedServer();
  const store = memoryAuthStore();
  const tools = await signedIn(server, store);
  server.expire('refresh');
  const taskStateStore = new InMemoryStateStore();
  const provider = scriptedLLM(adding);
  const warnings = capturedConsole('warn');
  const first = await asked(server, { tools, taskStateStore, provider });
  expect(warnings).toEqual([]);
  expect(first).toMatchObject({ status: 'auth-required', questions: [{ kind: 'auth', toolName: 'it__add' }] });
  const other = helper({ tools: process(server.url, store), taskStateStore, provider });
  const done = await other.resume(first.turn.taskId, { answers: { '1:0': first.callback } }).result();
  expect(done).toMatchObject({ status: 'completed', text: 'Three.' });
  expect(provider.calls[1]?.messages.at(-1)).toMatchObject({ content: '3' });
});

it('P-08 asks for more rights where a tool needs them, and at most three times in a call', async () => {
  const server = await protectedServer();
  const tools = await signedIn(server, memoryAuthStore());
  server.need('write');
  const taskStateStore = new InMemoryStateStore();
  const provider = scriptedLLM([...adding, ...adding]);
  const first = await asked(server, { tools, taskStateStore, provider });
  expect(new URL(first.address).searchParams.get('scope')?.split(' ')).toEqual(
    expect.arrayContaining(['read', 'write']),
  );
  const one = helper({ tools, taskStateStore, provider });
  const done = await one.resume(first.turn.taskId, { answers: { '1:0': first.callback } }).result();
  expect(done).toMatchObject({ status: 'completed', text: 'Three.' });
  expect(provider.calls[1]?.messages.at(-1)).toMatchObject({ content: '3' });

  server.need('never-granted');
  let turn = one.startTurn('Add 1 and 2.');
  let signIns = 0;
  for (let result = await turn.result(); result.questions.length > 0; result = await turn.result()) {
    const [question] = result.questions;
    const callback = await server.visit(addressIn(question?.data));
    signIns++;
    turn = one.resume(turn.taskId, { answers: { [String(question?.id)]: callback } });
  }
  expect(signIns).toBe(3);
  expect(provider.calls.at(-1)?.messages.at(-1)).toMatchObject({ status: 'error' });
});

it.each([
  [
    'the state of another sign-in',
    (url: URL) => url.searchParams.set('state', 'x'.repeat(43)),
    'belongs to no sign-in',
  ],
  ['no state', (url: URL) => url.searchParams.delete('state'), 'belongs to no sign-in'],
  ['another issuer', (url: URL) => url.searchParams.set('iss', 'http://evil.test'), 'cannot be exchanged'],
  ['a code that is not known', (url: URL) => url.searchParams.set('code', 'guess'), 'answered with invalid_grant'],
  [
    'a refusal',
    (url: URL) => {
      url.searchParams.delete('code');
      url.searchParams.set('error', 'access_denied');
      url.searchParams.set('error_description', secretDescription);
    },
    'answered with access_denied',
  ],
])('P-08 does not sign in by an answer with %s, and says why', async (_what, change, why) => {
  const server = await protectedServer();
  const tools = process(server.url, memoryAuthStore());
  const provider = scriptedLLM(signingIn);
  const { callback } = await asked(server, { tools, taskStateStore: new InMemoryStateStore(), provider });
  const changed = new URL(callback);
  change(changed);
  const warnings = capturedConsole('warn');
  const failure = tools.finishSignIn('it', changed.href);
  await expect(failure).rejects.toMatchObject({ code: 'TOOL_FAILED', message: expect.stringContaining(why) });
  await expect(failure).rejects.not.toMatchObject({ message: expect.stringContaining(secretDescription) });
  expect(warnings).toEqual([]);
});

it('P-08 takes an answer once', async () => {
  const server = await protectedServer();
  const tools = process(server.url, memoryAuthStore());
  const provider = scriptedLLM(signingIn);
  const { callback } = await asked(server, { tools, taskStateStore: new InMemoryStateStore(), provider });
  await tools.finishSignIn('it', callback);
  await expect(tools.finishSignIn('it', callback)).rejects.toMatchObject({ code: 'TOOL_FAILED' });
});

it('P-08 sends no code and no verifier to another origin that the authorization server redirects to', async () => {
  const [server, other] = [await protectedServer(), await protectedServer()];
  server.redirectTokens(`${other.issuer}/token`);
  const tools = process(server.url, memoryAuthStore());
  const provider = scriptedLLM(signingIn);
  const { callback } = await asked(server, { tools, taskStateStore: new InMemoryStateStore(), provider });
  await expect(tools.finishSignIn('it', callback)).rejects.toMatchObject({ code: 'TOOL_FAILED' });
  expect(server.asked).toContain('/token');
  expect(other.asked).toEqual([]);
});

it('P-08 sends the headers of an MCP server to no authorization server', async () => {
  const server = await protectedServer();
  const tools = process(server.url, memoryAuthStore(), { headers: { 'x-api-key': 'key-of-the-mcp-server' } });
  const provider = scriptedLLM(signingIn);
  const { callback } = await asked(server, { tools, taskStateStore: new InMemoryStateStore(), provider });
  await tools.finishSignIn('it', callback);
  expect(server.tokenHeaders).toHaveLength(1);
  expect(JSON.stringify(server.tokenHeaders)).not.toContain('key-of-the-mcp-server');
});

it('P-08 signs in to a server of before 2026-07-28', async () => {
  const server = await protectedServer('v1');
  const tools = await signedIn(server, memoryAuthStore());
  const provider = scriptedLLM(adding);
  const turn = helper({ tools, taskStateStore: new InMemoryStateStore(), provider }).startTurn('Add 1 and 2.');
  await turn.result();
  expect(provider.calls[1]?.messages.at(-1)).toMatchObject({ content: '3' });
});

it('P-08 a user who declines fails the call', async () => {
  const server = await protectedServer();
  const tools = process(server.url, memoryAuthStore());
  const taskStateStore = new InMemoryStateStore();
  const provider = scriptedLLM([...signingIn, { text: 'Then not.' }]);
  const { turn } = await asked(server, { tools, taskStateStore, provider });
  const one = helper({ tools, taskStateStore, provider });
  const done = await one.resume(turn.taskId, { answers: { '1:0': { action: 'decline' } } }).result();
  expect(done).toMatchObject({ status: 'completed', text: 'Then not.' });
  expect(provider.calls[1]?.messages.at(-1)).toMatchObject({ content: expect.stringContaining('declined') });
});
