import { describe, expect, it } from '@jest/globals';
import { AgentLoopError } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { asyncStore, faultyStore, gate } from 'millrace/testing';
import { question } from './dead-turn.ts';
import { plainTools } from './plain-tools.ts';
import { turnBench } from './turn-bench.ts';
import { outlineOf, watch } from './watch-events.ts';

const bench = turnBench();

function typesOf(taskId = 't') {
  return bench.store.read(taskId).map(({ type }) => type);
}

function lastRecord() {
  return bench.store.read('t').at(-1);
}

describe('a cancel at any time', () => {
  it('S0-29 in the model call ends the journal with turn.canceled and the reason', async () => {
    const turn = bench.loop([{ text: ['One'], never: true }]).startTurn(question, { taskId: 't' });
    await watch(turn).until('artifact-update');
    await turn.cancel('enough');
    expect(typesOf()).toEqual(['turn.started', 'llm.start', 'turn.canceled']);
    expect(lastRecord()).toMatchObject({ reason: 'enough' });
  });

  it('S0-29 S2-30 between two iterations: no further model call', async () => {
    const loop = bench.loop([{ toolCalls: [{ name: 'count' }] }], { toolProviders: [plainTools({ count: () => 2 })] });
    const turn = loop.startTurn(question, { taskId: 't' });
    const watcher = watch(turn, ({ kind }) => {
      if (kind === 'internal:iteration-complete') void turn.cancel('enough');
    });
    await turn.settled;
    expect(watcher.of('internal:llm-call')).toHaveLength(1);
    expect(lastRecord()).toMatchObject({ type: 'turn.canceled', reason: 'enough' });
  });

  const kinds = [
    'task',
    'internal:iteration-start',
    'internal:llm-call',
    'artifact-update',
    'internal:llm-response',
  ] as const;

  it.each(kinds)('from within the handler of %s: every other subscriber sees all events in order', async (kind) => {
    for (const synchronous of [true, false]) {
      const { turn, before, behind } = cancelingAt(kind, synchronous);
      await turn.settled;
      const lines = outlineOf(before.events);
      expect(outlineOf(behind.events)).toEqual(lines);
      expect(lines.at(-1)).toBe('status canceled final (here)');
      expect(lines.filter((line) => line.includes('final'))).toHaveLength(1);
      expect([before.end, behind.end]).toEqual(['complete', 'complete']);
    }
  });

  /** A turn of three subscribers, the second of which cancels it with its first event of a kind. */
  function cancelingAt(kind: (typeof kinds)[number], synchronous: boolean) {
    const step = { text: ['One', ', two'], toolCalls: [{ name: 'count' }] };
    const llmProvider = bench.model(kind === 'task' ? [] : [step], { synchronous });
    const toolProviders = [plainTools({ count: () => 2 })];
    const taskStateStore = asyncStore(bench.store, { task: 'microtask' });
    const turn = new AgentLoop(bench.config(llmProvider, { toolProviders, taskStateStore })).startTurn(question);
    const before = watch(turn);
    watch(turn, (event) => {
      if (event.kind === kind) void turn.cancel('here');
    });
    const behind = watch(turn);
    return { turn, before, behind };
  }
});

describe('a cancel behind a terminal record', () => {
  const held = (call: number, pass: ReturnType<typeof gate>) =>
    faultyStore(bench.store, [{ method: 'append', call, fault: 'hold-before', gate: pass }]);

  it('does nothing once that was sent: the turn completes', async () => {
    const pass = gate();
    const turn = bench.loop([{ text: 'Two.' }], { taskStateStore: held(2, pass) }).startTurn(question, { taskId: 't' });
    const watcher = watch(turn);
    await pass.reached;
    const settled = turn.cancel('too late');
    pass.open();
    await settled;
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'Two.' });
    expect(watcher.events.at(-1)).toMatchObject({ status: { state: 'completed' } });
  });

  it.each(['turn.done', 'turn.canceled'])(
    'of type %s whose append fails: settled rejects, the task can be resumed',
    async (type) => {
      const lost = new AgentLoopError('REWOUND', 'cut');
      const taskStateStore = faultyStore(bench.store, [
        { method: 'append', call: 2, fault: 'fail-before', error: lost },
      ]);
      const step = type === 'turn.done' ? { text: 'Two.' } : { never: true };
      const turn = bench.loop([step], { taskStateStore }).startTurn(question, { taskId: 't' });
      const watcher = watch(turn);
      await watcher.until('internal:llm-call');
      if (type === 'turn.canceled') void turn.cancel();
      await expect(turn.settled).rejects.toBe(lost);
      await expect(turn.result()).rejects.toBe(lost);
      expect(watcher.end).toEqual({ error: lost });
      expect(typesOf()).toEqual(['turn.started', 'llm.start']);
      const again = AgentLoop.resume('t', bench.config(bench.model([{ text: 'Two.' }])));
      expect(await again.result()).toMatchObject({ status: 'completed', text: 'Two.' });
    },
  );
});
