import { describe, expect, it } from '@jest/globals';
import { type AgentLoopError, agent, InMemoryStateStore, tool } from 'millrace';
import { type A2ATurnQueue, apiKeyAuth, queuedCaller } from 'millrace/a2a';
import { scriptedLLM } from 'millrace/testing';
import type { AuthContext } from 'millrace/types';
import { clientOf, key, message, serverBench } from './test-server.ts';

const on = serverBench();
const noParameters = { type: 'object', properties: {} } as const;
const callsOnce = [() => ({ toolCalls: [{ id: 'a', name: 'look', arguments: '{}' }] }), () => ({ text: 'Seen.' })];

/** An agent whose tool notes who it acts for, and a queue whose worker is this process. */
function queued() {
  const seen: unknown[] = [];
  const look = tool({
    name: 'look',
    description: 'Looks.',
    parameters: noParameters,
    execute: (_, { authContext, context }) => {
      seen.push({ authContext, context });
      return 'looked';
    },
  });
  const taskStateStore = new InMemoryStateStore();
  const served = agent({ id: 'ada', provider: scriptedLLM(callsOnce), tools: [look], taskStateStore });
  const tenants: (string | undefined)[] = [];
  const run = (taskId: string, authContext?: AuthContext) =>
    void served.resume(taskId, { detached: true, ...(authContext && { authContext }) }).settled;
  const queue: A2ATurnQueue = {
    async start(messages, { agentId: _, tenant, ...options }) {
      tenants.push(tenant);
      const task = await served.submit(messages, { ...options, ...(tenant !== undefined && { tenant }) });
      run(task.taskId, queuedCaller(options.metadata));
      return task;
    },
    wake: async (taskId) => run(taskId),
    cancel: (taskId) => served.cancel(taskId),
  };
  return { served, queue, seen, tenants };
}

describe('a server whose turns are run by a queue', () => {
  it('hands the caller to the worker, whatever metadata the client sends', async () => {
    const { served, queue, seen, tenants } = queued();
    const auth = apiKeyAuth({ keys: [{ id: 'alice', key }] });
    const { url } = await on.serve({ agent: served, queue, auth });
    const client = await clientOf(url, { headers: { 'x-api-key': key } });
    const sent = message('Look.');
    const metadata = { 'millrace.caller': { user: 'eve' } };
    const task = await client.sendMessage({ ...sent, metadata, message: { ...sent.message, metadata } });
    expect(task).toMatchObject({ status: { state: 3 } });
    expect(seen).toEqual([{ authContext: { user: 'alice' }, context: undefined }]);
    expect(tenants).toEqual(['alice']);
  });

  it('names nobody to the worker where the server asks nobody, whatever metadata the client sends', async () => {
    const { served, queue, seen, tenants } = queued();
    const { url } = await on.serve({ agent: served, queue });
    const sent = message('Look.');
    const metadata = { 'millrace.caller': { user: 'eve' } };
    await (await clientOf(url)).sendMessage({ ...sent, metadata, message: { ...sent.message, metadata } });
    expect(seen).toEqual([{ authContext: undefined, context: undefined }]);
    expect(tenants).toEqual([undefined]);
  });

  it('refuses what is no queue, and contextOf, which no worker would see', async () => {
    const { served, queue } = queued();
    const refusal = (options: object) =>
      on.serve({ agent: served, ...options }).catch((error: AgentLoopError) => error);
    expect(await refusal({ queue: {} })).toMatchObject({
      code: 'INVALID_CONFIG',
      message: expect.stringContaining('turnQueue'),
    });
    expect(await refusal({ queue, contextOf: () => 1 })).toMatchObject({
      code: 'INVALID_CONFIG',
      message: expect.stringContaining('contextOf'),
    });
  });
});

it('contextOf of a server reaches the tools', async () => {
  const { served, seen } = queued();
  const { url } = await on.serve({ agent: served, contextOf: () => ({ shop: 'north' }) });
  await (await clientOf(url)).sendMessage(message('Look.'));
  expect(seen).toEqual([{ authContext: undefined, context: { shop: 'north' } }]);
});
