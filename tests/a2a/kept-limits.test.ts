import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, jest } from '@jest/globals';
import { type Clock, InMemoryStateStore, type TaskStateStore } from 'millrace';
import { apiKeyAuth, type RouteAgent } from 'millrace/a2a';
import { defaultLimits, groupOf, KeptInStores, resolveLimits } from 'millrace/internals';
import { LmdbStateStore } from 'millrace/lmdb';
import { openAIHandler } from 'millrace/openai';
import { RedisMessageStore } from 'millrace/redis';
import { fakeClock, gate } from 'millrace/testing';
import { plainTools } from '../core/plain-tools.ts';
import { describeRedis } from '../stores/redis/describe-redis.ts';
import { RedisBench } from '../stores/redis/redis-bench.ts';
import { a2aBench } from './bench.ts';
import { answerOf, rpc, serverBench, wireMessage } from './server/test-server.ts';

const on = serverBench();
const keys = [
  { id: 'alice', key: 'the-key-of-alice-is-long' },
  { id: 'bob', key: 'the-key-of-bob-is-longer' },
];
const [alice = {}, bob = {}] = keys.map(({ key }) => ({ 'x-api-key': key }));
const provider = { call: async () => ({ message: { role: 'assistant' as const, content: 'Done.' } }) };
const long = 'x'.repeat(4_000);

async function keeping(store: TaskStateStore, maxKeptBytes: number, clock?: Clock) {
  const agent = on.echo([], { provider, taskStateStore: store, clock });
  return on.serve({ agent, auth: apiKeyAuth({ keys }), limits: { maxKeptBytes } });
}

function lmdb(): { readonly open: () => LmdbStateStore } {
  const path = mkdtempSync(join(tmpdir(), 'millrace-kept-'));
  on.after(() => rmSync(path, { recursive: true }));
  const open = () => {
    const store = new LmdbStateStore({ path });
    on.after(() => store.close());
    return store;
  };
  return { open };
}

const send = async (url: string, headers: Readonly<Record<string, string>>) => {
  const { error } = await answerOf(rpc(url, 'SendMessage', wireMessage(long), headers));
  return error === undefined ? 'kept' : error.data[0].reason;
};

