import { describe, expect, it } from '@jest/globals';
import { type AgentLoopConfig, AgentLoopError, type Extension, type ToolContext, type Turn } from 'millrace';
import { AgentLoop, isTerminal } from 'millrace/internals';
import { faultyStore, gate, type StoreFault } from 'millrace/testing';
import { eventually } from '../eventually.ts';
import { question } from './dead-turn.ts';
import { obedient, plainTools } from './plain-tools.ts';
import { turnBench } from './turn-bench.ts';
import { type Watcher, watch } from './watch-events.ts';

const bench = turnBench();

/** That a turn was lost with this code, in every way in which it can be asked, and that no ending was invented for it. */
async function expectLost(turn: Turn, watcher: Watcher, code: string) {
  const lost = expect.objectContaining({ code });
  await watcher.ended;
  await expect(turn.settled).rejects.toEqual(lost);
  await expect(turn.result()).rejects.toEqual(lost);
  await expect(turn.cancel()).rejects.toEqual(lost);
  const late = watch(turn);
  for (const { events, end } of [watcher, late]) {
    expect(end).toEqual({ error: lost });
    expect(events.filter((event) => event.kind === 'status-update' && event.final)).toEqual([]);
  }
  const execute = bench.spans.spans().find(({ name }) => name === 'agent.execute');
  expect(execute?.attributes['error.type']).toBe(code);
}

async function expectResumable() {
  expect(bench.store.read('t').filter(isTerminal)).toEqual([]);
  const again = AgentLoop.resume('t', bench.config(bench.model([{ text: 'Two.' }])));
  expect(await again.result()).toMatchObject({ status: 'completed', text: 'Two.' });
}

/** A turn in its first model call, on a store that fails by plan. */
async function inModelCall(plan: readonly StoreFault[] = [], options: Partial<AgentLoopConfig> = {}) {
  const answer = gate();
  const model = bench.model([{ gate: answer.pass(), text: 'Two.' }]);
  const taskStateStore = faultyStore(bench.store, plan);
  const turn = new AgentLoop(bench.config(model, { taskStateStore, ...options })).startTurn(question, { taskId: 't' });
  const watcher = watch(turn);
  await watcher.until('internal:llm-call');
  return { turn, watcher, answer, model };
}

/** Another process takes the turn over, because its owner gave no sign of life. */
function takeOver() {
  bench.leases.advance(30_000);
  return bench.store.acquire('t', 'the next', 1_000);
}

describe('a turn that another process took over', () => {
  it('S1-80 is lost with FENCED at its next append, and shows nothing that was not recorded', async () => {
    const { turn, watcher, answer } = await inModelCall();
    takeOver();
    answer.open();
    await expectLost(turn, watcher, 'FENCED');
    expect(bench.store.read('t').map(({ type }) => type)).toEqual(['turn.started', 'llm.start']);
    expect(watcher.of('internal:llm-response')).toEqual([]);
    bench.leases.advance(1_000);
    await expectResumable();
  });

  it('is lost with FENCED at the next renewal of its lease, while the model is silent: the call is left', async () => {
    const { turn, watcher, model } = await inModelCall();
    takeOver();
    bench.clock.advance(10_000);
    await expectLost(turn, watcher, 'FENCED');
    expect(model.unsubscribed).toBe(1);
  });

  it('aborts its own tools and drops their results', async () => {
    let signal: AbortSignal | undefined;
    const tool = (context: ToolContext) => {
      signal = context.signal;
      return obedient(context);
    };
    const toolProviders = [plainTools({ pay: tool })];
    const loop = bench.loop([{ toolCalls: [{ name: 'pay' }] }], { toolProviders });
    const turn = loop.startTurn(question, { taskId: 't' });
    const watcher = watch(turn);
    await watcher.until('internal:tool-start');
    takeOver();
    bench.clock.advance(10_000);
    await expectLost(turn, watcher, 'FENCED');
    expect(signal?.aborted).toBe(true);
    expect(bench.store.read('t').at(-1)).toMatchObject({ type: 'tool.intent' });
    expect(watcher.of('internal:tool-complete')).toEqual([]);
  });

  it('aborts the hook that it waits for, whose answer then starts no model call', async () => {
    const answer = gate();
    let signal: AbortSignal | undefined;
    const hook: Extension = {
      name: 'slow',
      prepareIteration: async (_, context) => {
        ({ signal } = context);
        await answer.pass();
        return {};
      },
    };
    const turn = bench.loop([], { extensions: [hook] }).startTurn(question, { taskId: 't' });
    const watcher = watch(turn);
    await answer.reached;
    takeOver();
    bench.clock.advance(10_000);
    await expectLost(turn, watcher, 'FENCED');
    expect(signal?.reason).toMatchObject({ code: 'LEFT' });
    const spans = bench.spans.spans().length;
    answer.open();
    await eventually(() => bench.spans.open().length === 0);
    expect(bench.spans.spans()).toHaveLength(spans);
  });
});

