import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { agent, InMemoryStateStore, tool } from 'millrace';
import { type A2AServer, a2aServer, apiKeyAuth, InMemoryPushStore } from 'millrace/a2a';
import { isTask } from '../a2a/messages.ts';
import { message } from '../a2a/server/test-server.ts';
import { readyModel } from './fuzz/a2a-server.ts';
import { failureOf, type Reached, reach, type Wire, wires } from './reach.ts';

const keys = { alice: 'the-key-of-alice-1234', bob: 'the-key-of-bob-123456' };
const refund = tool({
  name: 'refund',
  description: 'Refunds.',
  parameters: { type: 'object', properties: {} },
  needsApproval: true,
  execute: () => 'refunded',
});

let server: A2AServer;
let url: string;
const hooks = createServer((request, response) => void request.resume().once('end', () => response.end()));

beforeAll(async () => {
  await new Promise<void>((resolve) => hooks.listen(0, '127.0.0.1', resolve));
  const served = agent({
    id: 'clerk',
    provider: readyModel,
    tools: [refund],
    taskStateStore: new InMemoryStateStore(),
  });
  server = await a2aServer({
    agent: served,
    auth: apiKeyAuth({ keys: Object.entries(keys).map(([id, key]) => ({ id, key })) }),
    push: { store: new InMemoryPushStore(), allowHttp: true, allowPrivateTargets: true },
    rateLimit: null,
    grpc: { port: 0 },
  });
  ({ url } = await server.listen({ port: 0 }));
});

afterAll(async () => {
  await server.close();
  hooks.closeAllConnections();
  await new Promise((resolve) => hooks.close(resolve));
});

const as = (who: keyof typeof keys, way: Wire) => reach(url, way, { 'x-api-key': keys[who] });

/** Each method of a task, with the id of one and of a push configuration of it. */
const methods = {
  getTask: ({ client, options }: Reached, id: string) => client.getTask({ tenant: '', id }, options),
  cancelTask: ({ client, options }: Reached, id: string) =>
    client.cancelTask({ tenant: '', id, metadata: undefined }, options),
  subscribeToTask: ({ client, options }: Reached, id: string) =>
    client.resubscribeTask({ tenant: '', id }, options).next(),
  sendMessage: ({ client, options }: Reached, id: string) => client.sendMessage(message('Hi', { taskId: id }), options),
  sendStreamingMessage: ({ client, options }: Reached, id: string) =>
    client.sendMessageStream(message('Hi', { taskId: id }), options).next(),
  createPushConfig: ({ client, options }: Reached, taskId: string) =>
    client.createTaskPushNotificationConfig(hookOf(taskId), options),
  getPushConfig: ({ client, options }: Reached, taskId: string, id: string) =>
    client.getTaskPushNotificationConfig({ tenant: '', taskId, id }, options),
  listPushConfigs: ({ client, options }: Reached, taskId: string) =>
    client.listTaskPushNotificationConfig({ tenant: '', taskId, pageSize: 10, pageToken: '' }, options),
  deletePushConfig: ({ client, options }: Reached, taskId: string, id: string) =>
    client.deleteTaskPushNotificationConfig({ tenant: '', taskId, id }, options),
} as const satisfies Readonly<Record<string, (reached: Reached, taskId: string, configId: string) => Promise<unknown>>>;

function hookOf(taskId: string) {
  const { port } = hooks.address() as AddressInfo;
  return { tenant: '', id: '', taskId, url: `http://127.0.0.1:${port}/`, token: '', authentication: undefined };
}

describe.each(wires)('over %s of A2A %s', (...way) => {
  it.each(Object.entries(methods))('%s says of another user’s task what it says of none', async (name, method) => {
    const [alice, bob] = await Promise.all([as('alice', way), as('bob', way)]);
    const asked = await alice.client.sendMessage(message('Refund'), alice.options);
    if (!isTask(asked)) throw new Error('no task');
    const config = await methods.createPushConfig(alice, asked.id);
    const other = await failureOf(method(bob, asked.id, config.id));
    // The client of 0.3 reads a refused stream of JSON-RPC as an event, with the code of the error in place of its name.
    const isEvent = way.join() === 'JSONRPC,0.3' && /^(?:sendStreaming|subscribe)/.test(name);
    expect(other).toMatch(isEvent ? /Code: -32001/ : /TaskNotFound/);
    expect(other).toBe(await failureOf(method(bob, crypto.randomUUID(), config.id)));
    // Nothing has changed for its owner, who gets an answer of the same method.
    expect(await methods.getTask(alice, asked.id)).toMatchObject({ id: asked.id, status: { state: 6 } });
    expect((await methods.listPushConfigs(alice, asked.id)).configs.map(({ id }) => id)).toEqual([config.id]);
    expect(await failureOf(methods.getPushConfig(alice, asked.id, config.id))).toBe('no error');
  });

  it('a context of another user is a new one', async () => {
    const [alice, bob] = await Promise.all([as('alice', way), as('bob', way)]);
    const mine = await alice.client.sendMessage(message('Hi'), alice.options);
    if (!isTask(mine)) throw new Error('no task');
    const sent = message('Hi');
    const theirs = await bob.client.sendMessage(
      { ...sent, message: { ...sent.message, contextId: mine.contextId } },
      bob.options,
    );
    if (!isTask(theirs)) throw new Error('no task');
    expect(theirs.contextId).toBe(mine.contextId);
    expect(theirs.id).not.toBe(mine.id);
    expect(theirs.history).toHaveLength(2);
    if (way[1] === '0.3') return;
    const filter = { tenant: '', contextId: mine.contextId, status: 0, pageToken: '', statusTimestampAfter: undefined };
    const { tasks } = await bob.client.listTasks({ ...filter, includeArtifacts: true }, bob.options);
    expect(tasks.map(({ id }) => id)).toEqual([theirs.id]);
  });
});
