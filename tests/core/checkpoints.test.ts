import { describe, expect, it } from '@jest/globals';
import { foldRecords, LoopState, toPersisted } from 'millrace';
import { faultyStore, gate } from 'millrace/testing';
import { answerOf, deadTurn, firstCall, intentOf, question, resultOf } from './dead-turn.ts';
import { plainTools } from './plain-tools.ts';
import { type BenchOptions, turnBench } from './turn-bench.ts';
import { type EventOf, outlineOf, watch } from './watch-events.ts';

const bench = turnBench();

const steps = [{ text: 'Let me count.', toolCalls: [{ name: 'count' }] }, { text: 'Two.' }];

/** A turn of two iterations, and what the store had when each checkpoint was shown. */
async function checkpointedTurn(options: BenchOptions = {}) {
  const loop = bench.loop(steps, { toolProviders: [plainTools({ count: () => 2 })], ...options });
  const turn = loop.startTurn(question, { taskId: 't' });
  const stored: [EventOf<'internal:checkpoint'>, ReturnType<typeof bench.store.load>][] = [];
  const watcher = watch(turn, (event) => {
    bench.clock.advance(10);
    if (event.kind === 'internal:checkpoint') stored.push([event, bench.store.load('t')]);
  });
  await turn.settled;
  return { turn, watcher, stored };
}

describe('checkpoints', () => {
  it('S1-67 S1-68 S1-69 stand before each iteration, behind each model call and at the end, when the store has it', async () => {
    const { stored } = await checkpointedTurn();
    const seen = stored.map(([{ phase, iteration }, state]) => [
      phase,
      iteration,
      state?.messages.length,
      state?.status,
    ]);
    expect(seen).toEqual([
      ['before-iteration', 0, 1, 'submitted'],
      ['after-llm', 1, 2, 'working'],
      ['before-iteration', 1, 3, 'working'],
      ['after-llm', 2, 4, 'completed'],
      ['end', 2, 4, 'completed'],
    ]);
  });

  it('S1-68 hold the assistant message with its calls, which are pending', async () => {
    const { stored } = await checkpointedTurn();
    const call = { id: 'call_1_0', type: 'function', function: { name: 'count', arguments: '{}' } };
    expect(stored[1]?.[1]).toMatchObject({
      messages: [...question, { role: 'assistant', content: 'Let me count.', toolCalls: [call] }],
      pendingToolCalls: [call],
      isComplete: false,
    });
  });

  it('S1-67 hold back an iteration that is not durable: none of its events is seen, then load shows it', async () => {
    const held = gate();
    const store = faultyStore(bench.store, [{ method: 'append', call: 4, fault: 'hold-before', gate: held }]);
    const loop = bench.loop(steps, { toolProviders: [plainTools({ count: () => 2 })], taskStateStore: store });
    const turn = loop.startTurn(question, { taskId: 't' });
    const watcher = watch(turn);
    await held.reached;
    await new Promise((resolve) => setImmediate(resolve));
    expect(watcher.of('internal:iteration-start').map(({ iteration }) => iteration)).toEqual([1]);
    expect(outlineOf(watcher.events).at(-1)).toBe('iteration-complete 1');
    held.open();
    await watcher.until('internal:iteration-start', ({ iteration }) => iteration === 2);
    expect(bench.store.load('t')).toMatchObject({ iteration: 2 });
    await turn.settled;
  });

  it('S1-69 end a completed and a failed turn: the journal’s last record, then the checkpoint, then the final status', async () => {
    const { watcher } = await checkpointedTurn();
    expect(bench.store.read('t').at(-1)).toMatchObject({ type: 'turn.done' });
    expect(outlineOf(watcher.events).slice(-3)).toEqual([
      'checkpoint end 2',
      'iteration-complete 2',
      'status completed final (stop)',
    ]);
    const failed = bench.loop([{ error: new Error('cut') }]).startTurn(question, { taskId: 'f' });
    const failing = watch(failed);
    await failed.settled;
    expect(bench.store.read('f').at(-1)).toMatchObject({ type: 'turn.failed', code: 'PROVIDER_FAILED' });
    expect(outlineOf(failing.events).slice(-2)).toEqual(['checkpoint end 1', 'status failed final (provider_failed)']);
    expect(bench.store.load('f')).toMatchObject({
      status: 'failed',
      isComplete: true,
      error: { code: 'PROVIDER_FAILED' },
    });
  });
});

