import { describe, expect, it } from '@jest/globals';
import { AgentLoop } from 'millrace/internals';
import { gate } from 'millrace/testing';
import { question } from '../dead-turn.ts';
import { plainTools } from '../plain-tools.ts';
import { watch } from '../watch-events.ts';
import { calls, questionBench, statuses } from './question-bench.ts';

const { bench, waiting, resumed } = questionBench();

describe('a turn that waits', () => {
  it('is suspended as long as a question is open, also where one of two is answered', async () => {
    const guarded = { needsApproval: true, execute: () => 'done' };
    const { toolProviders } = await waiting({ one: guarded, two: guarded });
    await AgentLoop.answer('t', { store: bench.store, answers: { '1:0': { approved: true } } });
    expect(bench.store.list()).toMatchObject([{ state: 'input-required', held: false }]);
    const observed = watch(AgentLoop.observe('t', { store: bench.store }));
    expect(observed.end).toBe('complete');
    expect(statuses(observed.events).at(-1)).toEqual(['input-required', true, ['1:1']]);
    const again = AgentLoop.resume('t', bench.config(bench.model([]), { toolProviders }));
    expect(await again.result()).toMatchObject({ toolCalls: 1, questions: [{ id: '1:1' }] });
    const { turn } = resumed({ '1:1': { approved: true } }, { one: guarded, two: guarded });
    await turn.result();
    const whole = watch(AgentLoop.observe('t', { store: bench.store }));
    expect(statuses(whole.events).filter(([, final]) => final)).toEqual([['completed', true, undefined]]);
  });

  it('can be cancelled, and keeps every call with one result', async () => {
    await waiting({ remove: { needsApproval: true, execute: () => 'gone' } });
    await AgentLoop.cancel('t', { store: bench.store, reason: 'never mind' });
    const { turn } = { turn: AgentLoop.resume('t', bench.config(bench.model([]))) };
    const error = await turn.result().catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({
      code: 'CANCELED',
      reason: 'never mind',
      result: { messages: [{ role: 'assistant' }, { role: 'tool', status: 'error' }] },
    });
  });

  it('loses no steering message that came with a pause in the middle of a batch', async () => {
    const finish = gate();
    const toolProviders = [plainTools({ slow: () => finish.pass() })];
    const turn = bench
      .loop(calls('slow', 'slow'), { toolProviders, toolConcurrency: 1 })
      .startTurn(question, { taskId: 't' });
    watch(turn);
    await finish.reached;
    turn.steer({ role: 'user', content: 'And be quick.' });
    turn.pause();
    finish.open();
    await turn.result();
    const { turn: again, model } = resumed({}, { slow: () => 'x' });
    await again.result();
    expect(model.calls[0]?.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'tool', 'user']);
  });
});
