import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { agent, InMemoryStateStore } from 'millrace';
import { fileAuthStore, type McpAuthStore, type McpTools, mcpTools, memoryAuthStore } from 'millrace/mcp';
import { type ScriptedLLMStep, scriptedLLM } from 'millrace/testing';
import { capturedConsole } from '../captured-console.ts';
import { eventually } from '../eventually.ts';
import { type AuthorizationServer, authorizationServer } from './authorization-server.ts';
import { OwnProvider } from './own-provider.ts';
import { type SdkServer, sdkServer } from './sdk-server.ts';

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
});

let sdk: SdkServer | undefined;
beforeAll(async () => {
  sdk = await sdkServer({ version: 'v2', way: 'http' });
});
afterAll(async () => {
  await sdk?.close();
});

async function protectedServer(): Promise<AuthorizationServer> {
  const { url } = { url: '', ...sdk?.options };
  const server = await authorizationServer(String(url));
  open.push(server);
  return server;
}

const redirectUrl = 'http://127.0.0.1:9/callback';

function toolsAt({ url }: AuthorizationServer, store: McpAuthStore): McpTools {
  const auth = { redirectUrl, store };
  const tools = mcpTools({ servers: { it: { url, auth } }, reconnect: { initialMs: 1, maxMs: 1 } });
  open.push(tools);
  return tools;
}

/** Like one that an application writes: it can load, save and delete, and takes time for it. */
function slowStore(): McpAuthStore {
  const kept = memoryAuthStore();
  const later = () => new Promise((resolve) => setImmediate(resolve));
  return {
    load: (key) => later().then(() => kept.load(key)),
    save: (key, value) => later().then(() => kept.save(key, value)),
    delete: (key) => later().then(() => kept.delete(key)),
  };
}

function folder(): string {
  return join(mkdtempSync(join(tmpdir(), 'mcp-race-')), 'store');
}

function adding(calls: number): ScriptedLLMStep[] {
  const toolCalls = Array.from({ length: calls }, (_, index) => ({ name: 'it__add', arguments: { a: index, b: 0 } }));
  return [
    { toolCalls },
    ({ messages }) => ({
      text: messages
        .slice(-calls)
        .map(({ content }) => content)
        .join(),
    }),
  ];
}

function helper(tools: McpTools, steps: readonly ScriptedLLMStep[]) {
  const taskStateStore = new InMemoryStateStore();
  return agent({ id: 'h', provider: scriptedLLM(steps), toolProviders: [tools], taskStateStore, toolConcurrency: 8 });
}

/** A question to sign in, and what the browser comes back with. */
async function asked(server: AuthorizationServer, tools: McpTools): Promise<string> {
  const { questions } = await helper(tools, [{ toolCalls: [{ name: 'it__oauth_sign_in' }] }]).run('go');
  return server.visit(String(Reflect.get(Object(questions[0]?.data), 'url')));
}

async function signedIn(server: AuthorizationServer, store: McpAuthStore): Promise<McpTools> {
  const tools = toolsAt(server, store);
  await tools.finishSignIn('it', await asked(server, tools));
  await tools.connect();
  return tools;
}

const count = ({ asked: all }: AuthorizationServer, path: string) => all.filter((each) => each === path).length;

describe('R-06 an access token that has expired', () => {
  it.each([
    ['memoryAuthStore', memoryAuthStore],
    ['fileAuthStore', () => fileAuthStore(folder())],
    ['a store of the application', slowStore],
  ])('R-06 is refreshed once for five calls at once, with %s', async (_name, made) => {
    const server = await protectedServer();
    const tools = await signedIn(server, made());
    const printed = [capturedConsole('warn'), capturedConsole('error')];
    for (let round = 1; round <= 2; round++) {
      server.expire();
      const release = server.holdTokens();
      const before = server.refused;
      const running = helper(tools, adding(5)).run('Add.');
      await eventually(() => server.refused === before + 5);
      release();
      expect(await running).toMatchObject({ status: 'completed', text: '0,1,2,3,4', questions: [] });
      expect(count(server, '/token')).toBe(1 + round);
    }
    expect(server.reused).toBe(0);
    expect(printed).toEqual([[], []]);
  });

  it.each([
    ['one store', () => [memoryAuthStore()]],
    ['two stores of one folder', () => [folder()].flatMap((shared) => [fileAuthStore(shared), fileAuthStore(shared)])],
  ])('R-06 is refreshed once for turns of two mcpTools with %s', async (_name, made) => {
    const server = await protectedServer();
    const [first = memoryAuthStore(), second = first] = made();
    const all = [await signedIn(server, first), toolsAt(server, second)];
    await all[1]?.connect();
    server.expire();
    const ended = await Promise.all(all.map((tools) => helper(tools, adding(3)).run('Add.')));
    for (const each of ended) expect(each).toMatchObject({ status: 'completed', text: '0,1,2', questions: [] });
    expect([count(server, '/token'), server.reused]).toEqual([2, 0]);
  });

  it('R-06 is refreshed once by a provider of the application', async () => {
    const server = await protectedServer();
    const provider = new OwnProvider();
    const tools = mcpTools({ servers: { it: { url: server.url, auth: { provider } } }, reconnect: { initialMs: 1 } });
    open.push(tools);
    await expect(tools.connect()).resolves.toBeUndefined();
    await provider.finish(server.url, await server.visit(String(provider.address)));
    await eventually(
      async () =>
        (
          await helper(tools, adding(1))
            .run('Add.')
            .catch(() => undefined)
        )?.text === '0',
    );
    server.expire();
    expect(await helper(tools, adding(5)).run('Add.')).toMatchObject({ text: '0,1,2,3,4' });
    expect([count(server, '/token'), server.reused]).toEqual([2, 0]);
  });

  it('R-06 costs no sign-in while its authorization server is away, and the refresh token stays', async () => {
    const server = await protectedServer();
    const tools = await signedIn(server, memoryAuthStore());
    server.expire();
    server.failTokens(503);
    const failed = await helper(tools, adding(1)).run('Add.');
    expect(failed).toMatchObject({ status: 'completed', questions: [], text: expect.stringContaining('access token') });
    server.failTokens(undefined);
    expect(await helper(tools, adding(1)).run('Add.')).toMatchObject({ status: 'completed', text: '0' });
  });

  it('R-06 is refreshed by the call that was cancelled meanwhile, and close() waits until the new one is stored', async () => {
    const server = await protectedServer();
    const store = memoryAuthStore();
    const tools = await signedIn(server, store);
    server.expire();
    const release = server.holdTokens();
    const turn = helper(tools, adding(1)).startTurn('Add.');
    const ended = turn.result().catch((error: unknown) => error);
    await eventually(() => count(server, '/token') === 2);
    await turn.cancel();
    await ended;
    const closed = tools.close();
    release();
    await closed;
    expect(await helper(toolsAt(server, store), adding(1)).run('Add.')).toMatchObject({ text: '0', questions: [] });
    expect([count(server, '/token'), server.reused]).toEqual([2, 0]);
  });
});

