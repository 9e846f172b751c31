import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { AgentLoopError } from 'millrace';
import { done, noteRecord as note, seqsOf, upTo, watch } from 'millrace/internals';
import { RedisStateStore } from 'millrace/redis';
import { describeRedis } from './describe-redis.ts';
import { beginHeld, untilReplicas } from './redis-bench.ts';
import { type RedisProcess, startRedis } from './redis-process.ts';

describeRedis('RedisStateStore behind Sentinel', () => {
  let primary: RedisProcess;
  let replica: RedisProcess;
  let sentinel: RedisProcess;
  beforeAll(async () => {
    primary = await startRedis();
    replica = await startRedis({ config: [`replicaof 127.0.0.1 ${primary.port}`] });
    sentinel = await startRedis({
      program: 'redis-sentinel',
      config: [
        `sentinel monitor journal 127.0.0.1 ${primary.port} 1`,
        'sentinel down-after-milliseconds journal 500',
        'sentinel failover-timeout journal 2000',
      ],
    });
    await untilReplicas(primary, 1);
    await untilSentinelKnows(sentinel);
  }, 20_000);
  afterAll(async () => {
    await Promise.all([sentinel, primary, replica].map((process) => process.remove()));
  });

  it('a turn goes on after a fail-over, with its lease, and its readers see it whole', async () => {
    const redis = { sentinels: [{ host: '127.0.0.1', port: sentinel.port }], name: 'journal' };
    const store = new RedisStateStore({ redis, durability: 'strict' });
    const afterwards = new RedisStateStore({ redis });
    try {
      const { taskId, owner } = await beginHeld(store, 60_000);
      const follower = watch(afterwards.follow(taskId), { deadlineMs: 15_000 });
      await owner.append(note('confirmed by the replica'));
      await follower.until('two records', ({ values }) => values.length === 2);
      await primary.end('SIGKILL');
      // The new primary has no replica: the store that does not ask for one goes on with the same lease.
      const records = owner.stamp(note('after the fail-over'), done);
      const deadline = performance.now() + 15_000;
      await sentUntil(deadline, async () =>
        afterwards.append(owner.lease, records, { status: 'completed', barrier: true }),
      );
      expect(await seqsOf(afterwards.read(taskId))).toEqual(upTo(4));
      await follower.until('the end', ({ completed }) => completed);
      expect(follower.values).toHaveLength(4);
      expect(replica.cli('XLEN', `millrace:{${taskId}}:j`)).toBe('4');
    } finally {
      await Promise.all([store.close(), afterwards.close()]);
    }
  }, 25_000);
});

async function untilSentinelKnows(sentinel: RedisProcess): Promise<void> {
  const deadline = performance.now() + 15_000;
  while (!sentinel.cli('SENTINEL', 'REPLICAS', 'journal').includes('master-link-status\nok')) {
    if (performance.now() > deadline) throw new Error('Sentinel did not find the replica.');
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

async function sentUntil(deadline: number, send: () => Promise<void>): Promise<void> {
  for (;;) {
    try {
      return await send();
    } catch (error) {
      if (performance.now() > deadline || !AgentLoopError.isInstance(error) || !error.retryable) throw error;
    }
  }
}
