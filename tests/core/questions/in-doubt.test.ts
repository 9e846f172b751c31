import { describe, expect, it } from '@jest/globals';
import { AgentLoop } from 'millrace/internals';
import { gate } from 'millrace/testing';
import { answerOf, deadTurn, firstCall, intentOf } from '../dead-turn.ts';
import type { PlainTool } from '../plain-tools.ts';
import { watch } from '../watch-events.ts';
import { questionBench } from './question-bench.ts';

const { bench, resumed, resumedWithoutModel } = questionBench();

describe('a call in doubt whose tool says ask', () => {
  const pay = (runs: unknown[]): PlainTool => ({ onInDoubt: 'ask', execute: ({ attempt }) => runs.push(attempt) });

  async function asked() {
    const runs: unknown[] = [];
    deadTurn(bench, [firstCall, answerOf(['pay']), intentOf(0)]);
    const turn = resumedWithoutModel({}, { pay: pay(runs) });
    const result = await turn.result();
    return { runs, result };
  }

  it('suspends the turn', async () => {
    const { runs, result } = await asked();
    expect(result).toMatchObject({
      status: 'input-required',
      questions: [{ callId: '1:0', kind: 'in-doubt', toolName: 'pay', data: {} }],
    });
    expect(runs).toEqual([]);
  });

  it.each([
    [{ outcome: 'applied', content: 'paid before' }, [], 'paid before'],
    [{ outcome: 'not-applied' }, [2], '1'],
    [{ outcome: 'unknown' }, [], expect.stringContaining('OUTCOME_UNKNOWN')],
  ])('does as it is answered: %j', async (answer, expected, told) => {
    const { runs } = await asked();
    const { turn, model } = resumed({ '1:0': answer }, { pay: pay(runs) });
    expect(await turn.result()).toMatchObject({ status: 'completed' });
    expect(runs).toEqual(expected);
    expect(model.calls[0]?.messages.at(-1)).toMatchObject({ content: told });
  });

  it('is settled beside a sequential tool that runs without letting others start', async () => {
    const runs: unknown[] = [];
    const finish = gate();
    const tools = {
      pay: pay([]),
      alone: { sequential: true, execute: () => finish.pass() },
      next: () => runs.push('next'),
    };
    deadTurn(bench, [firstCall, answerOf(['pay', 'alone', 'next']), intentOf(0)]);
    const { turn } = resumed({}, tools);
    const watcher = watch(turn);
    await finish.reached;
    turn.answer('1:0', { outcome: 'applied', content: 'paid before' });
    await watcher.until('internal:tool-complete', ({ callId }) => callId === '1:0');
    expect(runs).toEqual([]);
    finish.open();
    expect(await turn.result()).toMatchObject({ status: 'completed', toolCalls: 3 });
    expect(runs).toEqual(['next']);
  });

  it('asks again about each start: an answer counts for the one it was asked about', async () => {
    const runs: unknown[] = [];
    await asked();
    await AgentLoop.answer('t', { store: bench.store, answers: { '1:0': { outcome: 'not-applied' } } });
    const again = { type: 'tool.intent', callId: '1:0', attempt: 2, arguments: {} } as const;
    const [, ...records] = bench.store.read('t');
    bench.store.delete('t');
    deadTurn(bench, [...records, again]);
    expect(await resumedWithoutModel({}, { pay: pay(runs) }).result()).toMatchObject({
      status: 'input-required',
      questions: [{ id: '1:0.2', kind: 'in-doubt' }],
    });
    expect(runs).toEqual([]);
  });

  it('does not ask again where the answer is in the journal and the process died behind it', async () => {
    const { runs } = await asked();
    await AgentLoop.answer('t', { store: bench.store, answers: { '1:0': { outcome: 'applied', content: 'paid' } } });
    const { turn, model } = resumed({}, { pay: pay(runs) });
    expect(await turn.result()).toMatchObject({ status: 'completed' });
    expect(model.calls[0]?.messages.at(-1)).toMatchObject({ content: 'paid' });
  });
});
