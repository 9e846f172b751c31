import { Redis } from 'ioredis';
import { RedisStateStore } from 'millrace/redis';
import { fakeModel } from '../fake-model.ts';
import { race } from '../measure.ts';
import { byHand } from './by-hand.ts';
import { type Figure, ratioFigure } from './figure.ts';
import { runStoredTurn, work } from './stored-turn.ts';

const iterations = 200;

/** CPU time of this process for an iteration, against the loop by hand with one XADD a record. */
export async function measureCpu(port: number): Promise<readonly Figure[]> {
  const store = new RedisStateStore({ redis: `redis://127.0.0.1:${port}` });
  const redis = new Redis(port, '127.0.0.1');
  let turns = 0;
  try {
    const [hand, engine] = await race(
      [
        { name: 'by hand', run: () => byHand(redis, `by-hand-${turns++}`, fakeModel({ ...work, iterations })) },
        { name: 'engine', run: () => runStoredTurn({ store, iterations }) },
      ],
      2_000,
    );
    const [of, to] = [engine?.median ?? Number.NaN, hand?.median ?? Number.NaN];
    const least = (engine?.least ?? Number.NaN) / (hand?.least ?? Number.NaN);
    const detail = `${(of / iterations).toFixed(0)} and ${(to / iterations).toFixed(0)} µs; of the least ${least.toFixed(2)}x`;
    return [
      ratioFigure('CPU of an iteration, to a loop by hand with one XADD a record', { of, to, most: 1.5, detail }),
    ];
  } finally {
    await store.close();
    redis.disconnect();
  }
}
