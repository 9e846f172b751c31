import { expect, it } from '@jest/globals';
import { done, noteRecord as note, startRecord, suspended } from 'millrace/internals';
import type { RedisStateStore } from 'millrace/redis';
import { describeRedis } from './describe-redis.ts';
import { beginHeld, RedisBench } from './redis-bench.ts';

describeRedis('the runnable tasks of RedisStateStore', () => {
  const bench = new RedisBench();

  /** What Redis has done since the figures were reset: the calls of each command, and the microseconds of all. */
  function work(): { readonly calls: Readonly<Record<string, number>>; readonly microseconds: number } {
    const lines = bench.server.cli('INFO', 'commandstats').split('\n');
    const found = lines.flatMap((line) => {
      const [, name = '', calls, usec] = /^cmdstat_([^:]+):calls=(\d+),usec=(\d+)/.exec(line) ?? [];
      return name === '' || name.startsWith('config') || name === 'info'
        ? []
        : [[name, Number(calls), Number(usec)] as const];
    });
    return {
      calls: Object.fromEntries(found.map(([name, calls]) => [name, calls])),
      microseconds: found.reduce((sum, [, , usec]) => sum + usec, 0),
    };
  }

  async function waitingOrEnded(store: RedisStateStore, count: number): Promise<void> {
    const each = async (index: number) => {
      const { owner } = await beginHeld(store);
      await owner.append(index % 2 ? suspended : done);
      await store.release(owner.lease);
    };
    for (let from = 0; from < count; from += 100) {
      await Promise.all(Array.from({ length: 100 }, (_, index) => each(from + index)));
    }
  }

  // The figures of a large store: MILLRACE_TASKS=20000.
  const count = Number(process.env['MILLRACE_TASKS'] ?? 400);

  it('H-22 are found in one round trip a page, at a cost that does not grow with tasks that wait or have ended', async () => {
    const store = bench.open();
    await waitingOrEnded(store, count);
    const orphans: string[] = [];
    for (let index = 0; index < 10; index++) {
      const { taskId, owner } = await beginHeld(store);
      await store.release(owner.lease);
      orphans.push(taskId);
    }
    await beginHeld(store);
    await store.list({ runnable: true });
    bench.server.cli('CONFIG', 'RESETSTAT');
    const found = await store.list({ runnable: true, limit: 50 });
    const { calls, microseconds } = work();
    expect(found.map(({ taskId }) => taskId).sort()).toEqual(orphans.sort());
    // One call of the script; it looks at the index twice, once at that of tasks that back off, and once at each task that it gives.
    expect(calls).toEqual({ evalsha: 1, time: 1, zrangebyscore: 3, hmget: 10 });
    expect(microseconds).toBeLessThan(20_000);
    if (count > 400) process.stdout.write(`${count} tasks: ${microseconds} us\n`);
    expect(bench.server.cli('ZCARD', 'millrace:due')).toBe('11');
  }, 600_000);

  it('H-22 are those of an older version too, which kept no index', async () => {
    const store = bench.open({ prefix: 'older' });
    const task = async (taskId: string) => {
      await store.create(taskId, startRecord(taskId));
      return store.acquire(taskId, 'owner-a', 60_000);
    };
    const lease = await task('given-back');
    await store.append(lease, [{ ...note('one'), seq: 2, epoch: lease.epoch, at: 1 }], {
      status: 'working',
      barrier: true,
    });
    await store.release(lease);
    await task('held');
    bench.server.cli('DEL', 'older:due');
    expect(await bench.open({ prefix: 'older' }).list({ runnable: true })).toMatchObject([{ taskId: 'given-back' }]);
    expect(bench.server.cli('EXISTS', 'older:due-complete')).toBe('1');
  });

  it('H-22 an append writes no more than its task, and is one round trip', async () => {
    const { owner } = await beginHeld(bench.open());
    await owner.append(note('warm'));
    bench.server.cli('CONFIG', 'RESETSTAT');
    await owner.append(note('one'));
    expect(work().calls).toMatchObject({ evalsha: 1 });
    expect(work().calls).not.toHaveProperty('zadd');
  });
});
