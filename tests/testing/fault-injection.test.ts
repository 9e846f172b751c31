import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { InMemoryStateStore, type JournalRecord, type TaskStateStore } from 'millrace';
import { llmStart, noteRecord as note, startRecord, textDelta } from 'millrace/internals';
import { asyncStore, type FailingCall, faultyStore, gate, type StoreFault } from 'millrace/testing';
import type { Lease } from 'millrace/types';
import { runContract } from '../contract/run-contract.ts';

const working = { status: 'working', barrier: true } as const;

function opened(plan: readonly StoreFault[]) {
  const memory = new InMemoryStateStore();
  memory.create('t', startRecord('t'));
  const lease = memory.acquire('t', 'a', 60_000);
  const store = faultyStore(memory, plan);
  const append = (seq: number): void | Promise<void> => store.append(lease, [noted(lease, seq)], working);
  const length = (): number => memory.read('t').length;
  return { memory, store, lease, append, length };
}

function noted(lease: Lease, seq: number): JournalRecord {
  return { ...note(seq), seq, epoch: lease.epoch, at: seq };
}

describe('faultyStore', () => {
  it('is the store itself where the plan is empty', async () => {
    const { failed } = await runContract({
      name: 'faulty',
      createStore: (options) => faultyStore(new InMemoryStateStore(options), []),
    });
    expect([...failed]).toEqual([]);
    expect(opened([]).append(2)).toBeUndefined();
  });

  it('fails before the write: nothing is there, and the next call is untouched', async () => {
    const { append, length } = opened([{ method: 'append', call: 2, fault: 'fail-before' }]);
    expect(append(2)).toBeUndefined();
    await expect(append(3)).rejects.toMatchObject({ code: 'UNAVAILABLE', retryable: true });
    expect(length()).toBe(2);
    expect(append(3)).toBeUndefined();
    expect(length()).toBe(3);
  });

  it('fails after the write: it is there, and sent again it doubles nothing', async () => {
    const { append, length } = opened([{ method: 'append', call: 1, fault: 'fail-after' }]);
    await expect(append(2)).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    expect(length()).toBe(2);
    expect(append(2)).toBeUndefined();
    expect(length()).toBe(2);
  });

  it('fails a run of calls, or all from one on, with the error given', async () => {
    const error = new Error('cable cut');
    const { append, store } = opened([
      { method: 'append', call: 2, calls: 2, fault: 'fail-before', error },
      { method: 'renew', call: 1, calls: Number.POSITIVE_INFINITY, fault: 'fail-before', error },
    ]);
    expect(append(2)).toBeUndefined();
    await expect(append(3)).rejects.toBe(error);
    await expect(append(3)).rejects.toBe(error);
    expect(append(3)).toBeUndefined();
    const lease = { taskId: 't', owner: 'a', epoch: 1, seq: 1, leaseMs: 1 };
    for (let call = 0; call < 20; call++) await expect(store.renew(lease)).rejects.toBe(error);
  });

  it('counts each method on its own', async () => {
    const { append, store } = opened([{ method: 'load', call: 2, fault: 'fail-before' }]);
    await append(2);
    await append(3);
    expect(store.load('t')).toMatchObject({ seq: 3 });
    await expect(store.load('t')).rejects.toMatchObject({ code: 'UNAVAILABLE' });
  });

  it('holds a call before the write until its gate opens, and what comes behind it too', async () => {
    const hold = gate();
    const { append, length, store, lease, memory } = opened([
      { method: 'append', call: 2, fault: 'hold-before', gate: hold },
    ]);
    const texts: unknown[] = [];
    memory.follow('t', { from: 9 }).subscribe((signal) => texts.push(signal.type === 'delta' && signal.delta));
    await store.append(lease, [{ ...llmStart(1), seq: 2, epoch: lease.epoch, at: 0 }], working);
    const answers = [append(3), append(4)];
    store.publish('t', textDelta(lease.epoch, 'behind'));
    const list = store.list();
    await hold.reached;
    expect(length()).toBe(2);
    expect(texts).toEqual([]);
    hold.open();
    await Promise.all(answers);
    expect(length()).toBe(4);
    expect(await list).toMatchObject([{ seq: 4 }]);
    expect(texts).toEqual([textDelta(lease.epoch, 'behind')]);
    expect(append(5)).toBeUndefined();
  });

  it('holds a reply: the write is there, and later replies wait behind it', async () => {
    const hold = gate();
    const { append, length } = opened([{ method: 'append', call: 1, fault: 'hold-after', gate: hold }]);
    const order: number[] = [];
    const answers = [append(2), append(3), append(4)].map((answer, index) =>
      Promise.resolve(answer).then(() => order.push(index)),
    );
    await hold.reached;
    await new Promise((resolve) => setImmediate(resolve));
    expect(length()).toBe(4);
    expect(order).toEqual([]);
    hold.open();
    await Promise.all(answers);
    expect(order).toEqual([0, 1, 2]);
  });

  it('rejects what the store refuses while others are on the way, and passes the rest', async () => {
    const hold = gate();
    const { append } = opened([{ method: 'append', call: 1, fault: 'hold-before', gate: hold }]);
    const answers = [append(2), append(9), append(3)];
    hold.open();
    const outcomes = await Promise.allSettled(answers);
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect(outcomes[1]).toMatchObject({ reason: { code: 'REWOUND' } });
  });

  it('fails the n-th subscription of a reader', () => {
    const { store } = opened([{ method: 'follow', call: 2, fault: 'fail-before' }]);
    const seen: unknown[] = [];
    for (let reader = 0; reader < 3; reader++) {
      store
        .follow('t')
        .subscribe({ next: ({ type }) => seen.push(type), error: ({ code }) => seen.push(code) })
        .unsubscribe();
    }
    expect(seen).toEqual(['record', 'UNAVAILABLE', 'record']);
  });

  it('takes the first of two faults that name one call', async () => {
    const { append, length } = opened([
      { method: 'append', call: 1, fault: 'fail-after' },
      { method: 'append', call: 1, fault: 'fail-before' },
    ]);
    await expect(append(2)).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    expect(length()).toBe(2);
  });

  it('leaves an owner that resends from the failed append on with its journal, whatever was lost on the way', async () => {
    const failing = fc.record({
      method: fc.constant('append' as const),
      call: fc.integer({ min: 1, max: 40 }),
      fault: fc.constantFrom<FailingCall['fault']>('fail-before', 'fail-after'),
    });
    const wrap = fc.constantFrom<(store: TaskStateStore) => TaskStateStore>(
      (store) => store,
      (store) => asyncStore(store, { task: 'microtask' }),
      (store) => asyncStore(store),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(failing, { maxLength: 20 }), wrap, async (plan, wrapped) => {
        const memory = new InMemoryStateStore();
        memory.create('t', startRecord('t'));
        const lease = memory.acquire('t', 'a', 60_000);
        await sendAll(faultyStore(wrapped(memory), plan), lease, 12);
        const records = memory.read('t');
        expect(records.slice(1)).toEqual(Array.from({ length: 12 }, (_, index) => noted(lease, index + 2)));
      }),
      { numRuns: 200 },
    );
  });
});

/** Pipelines appends of one record each, and after a failure sends again unchanged, from the failed one on. */
async function sendAll(store: TaskStateStore, lease: Lease, count: number): Promise<void> {
  let from = 0;
  while (from < count) {
    const sent = Array.from({ length: count - from }, (_, index) =>
      store.append(lease, [noted(lease, from + index + 2)], working),
    );
    const outcomes = await Promise.allSettled(sent);
    const failed = outcomes.findIndex(({ status }) => status === 'rejected');
    from = failed === -1 ? count : from + failed;
  }
}