/** How far the clocks of a process have advanced when it wakes up, in milliseconds; a clock may lack `elapsed`. */
interface Slept {
  readonly now: number;
  readonly elapsed?: number;
}

/** A turn whose process is stopped while the answer to its first intents is on the way, and wakes up when its lease has run out. */
async function asleep(steps: Parameters<typeof bench.loop>[0] = [], slept: Slept = { now: 30_000 }) {
  const answer = gate();
  let passed: Slept = { now: 0, elapsed: 0 };
  const { elapsed } = slept;
  const clock = {
    ...bench.clock,
    now: () => bench.clock.now() + passed.now,
    ...(elapsed !== undefined && { elapsed: () => bench.clock.now() + (passed.elapsed ?? 0) }),
  };
  const held = { method: 'append', call: 2, fault: 'hold-after', gate: answer } as const;
  const started: string[] = [];
  const pay = () => {
    started.push('pay');
    return 'paid';
  };
  const model = bench.model([{ toolCalls: [{ name: 'pay' }] }, ...steps]);
  const options = { taskStateStore: faultyStore(bench.store, [held]), toolProviders: [plainTools({ pay })], clock };
  const turn = new AgentLoop(bench.config(model, options)).startTurn(question, { taskId: 't' });
  const watcher = watch(turn);
  await watcher.until('internal:llm-call');
  while (bench.store.read('t').at(-1)?.type !== 'tool.intent') await new Promise((resolve) => setImmediate(resolve));
  passed = slept;
  return { turn, watcher, answer, started };
}

describe('a turn whose process wakes up when its lease has run out', () => {
  it.each([
    ['both clocks ran', { now: 30_000, elapsed: 30_000 }],
    ['its system clock was set back meanwhile', { now: -3_600_000, elapsed: 30_000 }],
    ['its system clock was set back to the moment when it was stopped', { now: 0, elapsed: 30_000 }],
    ['its machine was suspended, so that the monotonic clock stood still', { now: 30_000, elapsed: 0 }],
    ['its clock is not monotonic', { now: 30_000 }],
    ['its clock is not monotonic, and was set back', { now: -3_600_000 }],
  ])('S1-80 starts no tool where another process took it over and %s: it is lost with FENCED', async (_, slept) => {
    const { turn, watcher, answer, started } = await asleep([], slept);
    takeOver();
    answer.open();
    await expectLost(turn, watcher, 'FENCED');
    expect(started).toEqual([]);
  });

  it('goes on once the store has renewed the lease where nobody did', async () => {
    const { turn, answer, started } = await asleep([{ text: 'Two.' }]);
    answer.open();
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'Two.' });
    expect(started).toEqual(['pay']);
  });
});

