import { describe, expect, it } from '@jest/globals';
import { InMemoryMessageStore, InMemoryStateStore } from 'millrace';
import { plainTools } from '../core/plain-tools.ts';
import { a2aBench, type Caller, call, refusal, send } from './bench.ts';
import { collect, message, request } from './messages.ts';

const says = (text: string) => () => ({ text });
const list = { tenant: '', contextId: '', status: 0, pageToken: '', statusTimestampAfter: undefined } as const;
const unknownCaller = '_A2AError: Authentication is required.';
const notFound = 'TaskNotFoundError: There is no such task.';

describe('another owner’s task', () => {
  const others: readonly (readonly [string, Caller])[] = [
    ['another user', { user: 'bob' }],
    ['the same user of another tenant', { user: 'ann', tenant: 'b' }],
    ['nobody', {}],
  ];

  it.each(others)('does not exist for %s', async (_, other) => {
    const { handler } = a2aBench({
      steps: [{ toolCalls: [{ name: 'refund' }] }],
      agent: { toolProviders: [plainTools({ refund: { needsApproval: true, execute: () => '' } })] },
    });
    const { id, contextId } = await send(handler, 'Hi', { user: 'ann', tenant: 'a' });
    const context = call(other);
    expect(await refusal(handler.getTask({ tenant: '', id }, context))).toBe(notFound);
    expect(await refusal(handler.cancelTask({ tenant: '', id, metadata: undefined }, context))).toBe(notFound);
    expect(await refusal(handler.resubscribe({ tenant: '', id }, context))).toBe(notFound);
    expect(await refusal(send(handler, message('Hi', { taskId: id }), other))).toBe(notFound);
    expect((await handler.listTasks(list, context)).tasks).toEqual([]);
    expect((await handler.listTasks({ ...list, contextId }, context)).tasks).toEqual([]);
    expect((await handler.getTask({ tenant: '', id }, call({ user: 'ann', tenant: 'a' }))).status?.state).toBe(6);
  });
});

it('keeps contexts of one id apart: neither conversation, nor task, nor list of one owner shows in another’s', async () => {
  const messageStore = new InMemoryMessageStore();
  const { handler, model } = a2aBench({
    steps: [says('Hi Ann.'), says('Hi Bob.'), says('Again.')],
    agent: { messageStore },
  });
  const ann = await send(handler, message('I am Ann', { contextId: 'c', messageId: 'm' }), { user: 'ann' });
  const bob = await send(handler, message('I am Bob', { contextId: 'c', messageId: 'm' }), { user: 'bob' });
  expect(ann.id).not.toBe(bob.id);
  expect([ann.contextId, bob.contextId]).toEqual(['c', 'c']);
  await send(handler, message('Who am I?', { contextId: 'c' }), { user: 'ann' });
  expect(JSON.stringify(model.calls[2]?.messages)).toContain('I am Ann');
  expect(JSON.stringify(model.calls[2]?.messages)).not.toContain('Bob');
  const { tasks } = await handler.listTasks({ ...list, contextId: 'c' }, call({ user: 'bob' }));
  expect(tasks.map(({ id }) => id)).toEqual([bob.id]);
});

it('does not share tasks of agents that share a store', async () => {
  const store = new InMemoryStateStore();
  const ada = a2aBench({ steps: [says('Hi.')], store });
  const eve = a2aBench({ store, agent: { id: 'eve' } });
  const { id } = await send(ada.handler, 'Hi', { user: 'ann' });
  expect(await refusal(eve.handler.getTask({ tenant: '', id }, call({ user: 'ann' })))).toBe(notFound);
});

it('does not show turns of the store that no client of A2A started', async () => {
  const { handler, agent } = a2aBench({ steps: [says('Hi.')] });
  await agent.run('Hi', { taskId: 'mine', contextId: 'c' });
  expect(await refusal(handler.getTask({ tenant: '', id: 'mine' }, call()))).toBe(notFound);
  expect((await handler.listTasks(list, call())).tasks).toEqual([]);
  expect(await handler.recover()).toBe(0);
});

