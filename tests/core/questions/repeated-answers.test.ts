import { describe, expect, it } from '@jest/globals';
import type { ToolContext } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { gate } from 'millrace/testing';
import { question } from '../dead-turn.ts';
import { type PlainTool, plainTools } from '../plain-tools.ts';
import { watch } from '../watch-events.ts';
import { calls, questionBench } from './question-bench.ts';

const { bench, waiting, resumed, resumedWithoutModel } = questionBench();

describe('an answer that comes again', () => {
  const twice =
    (seen: unknown[]): PlainTool =>
    (context: ToolContext) => {
      seen.push(context.ask({ prompt: 'Where?' }));
      seen.push(context.ask({ prompt: 'When?' }));
      return 'booked';
    };

  it('is not taken for the next question of the call', async () => {
    const seen: unknown[] = [];
    await waiting({ book: twice(seen) });
    for (const _ of ['once', 'again']) {
      const turn = resumedWithoutModel({ '1:0': 'Rome' }, { book: twice(seen) });
      expect(await turn.result()).toMatchObject({ questions: [{ id: '1:0.2', prompt: 'When?' }] });
    }
    const { turn } = resumed({ '1:0': 'Rome', '1:0.2': 'today' }, { book: twice(seen) });
    expect(await turn.result()).toMatchObject({ status: 'completed' });
    expect(seen).toEqual(['Rome', 'Rome', 'today']);
  });

  it('of an approval is not taken for what the tool asks', async () => {
    const card: PlainTool = {
      needsApproval: true,
      execute: ({ ask }) => `paid with ${ask({ prompt: 'Which card?' })}`,
    };
    await waiting({ card });
    const approval = { '1:0': { approved: true } };
    expect(await resumedWithoutModel(approval, { card }).result()).toMatchObject({ questions: [{ id: '1:0.2' }] });
    expect(await resumedWithoutModel(approval, { card }).result()).toMatchObject({ questions: [{ id: '1:0.2' }] });
    const { turn, model } = resumed({ '1:0.2': 'visa' }, { card });
    await turn.result();
    expect(model.calls[0]?.messages.at(-1)).toMatchObject({ content: 'paid with visa' });
  });

  it('does nothing behind the end of its batch, so that a request can be sent again', async () => {
    const guarded: PlainTool = { needsApproval: true, execute: () => 'done' };
    await waiting({ guarded });
    const answers = { '1:0': { reason: 'fine', approved: true } };
    const { turn } = resumed(answers, { guarded });
    expect(await turn.result()).toMatchObject({ status: 'completed' });
    const again = resumedWithoutModel({ '1:0': { approved: true, reason: 'fine' } }, { guarded });
    expect(await again.result()).toMatchObject({ status: 'completed' });
    await AgentLoop.answer('t', { store: bench.store, answers });
    const late = resumedWithoutModel({ '1:0': { approved: false } }, { guarded });
    await expect(late.result()).rejects.toMatchObject({ code: 'CONFLICT' });
    await expect(resumedWithoutModel({ '7:7': 1 }, {}).result()).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    const other = AgentLoop.answer('t', { store: bench.store, answers: { '1:0': { approved: false } } });
    await expect(other).rejects.toMatchObject({ code: 'CONFLICT' });
  });

  it('at the same time as another counts once: the other is told so', async () => {
    const finish = gate();
    const guarded: PlainTool = { needsApproval: true, execute: () => 'done' };
    const toolProviders = [plainTools({ slow: () => finish.pass(), guarded })];
    const loop = bench.loop([...calls('slow', 'guarded'), { text: 'Done.' }], { toolProviders });
    const turn = loop.startTurn(question, { taskId: 't' });
    watch(turn);
    await finish.reached;
    const answer = (approved: boolean) =>
      AgentLoop.answer('t', { store: bench.store, answers: { '1:1': { approved } }, clock: bench.clock });
    const settled = await Promise.allSettled([answer(true), answer(true), answer(false)]);
    expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected']);
    expect(settled[2]).toMatchObject({ reason: { code: 'CONFLICT' } });
    finish.open();
    await turn.result();
  });

  it('is what JSON makes of it, whatever becomes of the object', async () => {
    const seen: unknown[] = [];
    const book: PlainTool = (context) => seen.push(context.ask({ prompt: 'When?' }));
    await waiting({ book });
    const given = { day: new Date(0), odd: undefined };
    await AgentLoop.answer('t', { store: bench.store, answers: { '1:0': given } });
    given.day = new Date(1);
    await resumed({}, { book }).turn.result();
    expect(seen).toEqual([{ day: '1970-01-01T00:00:00.000Z' }]);
  });
});
