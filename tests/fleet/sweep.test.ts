import { expect, it } from '@jest/globals';
import { FleetQueue, Sweep } from 'millrace/internals';
import { fakeClock } from 'millrace/testing';
import { describeRedis } from '../stores/redis/describe-redis.ts';
import { fleetBench, user } from './fleet-bench.ts';

const everyMs = 60_000;
/** A sweep comes a tenth earlier or later. */
const latestMs = 66_000;

describeRedis('a sweep', () => {
  const on = fleetBench();

  it('wakes a turn that stays where it is after pauses that double, up to sixteen times the first', async () => {
    const clock = fakeClock();
    const queue = new FleetQueue({ connection: on.redis.server.url, store: on.store, name: on.nameOfTest, clock });
    await queue.start(user('Hello'), { agentId: 'ada', taskId: 't' });
    const wokenAt: number[] = [];
    const onWoken = () => wokenAt.push(clock.now());
    const sweep = new Sweep({ queue, agentIds: ['ada'], everyMs, logger: undefined, onWoken });
    sweep.start();
    while (wokenAt.length < 7) {
      await clock.whenPending();
      // Redis has its own clock.
      on.redis.server.cli('DEL', queue.connections.key('sweep', 'ada'));
      clock.advanceToNext();
    }
    await sweep.stop();
    await queue.close();
    for (const [index, times] of [1, 2, 4, 8, 16, 16].entries()) {
      const pauseMs = (wokenAt[index + 1] ?? 0) - (wokenAt[index] ?? 0);
      expect(pauseMs).toBeGreaterThanOrEqual(everyMs * times);
      expect(pauseMs).toBeLessThanOrEqual(everyMs * times + latestMs);
    }
  });
});
