import { describe, expect, it } from '@jest/globals';
import { InMemoryStateStore } from 'millrace';
import { llmStart, startRecord, textDelta } from 'millrace/internals';
import { asyncStore } from 'millrace/testing';
import type { FollowSignal } from 'millrace/types';

const working = { status: 'working', barrier: false } as const;

/** Remembers in which order calls reach the store. */
class Witness extends InMemoryStateStore {
  readonly calls: string[] = [];

  override append(...args: Parameters<InMemoryStateStore['append']>): void {
    this.calls.push('append');
    super.append(...args);
  }
  override publish(...args: Parameters<InMemoryStateStore['publish']>): void {
    this.calls.push('publish');
    super.publish(...args);
  }
}

describe.each(['microtask', 'macrotask'] as const)('asyncStore in a later %s', (task) => {
  it('lets every call reach the store later, in the order they were made', async () => {
    const memory = new Witness();
    const store = asyncStore(memory, { task });
    const created = store.create('t', startRecord('t'));
    expect(memory.load('t')).toBeNull();
    await created;
    const lease = await store.acquire('t', 'a', 1_000);
    const start = { ...llmStart(1), seq: 2, epoch: lease.epoch, at: 0 };
    const appended = store.append(lease, [start], working);
    store.publish('t', textDelta(lease.epoch, 'text'));
    const again = store.append(lease, [start], working);
    expect(memory.calls).toEqual([]);
    await Promise.all([appended, again]);
    expect(memory.calls).toEqual(['append', 'publish', 'append']);
  });

  it('rejects instead of throwing', async () => {
    const store = asyncStore(new InMemoryStateStore(), { task });
    const read = store.read('missing');
    await expect(read).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  it('subscribes later, and not at all for a reader that has left by then', async () => {
    const memory = new InMemoryStateStore();
    const store = asyncStore(memory, { task });
    memory.create('t', startRecord('t'));
    const [stays, leaves]: [FollowSignal[], FollowSignal[]] = [[], []];
    const subscription = store.follow('t').subscribe((signal) => stays.push(signal));
    store
      .follow('t')
      .subscribe((signal) => leaves.push(signal))
      .unsubscribe();
    expect(stays).toEqual([]);
    await store.check();
    expect(stays).toHaveLength(1);
    subscription.unsubscribe();
    const lease = memory.acquire('t', 'a', 1_000);
    memory.append(lease, [{ ...llmStart(1), seq: 2, epoch: lease.epoch, at: 0 }], working);
    expect(stays).toHaveLength(1);
    expect(leaves).toEqual([]);
  });
});

describe('asyncStore', () => {
  it('lets timers and I/O have their turn before a macrotask answers', async () => {
    const order: string[] = [];
    const slow = asyncStore(new InMemoryStateStore());
    const quick = asyncStore(new InMemoryStateStore(), { task: 'microtask' });
    const answers = [
      Promise.resolve(slow.check()).then(() => order.push('macrotask')),
      Promise.resolve(quick.check()).then(() => order.push('microtask')),
    ];
    queueMicrotask(() => queueMicrotask(() => queueMicrotask(() => queueMicrotask(() => order.push('other work')))));
    await Promise.all(answers);
    expect(order.indexOf('macrotask')).toBe(2);
  });
});