describe('R-06 what another has put in the store', () => {
  it('R-06 is used by a call whose refresh failed, and stays', async () => {
    const server = await protectedServer();
    const [store, other] = [memoryAuthStore(), memoryAuthStore()];
    const tools = await signedIn(server, store);
    await signedIn(server, other);
    const key = `tokens ${server.url}`;
    const theirs = await other.load(key);
    const own = await store.load(key);
    await store.save(key, { ...Object(own), access_token: 'void-access-token', refresh_token: 'void-refresh-token' });
    const release = server.holdTokens();
    const running = helper(tools, adding(2)).run('Add.');
    await eventually(() => count(server, '/token') === 3);
    // A process that knows of no lock.
    await store.save(key, theirs);
    release();
    expect(await running).toMatchObject({ status: 'completed', text: '0,1', questions: [] });
    expect(await store.load(key)).toEqual(theirs);
  });

  it('R-06 is one registration for connections that begin at once, and another where it was forgotten', async () => {
    const server = await protectedServer();
    const shared = folder();
    const all = [fileAuthStore(shared), fileAuthStore(shared)].map((store) => toolsAt(server, store));
    const callbacks = await Promise.all(all.map((tools) => asked(server, tools)));
    expect(count(server, '/register')).toBe(1);
    server.forgetClients();
    const [first, second] = callbacks;
    await expect(all[0]?.finishSignIn('it', String(first))).rejects.toThrow('invalid_client');
    await expect(all[1]?.finishSignIn('it', String(second))).rejects.toThrow('invalid_client');
    const tools = toolsAt(server, fileAuthStore(shared));
    await tools.finishSignIn('it', await asked(server, tools));
    expect(await helper(tools, adding(1)).run('Add.')).toMatchObject({ text: '0' });
    expect(count(server, '/register')).toBe(2);
  });

  it('R-06 is a sign-in for each that is asked at once: all can be finished, each with its own client', async () => {
    const server = await protectedServer();
    const store = slowStore();
    const all = [1, 2, 3].map(() => toolsAt(server, store));
    const callbacks = await Promise.all(all.map((tools) => asked(server, tools)));
    // Registered anew by a process that did not see the one there was.
    await store.delete(`client ${server.url}`);
    const later = toolsAt(server, store);
    callbacks.push(await asked(server, later));
    expect(new Set(callbacks.map((each) => new URL(each).searchParams.get('state'))).size).toBe(4);
    for (const callback of callbacks) {
      await later.finishSignIn('it', callback);
      server.expire();
      expect(await helper(toolsAt(server, store), adding(1)).run('Add.')).toMatchObject({ text: '0', questions: [] });
    }
    expect(count(server, '/register')).toBe(2);
    await expect(later.finishSignIn('it', String(callbacks[0]))).rejects.toThrow('no sign-in that waits');
  });

  it('R-06 takes an answer once, and again where the authorization server could not be asked', async () => {
    const server = await protectedServer();
    const tools = toolsAt(server, slowStore());
    const callback = await asked(server, tools);
    server.failTokens(503);
    await expect(tools.finishSignIn('it', callback)).rejects.toThrow('cannot be reached');
    server.failTokens(undefined);
    const both = await Promise.allSettled([tools.finishSignIn('it', callback), tools.finishSignIn('it', callback)]);
    expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    expect(count(server, '/token')).toBe(2);
  });
});
