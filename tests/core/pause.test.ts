import { describe, expect, it } from '@jest/globals';
import { foldRecords } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { gate } from 'millrace/testing';
import type { TurnRecord } from 'millrace/types';
import { question, startedRecord } from './dead-turn.ts';
import { plainTools } from './plain-tools.ts';
import { turnBench } from './turn-bench.ts';
import { outlineOf, watch } from './watch-events.ts';

const bench = turnBench();

describe('a turn that is asked to pause', () => {
  it('S0-27 lets the model call finish, starts no tool, and suspends', async () => {
    const answer = gate();
    const runs: string[] = [];
    const toolProviders = [plainTools({ count: () => runs.push('count') })];
    const loop = bench.loop([{ gate: answer.pass(), toolCalls: [{ name: 'count' }] }], { toolProviders });
    const turn = loop.startTurn(question, { taskId: 't' });
    const watcher = watch(turn);
    await watcher.until('internal:llm-call');
    turn.pause('lunch');
    answer.open();
    expect(await turn.result()).toMatchObject({ status: 'input-required', reason: 'lunch', questions: [] });
    await turn.settled;
    expect(outlineOf(watcher.events).slice(-4)).toEqual([
      'llm-response 1 tool_calls',
      'checkpoint after-llm 1',
      'paused (lunch)',
      'status input-required final (lunch)',
    ]);
    expect([runs, watcher.end]).toEqual([[], 'complete']);
    expect(bench.store.list()).toMatchObject([{ state: 'input-required', held: false }]);
  });

  it('S0-27 lets the running tool finish and starts no other; the rest runs after the resume', async () => {
    const finish = gate();
    const runs: string[] = [];
    const toolProviders = [
      plainTools({
        slow: async () => {
          await finish.pass();
          runs.push('slow');
        },
        next: () => runs.push('next'),
      }),
    ];
    const options = { toolProviders, toolConcurrency: 1 };
    const loop = bench.loop([{ toolCalls: [{ name: 'slow' }, { name: 'next' }] }], options);
    const turn = loop.startTurn(question, { taskId: 't' });
    const result = turn.result();
    await finish.reached;
    turn.pause();
    finish.open();
    expect(await result).toMatchObject({ status: 'input-required', reason: 'paused', toolCalls: 1 });
    expect(runs).toEqual(['slow']);
    const again = AgentLoop.resume('t', bench.config(bench.model([{ text: 'Two.' }]), options));
    expect(await again.result()).toMatchObject({ status: 'completed', toolCalls: 2 });
    expect(runs).toEqual(['slow', 'next']);
  });

  it('suspends before it has called anything, where it was asked before it started', async () => {
    const turn = bench.loop([]).startTurn(question, { taskId: 't' });
    turn.pause('early');
    expect(await turn.result()).toMatchObject({ status: 'input-required', reason: 'early', iterations: 0 });
    const again = AgentLoop.resume('t', bench.config(bench.model([{ text: 'Two.' }])));
    expect(await again.result()).toMatchObject({ text: 'Two.' });
  });

  it('completes where its model call turns out to be the last one', async () => {
    const turn = bench.loop([{ text: 'Two.' }]).startTurn(question, { taskId: 't' });
    const watcher = watch(turn);
    await watcher.until('internal:llm-call');
    turn.pause();
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'Two.' });
  });

  it('is refused once it is over', async () => {
    const turn = bench.loop([{ text: 'Two.' }]).startTurn(question);
    await turn.result();
    expect(() => turn.pause()).toThrow(expect.objectContaining({ code: 'TERMINAL' }));
  });

  it('keeps the first of several reasons, and the commands that asked do not pause it again when it is resumed', async () => {
    const answer = gate();
    const toolProviders = [plainTools({ count: () => 'two' })];
    const loop = bench.loop([{ gate: answer.pass(), toolCalls: [{ name: 'count' }] }], { toolProviders });
    const turn = loop.startTurn(question, { taskId: 't' });
    const watcher = watch(turn);
    await watcher.until('internal:llm-call');
    for (const id of ['click', 'double-click']) bench.store.post('t', { id, type: 'pause', reason: id });
    answer.open();
    expect(await turn.result()).toMatchObject({ status: 'input-required', reason: 'click' });
    const again = AgentLoop.resume('t', bench.config(bench.model([{ text: 'Two.' }]), { toolProviders }));
    expect(await again.result()).toMatchObject({ status: 'completed', text: 'Two.' });
  });

  it('counts the time that it was suspended once, however often it is resumed behind that', () => {
    const records: readonly TurnRecord[] = [
      { type: 'turn.suspended', state: 'input-required', reason: 'later', questions: [] },
      { type: 'turn.resumed' },
      { type: 'turn.resumed' },
    ];
    const started = startedRecord(bench.clock);
    const stamped = records.map((record, index) => ({
      ...record,
      seq: index + 2,
      epoch: index + 1,
      at: started.at + 100 * (index + 1),
    }));
    expect(foldRecords([started, ...stamped])).toMatchObject({ suspendedMs: 100, suspendedAt: undefined });
  });

  it('takes the time that it waited for others from the start of the turn, so that two such times are not added up', () => {
    const started = startedRecord(bench.clock);
    const waits = [100, 150, 120].map((waitedMs, index) => ({
      type: 'x.queue' as const,
      effects: { waitedMs },
      seq: index + 2,
      epoch: 1,
      at: started.at + waitedMs,
    }));
    expect(foldRecords([started, ...waits])).toMatchObject({ suspendedMs: 150 });
  });

  it('takes what it was told in the meantime along', async () => {
    const toolProviders = [
      plainTools({
        count: () => {
          turn.pause();
          turn.steer({ role: 'user', content: 'And pears?' });
          return 'two';
        },
      }),
    ];
    const turn = bench
      .loop([{ toolCalls: [{ name: 'count' }] }], { toolProviders })
      .startTurn(question, { taskId: 't' });
    await turn.result();
    const model = bench.model([{ text: 'None.' }]);
    await AgentLoop.resume('t', bench.config(model, { toolProviders })).result();
    expect(model.calls[0]?.messages.at(-1)).toEqual({ role: 'user', content: 'And pears?' });
  });

  it('H-36 shows only what comes after the event that is known, where it is resumed from there', async () => {
    const toolProviders = [plainTools({ count: { needsApproval: true, execute: () => 'two' } })];
    const loop = bench.loop([{ text: 'Counting.', toolCalls: [{ name: 'count' }] }], { toolProviders });
    const first = watch(loop.startTurn(question, { taskId: 't' }));
    await first.ended;
    const from = first.events.findLast(({ cursor }) => cursor !== undefined)?.cursor ?? '';
    const config = () => bench.config(bench.model([{ text: 'Two.' }]), { toolProviders });
    const again = AgentLoop.resume('t', config(), { answers: { '1:0': { approved: true } }, from });
    const second = watch(again);
    expect(await again.result()).toMatchObject({ text: 'Two.' });
    const known = new Set(first.events.map(({ cursor }) => cursor));
    expect(second.events.filter(({ cursor }) => cursor !== undefined && known.has(cursor))).toEqual([]);
    expect(second.events[0]).toMatchObject({ kind: 'internal:resumed' });
    const whole = watch(AgentLoop.observe('t', { store: bench.store }));
    await whole.ended;
    const cursors = (events: typeof whole.events) => events.flatMap(({ cursor }) => cursor ?? []);
    expect(cursors([...first.events, ...second.events])).toEqual(cursors(whole.events));
    expect(() => AgentLoop.resume('t', bench.config(bench.model([])), { from: '12' })).toThrow(
      'from must be the cursor',
    );
  });
});