describe('the state of a turn', () => {
  it('S1-30 is the fold of the records up to a checkpoint; no snapshot is stored', async () => {
    const { watcher } = await checkpointedTurn();
    const records = bench.store.read('t');
    for (const { cursor } of watcher.of('internal:checkpoint')) {
      const state = foldRecords(records.slice(0, Number.parseInt(cursor ?? '', 10)));
      expect(state).toBeInstanceOf(LoopState);
      expect(state).toMatchObject({
        iteration: expect.any(Number),
        messages: expect.any(Array),
        availableTools: expect.any(Array),
        pendingToolCalls: expect.any(Array),
        isComplete: expect.any(Boolean),
      });
    }
    const types = new Set(records.map(({ type }) => type));
    expect(types).toEqual(
      new Set(['turn.started', 'llm.start', 'llm.done', 'tool.intent', 'tool.result', 'turn.done']),
    );
  });

  it('S1-30 S1-81 tells at every point what is offered, pending, said and finished', () => {
    const tools = [{ name: 'count', description: 'Counts.', parameters: { type: 'object' } }];
    const records = [{ ...firstCall, tools }, answerOf(['count', 'count']), intentOf(0), resultOf(0, 'two')] as const;
    deadTurn(bench, records);
    const all = bench.store.read('t');
    const states = all.map((_, index) => foldRecords(all.slice(0, index + 1)));
    expect(states.map(({ pendingToolCalls }) => pendingToolCalls.filter(({ result }) => !result).length)).toEqual([
      0, 0, 2, 2, 1,
    ]);
    expect(states.map(({ availableTools }) => availableTools.length)).toEqual([0, 1, 1, 1, 1]);
    expect(states.map(({ isComplete, finalMessage, error }) => [isComplete, finalMessage, error])).toEqual(
      states.map(() => [false, undefined, undefined]),
    );
  });

  it('S1-81 S0-60 can be inspected by anyone: read gives the records of every iteration, gapless from 1, until delete', async () => {
    await checkpointedTurn();
    const records = bench.store.read('t');
    expect(records.map(({ seq, type }) => `${seq} ${type}`)).toEqual([
      '1 turn.started',
      '2 llm.start',
      '3 llm.done',
      '4 tool.intent',
      '5 tool.result',
      '6 llm.start',
      '7 llm.done',
      '8 turn.done',
    ]);
    const points = records.map((_, index) => foldRecords(records.slice(0, index + 1)));
    expect(points.map(({ iteration, messages, isComplete }) => [iteration, messages.length, isComplete])).toEqual([
      [0, 1, false],
      [1, 1, false],
      [1, 2, false],
      [1, 2, false],
      [1, 3, false],
      [2, 3, false],
      [2, 4, false],
      [2, 4, true],
    ]);
    bench.store.delete('t');
    expect(() => bench.store.read('t')).toThrow(expect.objectContaining({ code: 'NOT_FOUND' }));
  });

  it('S1-32 survives JSON; createdAt stays, updatedAt grows, both in ISO 8601', async () => {
    const { stored } = await checkpointedTurn();
    const states = stored.flatMap(([, state]) => (state ? [state] : []));
    expect(JSON.parse(JSON.stringify(states))).toEqual(states);
    for (const { createdAt, updatedAt } of states) {
      expect(new Date(createdAt).toISOString()).toBe(createdAt);
      expect(new Date(updatedAt).toISOString()).toBe(updatedAt);
    }
    expect(new Set(states.map(({ createdAt }) => createdAt)).size).toBe(1);
    const times = states.map(({ updatedAt }) => updatedAt);
    expect(times).toEqual(times.toSorted());
    expect(times.at(-1)).not.toBe(times[0]);
  });

  it('S1-32 is what load gives: the fold of the journal as plain data', async () => {
    await checkpointedTurn();
    expect(bench.store.load('t')).toEqual(toPersisted(foldRecords(bench.store.read('t'))));
  });
});