describe('what is kept for one caller', () => {
  it.each([
    ['a store that counts bytes', () => lmdb().open()],
    ['one that does not', () => new InMemoryStateStore()],
  ])('H-17 is limited over all tasks, also of earlier processes, and not for others: %s', async (_, open) => {
    const store = open();
    const first = await keeping(store, 2 ** 30);
    for (let count = 0; count < 3; count++) expect(await send(first.url, alice)).toBe('kept');
    const { url } = await keeping(store, 15_000);
    expect(await send(url, alice)).toBe('KEPT_LIMIT');
    expect(await send(url, bob)).toBe('kept');
    // What there is can be read, and what came before is answered as before.
    const { result } = await answerOf(rpc(url, 'ListTasks', {}, alice));
    expect(result.tasks).toHaveLength(3);
  });

  it.each([
    ['whose keys tell them apart', alice, bob],
    ['of a server that asks nobody', {}, undefined],
  ])('H-17 is limited over A2A and the handlers beside it together, of callers %s', async (_, caller, other) => {
    const store = new InMemoryStateStore();
    const agent = on.echo([], { provider, taskStateStore: store });
    const { url } = await on.serve({
      agent,
      ...(other && { auth: apiKeyAuth({ keys }) }),
      limits: { maxKeptBytes: 120_000 },
      routes: [
        {
          path: '/v1',
          handlerOf: ({ agent: served, ...callers }) => openAIHandler({ ...callers, agents: [served] }),
        },
      ],
    });
    const complete = async (headers: object) => {
      const body = JSON.stringify({ model: 'echo', messages: [{ role: 'user', content: long }] });
      const init = { method: 'POST', body, headers: { ...headers, 'content-type': 'application/json' } };
      return fetch(`${url}/v1/chat/completions`, init);
    };
    for (let count = 0; count < 3; count++) expect((await complete(caller)).status).toBe(200);
    for (let count = 0; count < 3; count++) expect(await send(url, caller)).toBe('kept');
    let refused = await complete(caller);
    for (let count = 0; count < 9 && refused.status === 200; count++) refused = await complete(caller);
    expect([refused.status, refused.headers.get('x-should-retry')]).toEqual([507, 'false']);
    expect(await refused.json()).toMatchObject({ error: { code: 'FULL' } });
    expect(await send(url, caller)).toBe('KEPT_LIMIT');
    const all = store.list({ limit: 100 }).length;
    expect(all).toBeGreaterThan(6);
    if (other) expect((await complete(other)).status).toBe(200);
  });

  it('H-17 counts what an earlier process kept for a caller of the handlers beside A2A', async () => {
    const store = new InMemoryStateStore();
    const agent = on.echo([], { provider, taskStateStore: store });
    const routes = [
      {
        path: '/v1',
        handlerOf: ({ agent: served, ...callers }: RouteAgent) => openAIHandler({ ...callers, agents: [served] }),
      },
    ];
    const ask = async (url: string, headers: object) => {
      const body = JSON.stringify({ model: 'echo', input: long });
      const init = { method: 'POST', body, headers: { ...headers, 'content-type': 'application/json' } };
      return (await fetch(`${url}/v1/responses`, init)).status;
    };
    const first = await on.serve({ agent, auth: apiKeyAuth({ keys }), routes });
    for (let count = 0; count < 3; count++) expect(await ask(first.url, alice)).toBe(200);
    const { url } = await on.serve({ agent, auth: apiKeyAuth({ keys }), routes, limits: { maxKeptBytes: 30_000 } });
    expect(await send(url, alice)).toBe('KEPT_LIMIT');
    expect(await ask(url, alice)).toBe(507);
    expect(await ask(url, bob)).toBe(200);
  });

  const name = 'x'.repeat(20_000);
  it.each<readonly [string, object, object]>([
    ['filename', { filename: name }, {}],
    ['mediaType', { mediaType: `text/${name}` }, {}],
    ['extensions', {}, { extensions: [name] }],
    ['referenceTaskIds', {}, { referenceTaskIds: Array.from(name.slice(1_000)) }],
  ])('H-17 counts all members of a message: %s', async (_, ofPart, ofMessage) => {
    const agent = on.echo([], { provider, taskStateStore: new InMemoryStateStore() });
    const message = { messageId: 'large', role: 'ROLE_USER', parts: [{ text: 'Hi', ...ofPart }], ...ofMessage };
    const limited = await on.serve({ agent, limits: { maxMessageBytes: 10_000 } });
    const { error } = await answerOf(rpc(limited.url, 'SendMessage', { message }));
    expect(error.message).toMatch(/larger than 10000 bytes/);
    const kept = await on.serve({ agent, limits: { maxKeptBytes: 10_000 } });
    expect((await answerOf(rpc(kept.url, 'SendMessage', { message }))).error.data[0].reason).toBe('KEPT_LIMIT');
  });

  it.each([
    ['short messages to a long conversation', 60_000, 10],
    ['long messages to a new one', 10, 20_000],
    ['short messages', 10, 10],
  ])('H-17 is limited for those that come together, whatever their turns copy: %s', async (_, first, later) => {
    const store = new InMemoryStateStore();
    const max = 300_000;
    // It stands still: nothing is counted once more.
    const clock = fakeClock();
    const agent = on.echo([], { provider, taskStateStore: store, clock });
    const { url } = await on.serve({
      agent,
      auth: apiKeyAuth({ keys }),
      rateLimit: null,
      limits: { maxKeptBytes: max },
    });
    const tell = async (messageId: string, length: number) => {
      const message = { messageId, contextId: 'c', role: 'ROLE_USER', parts: [{ text: 'x'.repeat(length) }] };
      return (await answerOf(rpc(url, 'SendMessage', { message }, alice))).error;
    };
    expect(await tell('first', first)).toBeUndefined();
    const errors = await Promise.all(Array.from({ length: 100 }, (_, number) => tell(`m${number}`, later)));
    const kept = new KeptInStores({
      agentId: agent.id,
      journals: store,
      conversations: store.messages,
      artifacts: undefined,
      push: undefined,
      ready: async (ask) => ask(),
    });
    const [{ contextId } = { contextId: '' }] = store.list();
    const group = groupOf(contextId) ?? '';
    expect(await kept.count({ group, isAnonymous: false }, Number.POSITIVE_INFINITY)).toBeLessThan(max);
    expect(errors.some((error) => error === undefined)).toBe(true);
    expect(errors.filter((error) => error).every(({ data }) => data[0].reason === 'KEPT_LIMIT')).toBe(true);
  });

  it('H-17 lets a message through that comes again, and new ones once tasks and conversations were deleted', async () => {
    const store = new InMemoryStateStore();
    const clock = fakeClock();
    const { url } = await keeping(store, 20_000, clock);
    const twice = wireMessage(long, 'twice');
    const one = await answerOf(rpc(url, 'SendMessage', twice, alice));
    expect(await send(url, alice)).toBe('KEPT_LIMIT');
    expect((await answerOf(rpc(url, 'SendMessage', twice, alice))).result.task.id).toBe(one.result.task.id);
    store.delete(one.result.task.id);
    for (const { contextId } of (await store.messages.contexts()).contexts) await store.messages.delete(contextId);
    expect(await send(url, alice)).toBe('KEPT_LIMIT');
    clock.advance(2_000);
    expect(await send(url, alice)).toBe('kept');
  });
});

