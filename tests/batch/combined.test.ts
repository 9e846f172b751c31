import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import {
  type Agent,
  AgentLoop,
  AgentLoopError,
  agent,
  agentTools,
  InMemoryStateStore,
  type LLMCallParams,
  team,
  tool,
} from 'millrace';
import { gate } from 'millrace/testing';
import { z } from 'zod';
import { Echoing, linesIn, prompts, ran, temporaryFolder } from './echoing.ts';

const usage = { promptTokens: 6, completionTokens: 4, totalTokens: 10 };

/** Asks its tool once, with the prompt, and answers with what that said. */
function asking(name: string, given: (prompt: string) => object) {
  return {
    async call({ messages }: LLMCallParams) {
      const last = messages.at(-1);
      const text = String(last?.content);
      if (last?.role === 'tool')
        return {
          message: { role: 'assistant' as const, content: `said: ${text}` },
          finishReason: 'stop' as const,
          usage,
        };
      const call = { id: 'c', type: 'function' as const, function: { name, arguments: JSON.stringify(given(text)) } };
      const message = { role: 'assistant' as const, content: null, toolCalls: [call] };
      return { message, finishReason: 'tool_calls' as const, usage };
    },
  };
}

/** The name of the tool that an agent is. */
async function toolOf(helper: Agent): Promise<string> {
  const nobody = { taskId: '', agentId: '', contextId: '', metadata: {}, authContext: undefined };
  const [definition] = await agentTools([helper]).getTools(nobody);
  return definition?.function.name ?? '';
}

it('items whose agent asks another one count the usage of both, and continue with their child turns', async () => {
  const opened = gate();
  const model = new Echoing({ wait: async (prompt) => (prompt === 'prompt 2' ? opened.pass() : undefined) });
  const helper = agent({ id: 'helper', name: 'helper', provider: model, enableTracing: false });
  const clerk = agent({
    id: 'clerk',
    provider: asking(await toolOf(helper), (message) => ({ message })),
    toolProviders: [agentTools([helper])],
    taskStateStore: new InMemoryStateStore(),
    enableTracing: false,
  });
  const stop = new AbortController();
  const options = { agent: clerk, id: 'b', concurrency: 1 };
  const first = ran(prompts(3), { ...options, signal: stop.signal });
  await opened.reached;
  stop.abort();
  expect((await first).last).toMatchObject({ state: 'stopped', completed: 1 });
  opened.open();
  const { last, rows } = await ran(prompts(3), options);
  expect(last).toMatchObject({ state: 'completed', completed: 3 });
  // The provider reported nothing of the call that was left.
  expect(rows.every((row) => row.usage.totalTokens > 0 && row.usage.totalTokens <= 30)).toBe(true);
  expect(rows.every((row) => row.status === 'completed' && row.text.startsWith('said: '))).toBe(true);
  expect(model.prompts).toHaveLength(4);
});

it('an approval of a sub-agent suspends the item, and its answer continues it', async () => {
  const store = new InMemoryStateStore();
  const paid: number[] = [];
  const pay = tool({
    name: 'pay',
    description: 'Pays.',
    parameters: z.object({ amount: z.number() }),
    needsApproval: true,
    execute: ({ amount }) => `paid ${paid.push(amount)}`,
  });
  const payer = agent({
    id: 'payer',
    name: 'payer',
    provider: asking('pay', () => ({ amount: 7 })),
    tools: [pay],
    enableTracing: false,
  });
  const clerk = agent({
    id: 'clerk',
    provider: asking(await toolOf(payer), (message) => ({ message })),
    toolProviders: [agentTools([payer])],
    taskStateStore: store,
    enableTracing: false,
  });
  const out = join(temporaryFolder(), 'results.jsonl');
  const { rows } = await ran(['Pay.', 'Pay again.'], { agent: clerk, out });
  expect(rows.map(({ status }) => status)).toEqual(['suspended', 'suspended']);
  for (const row of rows) {
    const [question] = row.status === 'suspended' ? row.questions : [];
    await AgentLoop.answer(row.taskId, { store, answers: { [question?.id ?? '']: { approved: true } } });
  }
  const { last } = await ran(['Pay.', 'Pay again.'], { agent: clerk, out });
  expect(last).toMatchObject({ state: 'completed', completed: 2, suspended: 0 });
  expect([paid, linesIn(out).map(({ status }) => status)]).toEqual([
    [7, 7],
    ['completed', 'completed'],
  ]);
});

it('a retryPlan of the turns keeps an item running while its model is away, without an attempt', async () => {
  const away = new AgentLoopError('PROVIDER_SERVER', 'The model is away.', { retryable: true });
  const model = new Echoing({ fail: (_, call) => (call === 1 ? away : undefined) });
  const patient = agent({
    provider: model,
    retry: null,
    taskStateStore: new InMemoryStateStore(),
    enableTracing: false,
  });
  const { rows } = await ran(['x'], { agent: patient, turn: { retryPlan: { attempts: 3, delayMs: 0 } }, id: 'b' });
  expect(rows).toMatchObject([{ status: 'completed', attempts: 1 }]);
  expect(model.prompts).toHaveLength(2);
});

it('the agent of a team runs items, stops with the batch, and continues', async () => {
  const opened = gate();
  const model = new Echoing({ wait: async (prompt) => (prompt === 'prompt 3' ? opened.pass() : undefined) });
  const member = (id: string) => agent({ id, provider: model, enableTracing: false });
  const office = team({ agents: [member('a'), member('b')], taskStateStore: new InMemoryStateStore() });
  const stop = new AbortController();
  const options = { agent: office.asAgent(), id: 'b', concurrency: 1 };
  const first = ran(prompts(4), { ...options, signal: stop.signal });
  await opened.reached;
  stop.abort();
  expect((await first).last).toMatchObject({ state: 'stopped', completed: 2 });
  opened.open();
  const { last } = await ran(prompts(4), options);
  expect(last).toMatchObject({ state: 'completed', completed: 4 });
  expect(model.prompts).toHaveLength(5);
});

it('the agent sees the turns of its batch: its listeners and its usage', async () => {
  const clerk = agent({ provider: new Echoing(), enableTracing: false });
  const received: string[] = [];
  clerk.on('message:received', ({ taskId }) => received.push(taskId));
  const { rows } = await ran(prompts(3), { agent: clerk });
  expect(received).toEqual(rows.map(({ taskId }) => taskId));
  expect(clerk.usage).toMatchObject({ turns: 3, usage: { totalTokens: 30 } });
});
