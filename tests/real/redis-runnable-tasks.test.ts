import { expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { backoff, done, noteRecord as note, startRecord, suspended } from 'millrace/internals';
import type { RedisStateStore } from 'millrace/redis';
import type { TaskQuery } from 'millrace/types';
import { describeRedis } from '../stores/redis/describe-redis.ts';
import { beginHeld, RedisBench } from '../stores/redis/redis-bench.ts';

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

  /** All commands that Redis runs meanwhile, those of scripts among them: names and arguments. */
  async function monitored(work: () => Promise<void>): Promise<readonly (readonly string[])[]> {
    const redis = new Redis(bench.server.url);
    const monitor = await redis.monitor();
    const commands: string[][] = [];
    const over = new Promise<void>((resolve) => {
      monitor.on('monitor', (_time: string, [name = '', ...args]: string[]) => {
        if (name.toLowerCase() === 'echo') resolve();
        else commands.push([name, ...args]);
      });
    });
    try {
      await work();
      await redis.echo('over');
      await over;
    } finally {
      monitor.disconnect();
      redis.disconnect();
    }
    return commands;
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
    if (count > 400) process.stdout.write(`${count} tasks: ${microseconds} us\n`);
    expect(bench.server.cli('ZCARD', 'millrace:due')).toBe('11');
  }, 600_000);

  it('H-22 are found by the same commands on as many keys, whether 100 or 1,000 tasks wait or have ended', async () => {
    const store = bench.open({ prefix: 'many' });
    const orphan = async () => store.release((await beginHeld(store)).owner.lease);
    for (let index = 0; index < 10; index++) await orphan();
    // Completes the index, once in the life of a store, for what an older version has left.
    await store.list({ runnable: true });
    let there = 0;
    const cost = async (others: number) => {
      await waitingOrEnded(store, others - there);
      there = others;
      const commands = await monitored(async () => {
        expect(await store.list({ runnable: true, limit: 50 })).toHaveLength(10);
        // A page that is full, and one that is not.
        expect(await store.list({ runnable: true, limit: 5 })).toHaveLength(5);
      });
      const names = commands.map(([name = '']) => name.toLowerCase());
      const tasks = commands.filter(([name]) => /^hmget$/i.test(name ?? '')).map(([, key = '']) => key);
      return { names, tasks: new Set(tasks).size, members: bench.server.cli('ZCARD', 'many:due') };
    };
    const few = await cost(100);
    expect(few.tasks).toBe(10);
    expect(few.names.filter((name) => name === 'evalsha')).toHaveLength(2);
    expect(await cost(1_000)).toEqual(few);
  });

  it('F-14 that are due are found without a look at those that back off until later', async () => {
    const store = bench.open({ prefix: 'backs-off' });
    const begin = async (until: number) => {
      const { taskId, owner } = await beginHeld(store);
      await owner.append(backoff(until));
      await store.release(owner.lease);
      return taskId;
    };
    const now = Date.now();
    for (let index = 0; index < 200; index++) await begin(now + 3_600_000 + index);
    const due = [await begin(now - 2), await begin(now - 1)];
    await store.list({ runnable: true, dueBy: now });
    bench.server.cli('CONFIG', 'RESETSTAT');
    expect((await store.list({ runnable: true, dueBy: now })).map(({ taskId }) => taskId)).toEqual(due);
    // The tasks that may be taken at once, twice those that back off, and each of the two.
    expect(work().calls).toEqual({ evalsha: 1, time: 1, zrangebyscore: 3, hmget: 2 });
  });

  it('F-14 a list of one state looks at the tasks that it gives, however many others there are', async () => {
    const store = bench.open({ prefix: 'states' });
    await waitingOrEnded(store, count);
    const working: string[] = [];
    for (let index = 0; index < 7; index++) {
      const { taskId, owner } = await beginHeld(store);
      await owner.append(note('works'));
      working.unshift(taskId);
    }
    const ids = async (query: TaskQuery) => (await store.list(query)).map(({ taskId }) => taskId);
    await store.list({ state: 'working' });
    bench.server.cli('CONFIG', 'RESETSTAT');
    expect((await ids({ state: 'working' })).sort()).toEqual(working.sort());
    expect(work().calls).toEqual({ zrevrange: 1, evalsha: 7, time: 7, hmget: 7 });
    bench.server.cli('CONFIG', 'RESETSTAT');
    expect(await ids({ state: 'completed', limit: 10 })).toHaveLength(10);
    expect(work().calls).toEqual({ zrevrange: 1, evalsha: 10, hmget: 10 });
    const cards = ['submitted', 'working', 'input-required', 'completed'].map((state) =>
      Number(bench.server.cli('ZCARD', `states:state:${state}`)),
    );
    expect(cards).toEqual([0, 7, count / 2, count / 2]);
    const [gone = ''] = await ids({ state: 'completed', limit: 1 });
    await store.delete(gone);
    expect(bench.server.cli('ZCARD', 'states:state:completed')).toBe(String(count / 2 - 1));
  }, 600_000);

  it('F-14 a list of one state leaves out tasks whose time is over, and forgets them', async () => {
    const store = bench.open({ prefix: 'expired' });
    await waitingOrEnded(store, 100);
    const [gone, ...rest] = (await store.list({ state: 'completed' })).map(({ taskId }) => taskId);
    bench.server.cli('DEL', `expired:{${gone}}:h`);
    expect((await store.list({ state: 'completed' })).map(({ taskId }) => taskId)).toEqual(rest);
    expect(bench.server.cli('ZCARD', 'expired:state:completed')).toBe(String(rest.length));
  });

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
    bench.server.cli('DEL', 'older:due', 'older:state:submitted', 'older:state:working');
    expect(await bench.open({ prefix: 'older' }).list({ runnable: true })).toMatchObject([{ taskId: 'given-back' }]);
    expect(bench.server.cli('EXISTS', 'older:indexed')).toBe('1');
    const [working, submitted] = [await store.list({ state: 'working' }), await store.list({ state: 'submitted' })];
    expect([working, submitted]).toMatchObject([[{ taskId: 'given-back' }], [{ taskId: 'held' }]]);
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
