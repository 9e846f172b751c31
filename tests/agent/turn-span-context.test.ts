import { describe, expect, it } from '@jest/globals';
import { type Agent, AgentLoop, type Turn, tool } from 'millrace';
import type { ScriptedLLMStep } from 'millrace/testing';
import { agentBench } from './agent-bench.ts';

const on = agentBench();

const pay = tool({
  name: 'pay',
  description: 'Pays.',
  parameters: { type: 'object', properties: {} },
  needsApproval: true,
  execute: () => 'paid',
});

const answers = { '1:0': { approved: true } };
const asks = { toolCalls: [{ name: 'pay' }] };

interface Way {
  readonly first: ScriptedLLMStep;
  readonly again: (ada: Agent) => Turn | Promise<Turn>;
}

const ways: Readonly<Record<string, Way>> = {
  answered: { first: asks, again: (ada) => ada.resume('t', { answers }) },
  'resumed after an answer from elsewhere': {
    first: asks,
    again: async (ada) => {
      await AgentLoop.answer('t', { store: on.bench.store, answers });
      return ada.resume('t');
    },
  },
  retried: { first: { error: new Error('boom') }, again: (ada) => ada.retry('t') },
};

describe('R-08 the span of a turn that continues', () => {
  it.each(Object.entries(ways))('R-08 has the context of its journal: %s', async (_, { first, again }) => {
    const before = on.agent([first], { tools: [pay], retry: null });
    await before.run('Pay.', { taskId: 't', contextId: 'chat-7' }).catch(() => {});
    const turn = await again(on.agent([{ text: 'Paid.' }], { tools: [pay] }));
    expect(await turn.result()).toMatchObject({ text: 'Paid.' });
    await turn.settled;
    const spans = on.bench.spans.spans().filter(({ name }) => name === 'agent.turn');
    expect(spans.map(({ attributes }) => [attributes['session.id'], attributes['gen_ai.conversation.id']])).toEqual([
      ['chat-7', 'chat-7'],
      ['chat-7', 'chat-7'],
    ]);
  });

  it('R-08 has the context of its journal: a retry that waits at once', async () => {
    const before = on.agent([asks], { tools: [pay] });
    await before.run('Pay.', { taskId: 't', contextId: 'chat-7' });
    await before.cancel('t');
    const again = on.agent([], { tools: [pay] });
    const turn = again.retry('t', { taskId: 'again' });
    expect(await turn.result()).toMatchObject({ status: 'input-required' });
    await turn.settled;
    const span = on.bench.spans.spans().findLast(({ name }) => name === 'agent.turn');
    expect(span?.attributes).toMatchObject({
      'session.id': 'chat-7',
      'gen_ai.conversation.id': 'chat-7',
      'millrace.task.id': 'again',
      'gen_ai.agent.name': 'ada',
    });
  });
});
