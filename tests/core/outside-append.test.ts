import { describe, expect, it } from '@jest/globals';
import { AgentLoop } from 'millrace/internals';
import { faultyStore, gate, type HeldCall } from 'millrace/testing';
import type { TaskStateStore } from 'millrace/types';
import { question } from './dead-turn.ts';
import { plainTools } from './plain-tools.ts';
import { turnBench } from './turn-bench.ts';
import { watch } from './watch-events.ts';

const bench = turnBench();
const guarded = { needsApproval: true, execute: () => 'gone' };
const asks = { toolCalls: [{ name: 'remove' }] };
const answers = { '1:0': { approved: true } };

/** A turn of task `t` that asks whether it may remove, and suspends; its store holds some calls. */
function asking(held: readonly HeldCall[] = []) {
  const toolProviders = [plainTools({ remove: guarded })];
  const turn = bench
    .loop([asks], { toolProviders, taskStateStore: faultyStore(bench.store, held) })
    .startTurn(question, { taskId: 't' });
  watch(turn);
  return turn;
}

interface OutsideOptions {
  readonly deadlineMs?: number;
  readonly store?: TaskStateStore;
}

/** The ways in which somebody who does not run the turn writes to its journal. */
const ways = {
  answer: (options: OutsideOptions = {}) =>
    AgentLoop.answer('t', { store: bench.store, clock: bench.clock, answers, ...options }),
  cancel: (options: OutsideOptions = {}) =>
    AgentLoop.cancel('t', { store: bench.store, clock: bench.clock, ...options }),
};

const lastType = () => bench.store.read('t').at(-1)?.type;

describe('a turn whose owner does not answer', () => {
  async function lost() {
    await asking().settled;
    bench.store.acquire('t', 'the lost', 60_000);
  }

  it('lets an answer go after its deadline: BUSY, and worth another try', async () => {
    await lost();
    const late = ways.answer({ deadlineMs: 1_000 });
    const refused = expect(late).rejects.toMatchObject({
      code: 'BUSY',
      retryable: true,
      message: expect.stringContaining('within 1000 ms'),
    });
    await bench.clock.whenPending(2);
    bench.clock.advance(1_000);
    await refused;
    expect(lastType()).toBe('turn.suspended');
  });

  it('lets a cancel go after its deadline, which the next owner still gets', async () => {
    await lost();
    const late = ways.cancel({ deadlineMs: 1_000 });
    await bench.clock.whenPending(2);
    bench.clock.advance(1_000);
    await late;
    expect(lastType()).toBe('turn.suspended');
    bench.leases.advance(60_000);
    const config = bench.config(bench.model([]), { toolProviders: [plainTools({ remove: guarded })] });
    await expect(AgentLoop.resume('t', config, { answers }).result()).rejects.toMatchObject({ code: 'CANCELED' });
  });
});

describe('a turn whose owner suspends at that moment', () => {
  it.each([
    ['answer', 'turn.answered'],
    ['cancel', 'turn.canceled'],
  ] as const)('takes an %s once its lease is given back', async (way, type) => {
    const release = gate();
    const turn = asking([{ method: 'release', call: 1, fault: 'hold-before', gate: release }]);
    await release.reached;
    let isDone = false;
    const done = ways[way]().then(() => {
      isDone = true;
    });
    await bench.clock.whenPending(2);
    bench.clock.advance(250);
    await bench.clock.whenPending(2);
    expect([lastType(), isDone]).toEqual(['turn.suspended', false]);
    release.open();
    await turn.settled;
    bench.clock.advance(250);
    await done;
    expect(lastType()).toBe(type);
    expect(bench.store.list()).toMatchObject([{ held: false }]);
  });
});

describe('a turn that another takes while an outsider writes to it', () => {
  it.each(['answer', 'cancel'] as const)('has the %s from its new owner', async (way) => {
    await asking().settled;
    const held = gate();
    const store = faultyStore(bench.store, [{ method: 'append', call: 1, fault: 'hold-before', gate: held }]);
    const written = ways[way]({ store });
    await held.reached;
    // As for a process that is stopped for longer than its lease.
    bench.leases.advance(5_000);
    const config = bench.config(bench.model(way === 'answer' ? [{ text: 'Done.' }] : []), {
      toolProviders: [plainTools({ remove: guarded })],
    });
    const resumed = AgentLoop.resume('t', config, { answers });
    const end = resumed.result().catch(({ code }) => ({ status: code }));
    await watch(resumed).until('status-update');
    held.open();
    expect(await end).toMatchObject({ status: way === 'answer' ? 'completed' : 'CANCELED' });
    await written;
  });
});

describe('a journal that cannot be read behind the lease', () => {
  it.each(['answer', 'cancel'] as const)('fails the %s, and the lease is given back', async (way) => {
    await asking().settled;
    const call = way === 'answer' ? 3 : 2;
    const store = faultyStore(bench.store, [{ method: 'read', call, fault: 'fail-before' }]);
    await expect(ways[way]({ store })).rejects.toMatchObject({
      code: 'UNAVAILABLE',
    });
    expect(bench.store.list()).toMatchObject([{ held: false }]);
    expect(lastType()).toBe('turn.suspended');
  });
});

describe('an answer on a turn that ends meanwhile', () => {
  /** Answers while the turn runs; what becomes of it is looked at once the turn is over. */
  async function answeredBeforeTheEnd(recorded: boolean) {
    const finish = gate();
    const toolProviders = [plainTools({ remove: guarded, slow: () => finish.pass() })];
    const model = bench.model([
      { toolCalls: [{ name: 'remove' }, { name: 'slow' }] },
      ...(recorded ? [{ text: 'Done.' }] : []),
    ]);
    const turn = new AgentLoop(bench.config(model, { toolProviders })).startTurn(question, { taskId: 't' });
    watch(turn);
    turn.result().catch(() => {});
    await finish.reached;
    const [post, look] = [gate(), gate()];
    const store = faultyStore(bench.store, [
      { method: 'post', call: 1, fault: recorded ? 'hold-after' : 'hold-before', gate: post },
      { method: 'read', call: 2, fault: 'hold-before', gate: look },
    ]);
    const answer = AgentLoop.answer('t', { store, clock: bench.clock, answers });
    answer.catch(() => {});
    await post.reached;
    if (!recorded) void turn.cancel();
    finish.open();
    await turn.settled;
    post.open();
    look.open();
    return answer;
  }

  it('is done where it was recorded', async () => {
    await answeredBeforeTheEnd(true);
    expect(bench.store.load('t')).toMatchObject({ status: 'completed' });
  });

  it('is TERMINAL where it was not', async () => {
    await expect(answeredBeforeTheEnd(false)).rejects.toMatchObject({ code: 'TERMINAL' });
  });
});

describe('a resume with answers', () => {
  it('that somebody else answered between its look and its lease is a conflict, and gives the lease back', async () => {
    await asking().settled;
    const acquire = gate();
    const store = faultyStore(bench.store, [{ method: 'acquire', call: 1, fault: 'hold-before', gate: acquire }]);
    const config = bench.config(bench.model([]), { taskStateStore: store });
    const lost = AgentLoop.resume('t', config, { answers }).result();
    const conflict = expect(lost).rejects.toMatchObject({ code: 'CONFLICT' });
    await acquire.reached;
    await AgentLoop.answer('t', { store: bench.store, answers: { '1:0': { approved: false } } });
    const before = bench.store.read('t').length;
    acquire.open();
    await conflict;
    expect(bench.store.read('t')).toHaveLength(before);
    expect(bench.store.list()).toMatchObject([{ held: false }]);
  });
});
