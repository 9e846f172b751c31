import { afterAll, expect, it } from '@jest/globals';
import { ChildBundle } from '../crash/parent/child-bundle.ts';
import { runLoad } from '../fleet-load/load.ts';
import { tableOf } from '../fleet-load/table.ts';
import { describeRedis } from '../stores/redis/describe-redis.ts';

/** How long something takes depends on what else the machine does. F-06, F-08 and F-12 have tests of their own. */
const timed = /: (a takeover takes|an answered turn continues within|a small tenant is not behind)/;
const seed = Number(process.env['MILLRACE_SEED'] ?? Math.floor(Math.random() * 2 ** 31));

describeRedis(
  `a fleet under load (npm run test:fleet -- --turns 500 --observed 300 --seed ${seed} --lock 8000 --kill-every 2500)`,
  () => {
    const bundle = new ChildBundle([], 'tests/fleet-load/child.ts');
    afterAll(() => bundle.remove());

    it('F-04 F-05 500 turns end once while workers, gateway, observer and Redis are killed, and a third process observes 300 without a gap', async () => {
      const options = {
        turns: 500,
        workers: 4,
        store: 'redis',
        seed,
        observed: 300,
        concurrency: 10,
        killEveryMs: 2_500,
        lockMs: 8_000,
      } as const;
      const result = await runLoad(options, bundle.path);
      console.log(tableOf(options, result));
      expect(result.violations.filter((violation) => !timed.test(violation))).toEqual([]);
      expect(result.kills).toBeGreaterThan(0);
      expect(result.observerKills).toBe(1);
    });
  },
);
