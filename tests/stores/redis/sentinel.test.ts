import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { done, noteRecord as note, seqsOf, upTo, watch } from 'millrace/internals';
import { RedisStateStore } from 'millrace/redis';
import { describeSentinel } from './describe-redis.ts';
import { beginHeld, sentUntilAnswered, untilReplicas } from './redis-bench.ts';
import { startWatched, type WatchedRedis } from './redis-sentinel.ts';

describeSentinel('RedisStateStore behind Sentinel', () => {
  let redis: WatchedRedis;
  beforeAll(async () => {
    redis = await startWatched();
    await untilReplicas(redis.primary, 1);
  });
  afterAll(() => redis.remove());

  it('a turn goes on after a fail-over, with its lease, and its readers see it whole', async () => {
    const store = new RedisStateStore({ redis: redis.options, durability: 'strict' });
    const afterwards = new RedisStateStore({ redis: redis.options });
    try {
      const { taskId, owner } = await beginHeld(store, 60_000);
      const follower = watch(afterwards.follow(taskId));
      await owner.append(note('confirmed by the replica'));
      await follower.until('two records', ({ values }) => values.length === 2);
      await redis.primary.end('SIGKILL');
      // The new primary has no replica: the store that does not ask for one goes on with the same lease.
      const records = owner.stamp(note('after the fail-over'), done);
      await sentUntilAnswered(async () =>
        afterwards.append(owner.lease, records, { status: 'completed', barrier: true }),
      );
      expect(await seqsOf(afterwards.read(taskId))).toEqual(upTo(4));
      await follower.until('the end', ({ completed }) => completed);
      expect(follower.values).toHaveLength(4);
      expect(redis.replica.cli('XLEN', `millrace:{${taskId}}:j`)).toBe('4');
    } finally {
      await Promise.all([store.close(), afterwards.close()]);
    }
  });
});