describe('what is kept for those who do not say who they are', () => {
  const ofTenant = (url: string, tenant: string) =>
    answerOf(rpc(url, 'SendMessage', { tenant, ...wireMessage(long) })).then(({ error }) =>
      error === undefined ? 'kept' : error.data[0].reason,
    );

  it.each([
    ['LMDB', () => lmdb().open()],
    ['memory', () => new InMemoryStateStore()],
  ])('H-17 is limited over all the tenants that they name, also after a restart, in %s', async (_, open) => {
    const taskStateStore = open();
    const serve = (maxKeptBytes: number) =>
      on.serve({ agent: on.echo([], { provider, taskStateStore }), limits: { maxKeptBytes } });
    const first = await serve(45_000);
    const sent = await Promise.all(['a', 'b', 'c', 'd', 'e'].map((tenant) => ofTenant(first.url, tenant)));
    expect(sent.filter((said) => said === 'kept')).toHaveLength(3);
    await first.server.close();
    const { url } = await serve(45_000);
    expect(await ofTenant(url, 'f')).toBe('KEPT_LIMIT');
    // They stay apart otherwise.
    const { result } = await answerOf(rpc(url, 'ListTasks', { tenant: 'f' }));
    expect(result.tasks).toEqual([]);
  });
});

describeRedis('what is kept by two processes', () => {
  const bench = new RedisBench();

  it('H-17 is limited for both together', async () => {
    const messages = () => {
      const store = new RedisMessageStore({ redis: bench.server.url });
      on.after(() => store.close());
      return store;
    };
    const clock = fakeClock();
    const serve = () =>
      on.serve({
        agent: on.echo([], { provider, clock, taskStateStore: bench.open(), messageStore: messages() }),
        auth: apiKeyAuth({ keys }),
        limits: { maxKeptBytes: 30_000 },
        rateLimit: null,
      });
    const [one, two] = await Promise.all([serve(), serve()]);
    const sendBoth = () => Promise.all([send(one.url, alice), send(two.url, alice)]);
    const said: string[] = [];
    for (let round = 0; round < 5; round++) {
      said.push(...(await sendBoth()));
      // Each learns what the other let in with its next count.
      clock.advance(31_000);
    }
    expect(await sendBoth()).toEqual(['KEPT_LIMIT', 'KEPT_LIMIT']);
    const tasks = said.filter((each) => each === 'kept').length;
    expect(tasks).toBeGreaterThan(1);
    // One round may pass the limit together.
    expect(tasks * 2 * 4_000).toBeLessThan(30_000 + 2 * 10_000);
    expect(await send(one.url, bob)).toBe('kept');
  });
});

describe('the limits of what callers send', () => {
  it.each([
    [{ maxKeptByte: 5 }, /^limits\.maxKeptByte is not a limit; the limits are: maxParts, .*maxKeptBytes\.$/],
    [{ maxHistory: 0 }, /^limits\.maxHistory must be a number above 0/],
    [{ maxParts: '5' }, /^limits\.maxParts must be a number above 0/],
    [null, /^limits must be an object/],
    [5, /^limits must be an object/],
  ])('are refused where they are %j, for nothing would be limited', (limits, message) => {
    const refused = () => a2aBench({ handler: { limits: JSON.parse(JSON.stringify(limits)) } });
    expect(refused).toThrow(
      expect.objectContaining({ code: 'INVALID_CONFIG', message: expect.stringMatching(message) }),
    );
  });

  it('have their defaults where they are undefined', () => {
    expect(resolveLimits({ maxParts: undefined, maxHistory: 3 })).toEqual({ ...defaultLimits, maxHistory: 3 });
    expect(resolveLimits({ maxKeptBytes: Number.POSITIVE_INFINITY }).maxKeptBytes).toBe(Number.POSITIVE_INFINITY);
  });
});