it('refuses callers without a user where the card says how to authenticate', async () => {
  const http = { description: '', scheme: 'Bearer', bearerFormat: '' };
  const securitySchemes = { bearer: { scheme: { $case: 'httpAuthSecurityScheme' as const, value: http } } };
  const { handler } = a2aBench({ steps: [says('Hi.')], card: { securitySchemes } });
  expect(await refusal(send(handler, 'Hi'))).toBe(unknownCaller);
  expect(await refusal(handler.listTasks(list, call()))).toBe(unknownCaller);
  expect(await refusal(handler.sendMessageStream(request(message('Hi')), call()))).toBe(unknownCaller);
  expect((await send(handler, 'Hi', { user: 'ann' })).status?.state).toBe(3);
});

it('takes the scope that the server names, and refuses where it names none', async () => {
  const { handler } = a2aBench({
    steps: [says('Hi.')],
    handler: { scopeOf: ({ tenant }) => tenant },
  });
  const { id } = await send(handler, 'Hi', { user: 'ann', tenant: 'a' });
  expect((await handler.getTask({ tenant: '', id }, call({ user: 'bob', tenant: 'a' }))).id).toBe(id);
  expect(await refusal(handler.getTask({ tenant: '', id }, call({ user: 'ann' })))).toBe(unknownCaller);
});

it('tells tools who asks, and writes it nowhere', async () => {
  const told: unknown[] = [];
  const { handler, store } = a2aBench({
    steps: [{ toolCalls: [{ name: 'who' }] }, { text: 'You.' }],
    agent: { toolProviders: [plainTools({ who: ({ authContext }) => told.push(authContext) })] },
  });
  const { id } = await send(handler, 'Who am I?', { user: 'ann@example.org', tenant: 'a' });
  expect(told).toEqual([{ user: 'ann@example.org', tenant: 'a' }]);
  expect(JSON.stringify(await store.read(id))).not.toContain('ann@');
});

it('U-08 gives tools the context that the server makes of the request, and writes it nowhere', async () => {
  const given: unknown[] = [];
  const { handler, store } = a2aBench({
    steps: [{ toolCalls: [{ name: 'who' }] }, { text: 'You.' }],
    agent: { toolProviders: [plainTools({ who: ({ context }) => given.push(context) })] },
    handler: { contextOf: ({ tenant }) => ({ shop: `shop of ${tenant}` }) },
  });
  const { id } = await send(handler, 'Who am I?', { user: 'ann', tenant: 'a' });
  expect(given).toEqual([{ shop: 'shop of a' }]);
  expect(JSON.stringify(await store.read(id))).not.toContain('shop of');
});

it.each(['plain-id_1', 'with/slash', '.dot', 'ünï cödé', 'a b', 'x'.repeat(100)])(
  'preserves the context id %p of a client',
  async (contextId) => {
    const { handler } = a2aBench({ steps: [says('Hi.')] });
    const task = await send(handler, message('Hi', { contextId }));
    expect(task).toMatchObject({ contextId, status: { state: 3 } });
    const seen = await collect(
      handler.sendMessageStream(request(message('Hi', { contextId, messageId: 'again' })), call()),
    );
    expect(seen[0]?.payload?.value).toMatchObject({ contextId });
  },
);

describe('functions of the options', () => {
  const never = () => new Promise<never>(() => {});

  it('H-13 that never answer are given up, and the log names the limit', async () => {
    const warned: string[] = [];
    const logger = { debug() {}, info() {}, error() {}, warn: (line: string) => void warned.push(line) };
    const agent = { logger };
    const { handler } = a2aBench({ agent, handler: { card: never, callbackTimeoutMs: 50 } });
    await expect(handler.getAgentCard()).rejects.toThrow('The function card did not answer within 50 ms');
    const line = (name: string) => `The function ${name} did not answer within 50 ms (callbackTimeoutMs).`;
    expect(warned).toEqual([line('card')]);
  });
});