describe('a turn whose store fails', () => {
  it('is lost with REWOUND where the journal lost its tail', async () => {
    const error = new AgentLoopError('REWOUND', 'cut');
    const { turn, watcher, answer } = await inModelCall([{ method: 'append', call: 2, fault: 'fail-before', error }]);
    answer.open();
    await expectLost(turn, watcher, 'REWOUND');
    await expectResumable();
  });

  it('is lost with NOT_FOUND where the task was deleted', async () => {
    const { turn, watcher, answer } = await inModelCall();
    bench.store.delete('t');
    answer.open();
    await expectLost(turn, watcher, 'NOT_FOUND');
    expect(bench.store.list()).toEqual([]);
  });

  it('is lost with UNAVAILABLE once an append has failed for storeDeadlineMs, not before', async () => {
    const down: StoreFault = { method: 'append', call: 2, calls: Number.POSITIVE_INFINITY, fault: 'fail-before' };
    const { turn, watcher, answer } = await inModelCall([down], { storeDeadlineMs: 5_000, leaseMs: 60_000 });
    const asked = bench.clock.now();
    answer.open();
    await bench.clock.whenPending(3);
    while (watcher.end === undefined && bench.clock.now() < asked + 20_000) {
      bench.clock.advance(50);
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(bench.clock.now() - asked).toBe(5_000);
    await expectLost(turn, watcher, 'UNAVAILABLE');
    await expectResumable();
  });

  it('is lost with UNAVAILABLE where an append is not answered within storeDeadlineMs', async () => {
    const silent = gate();
    const hold: StoreFault = { method: 'append', call: 2, fault: 'hold-before', gate: silent };
    const { turn, watcher, answer } = await inModelCall([hold], { storeDeadlineMs: 5_000, leaseMs: 60_000 });
    answer.open();
    await silent.reached;
    bench.clock.advance(4_999);
    await new Promise((resolve) => setImmediate(resolve));
    expect(watcher.end).toBeUndefined();
    bench.clock.advance(1);
    await expectLost(turn, watcher, 'UNAVAILABLE');
  });

  it.each(['create', 'acquire'] as const)(
    'is lost with UNAVAILABLE where %s is not answered within storeDeadlineMs',
    async (method) => {
      const silent = gate();
      const taskStateStore = faultyStore(bench.store, [{ method, call: 1, fault: 'hold-before', gate: silent }]);
      const turn = bench.loop([], { taskStateStore, storeDeadlineMs: 5_000 }).startTurn(question, { taskId: 't' });
      const watcher = watch(turn);
      await silent.reached;
      bench.clock.advance(5_000);
      await expectLost(turn, watcher, 'UNAVAILABLE');
      expect(watcher.events).toEqual([]);
    },
  );

  it('goes on where the store answers again in time: no event is lost or repeated', async () => {
    const hiccup: StoreFault = { method: 'append', call: 2, calls: 3, fault: 'fail-before' };
    const { turn, watcher, answer } = await inModelCall([hiccup]);
    answer.open();
    while (watcher.end === undefined) {
      await new Promise((resolve) => setImmediate(resolve));
      bench.clock.advance(50);
    }
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'Two.' });
    expect(watcher.of('internal:llm-response')).toHaveLength(1);
    expect(watcher.end).toBe('complete');
  });

  it('S4-32 S3-37 starts no tool, and shows no tool-start, while its intent is not durable; then it does', async () => {
    const held = gate();
    const runs: string[] = [];
    const toolProviders = [plainTools({ pay: () => runs.push('pay') })];
    const taskStateStore = faultyStore(bench.store, [{ method: 'append', call: 2, fault: 'hold-after', gate: held }]);
    const loop = bench.loop([{ toolCalls: [{ name: 'pay' }] }, { text: 'Paid.' }], { toolProviders, taskStateStore });
    const turn = loop.startTurn(question, { taskId: 't' });
    const watcher = watch(turn);
    await held.reached;
    await new Promise((resolve) => setImmediate(resolve));
    expect([runs, watcher.of('internal:tool-start')]).toEqual([[], []]);
    held.open();
    await turn.settled;
    expect(runs).toEqual(['pay']);
  });
});
