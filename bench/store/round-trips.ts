import { RedisStateStore } from 'millrace/redis';
import { CountingProxy } from './counting-proxy.ts';
import type { Figure } from './figure.ts';
import { runStoredTurn } from './stored-turn.ts';

/** Of each way: so long that all else is little beside it. */
const delayMs = 40;
const iterations = 12;

/** Counts the appends that the engine waits for. */
class WatchedStore extends RedisStateStore {
  barriers = 0;
  appends = 0;

  override append(...[lease, records, options]: Parameters<RedisStateStore['append']>): Promise<void> {
    this.appends++;
    if (options.barrier) this.barriers++;
    return super.append(lease, records, options);
  }
}

/** How often an iteration waits for Redis: counted, and seen from outside, on a way so long that it decides the time. */
export async function measureRoundTrips(port: number): Promise<readonly Figure[]> {
  const proxy = await CountingProxy.start(port, delayMs);
  const store = new WatchedStore({ redis: proxy.url });
  try {
    await runStoredTurn({ store, iterations: 1 });
    const few = await timeOf(store, 2);
    store.barriers = 0;
    store.appends = 0;
    const many = await timeOf(store, 2 + iterations);
    const trips = (many - few) / iterations / (2 * delayMs);
    // The last append of the turn, its end, is a barrier too.
    const barriers = (store.barriers - 1) / (2 + iterations);
    return [
      {
        figure: 'appends that an iteration waits for',
        measured: `${barriers.toFixed(2)} of ${((store.appends - 2) / (2 + iterations)).toFixed(2)}`,
        target: '1',
        met: barriers === 1,
      },
      {
        figure: 'round trips that an iteration takes, over a slow way',
        measured: trips.toFixed(2),
        target: '1',
        met: Math.round(trips) === 1,
      },
    ];
  } finally {
    await store.close();
    await proxy.close();
  }
}

async function timeOf(store: RedisStateStore, iterations: number): Promise<number> {
  const startedAt = performance.now();
  await runStoredTurn({ store, iterations });
  return performance.now() - startedAt;
}