describe('the history of one task', () => {
  it('H-17 takes time and reads in proportion to the messages that a running task is sent', async () => {
    const wait = gate();
    const store = new InMemoryStateStore();
    const agent = on.echo([{ toolCalls: [{ name: 'wait' }] }, { text: 'Done.' }], {
      taskStateStore: store,
      toolProviders: [plainTools({ wait: () => wait.pass() })],
    });
    const { url } = await on.serve({ agent, rateLimit: null, maxTurns: 1_000 });
    on.after(() => wait.open());
    const immediately = { configuration: { returnImmediately: true } };
    const { result } = await answerOf(rpc(url, 'SendMessage', { ...wireMessage('Work'), ...immediately }));
    const taskId = result.task.id;
    await wait.reached;
    const listening = jest.spyOn(store, 'commands');
    const posting = jest.spyOn(store, 'post');
    for (let number = 0; number < 50; number++) {
      const more = { messageId: `more${number}`, taskId, role: 'ROLE_USER', parts: [{ text: 'More.' }] };
      const { error } = await answerOf(rpc(url, 'SendMessage', { message: more, ...immediately }));
      expect(error).toBeUndefined();
    }
    expect(posting).toHaveBeenCalledTimes(50);
    expect(listening).not.toHaveBeenCalled();
  });

  it('H-17 is limited over many turns of one task, and a message that came before is no new one', async () => {
    const store = new InMemoryStateStore();
    const ask = () => ({ toolCalls: [{ name: 'ask' }] });
    const agent = on.echo(Array.from({ length: 20 }, ask), {
      taskStateStore: store,
      toolProviders: [plainTools({ ask: { needsApproval: true, execute: () => 'Yes.' } })],
    });
    const { url } = await on.serve({ agent, limits: { maxHistory: 12 } });
    const { result } = await answerOf(rpc(url, 'SendMessage', wireMessage('Hi')));
    const { id: taskId } = result.task;
    const approve = (number: number) => ({
      message: { messageId: `go${number}`, taskId, role: 'ROLE_USER', parts: [{ data: { approved: true } }] },
    });
    const said: string[] = [];
    for (let number = 0; said.at(-1) !== 'HISTORY_LIMIT' && number < 20; number++) {
      const { error } = await answerOf(rpc(url, 'SendMessage', approve(number)));
      said.push(error === undefined ? 'taken' : error.data[0].reason);
    }
    expect(said.at(-1)).toBe('HISTORY_LIMIT');
    expect(said.length).toBeLessThan(12);
    expect((await answerOf(rpc(url, 'SendMessage', approve(0)))).error).toBeUndefined();
  });

  it('H-17 is limited: a task that has as many messages as it may takes no more', async () => {
    const asks = { kind: 'input' as const };
    const agent = on.echo([{ toolCalls: [{ name: 'ask' }] }, { text: 'Done.' }], {
      taskStateStore: new InMemoryStateStore(),
      toolProviders: [
        {
          getTools: () => [
            { type: 'function', function: { name: 'ask', description: 'Asks.', parameters: { type: 'object' } } },
          ],
          executeTool: (call, { ask }) => ({ toolCallId: call.id, content: String(ask(asks)), success: true }),
        },
      ],
    });
    const { url } = await on.serve({ agent, limits: { maxHistory: 2 } });
    const { result } = await answerOf(rpc(url, 'SendMessage', wireMessage('Hi')));
    const { id } = result.task;
    const more = { message: { messageId: 'more', taskId: id, role: 'ROLE_USER', parts: [{ text: 'Yes.' }] } };
    const refused = await answerOf(rpc(url, 'SendMessage', more));
    expect(refused.error).toMatchObject({
      message: expect.stringContaining('maxHistory allows (2) and takes no more'),
    });
    const canceled = await answerOf(rpc(url, 'CancelTask', { id }));
    expect(canceled.result.status.state).toBe('TASK_STATE_CANCELED');
  });
});
