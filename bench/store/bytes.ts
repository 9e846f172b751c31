import { RedisStateStore } from 'millrace/redis';
import { CountingProxy } from './counting-proxy.ts';
import { type Figure, ratioFigure } from './figure.ts';
import { runStoredTurn } from './stored-turn.ts';

/** Bytes sent to Redis, counted on the way. Exact: two runs differ only in the digits of times and ids. */
export async function measureBytes(port: number): Promise<readonly Figure[]> {
  const proxy = await CountingProxy.start(port);
  const store = new RedisStateStore({ redis: proxy.url });
  try {
    // Connections, their greetings and the scripts themselves are sent once a process.
    await runStoredTurn({ store, iterations: 1 });
    const [short, long] = [await bytesOf(proxy, store, 10), await bytesOf(proxy, store, 1_000)];
    const detail = `${Math.round(long)} and ${Math.round(short)} bytes`;
    return [
      ratioFigure('bytes sent an iteration, at 1,000 iterations to 10', { of: long, to: short, most: 1.1, detail }),
      {
        figure: 'bytes sent for an iteration with two 2 KB results',
        measured: `${(long / 1024).toFixed(2)} KB`,
        target: '≤ 6 KB',
        met: long <= 6 * 1024,
      },
    ];
  } finally {
    await store.close();
    await proxy.close();
  }
}

async function bytesOf(proxy: CountingProxy, store: RedisStateStore, iterations: number): Promise<number> {
  const before = proxy.sent;
  await runStoredTurn({ store, iterations });
  return (proxy.sent - before) / iterations;
}
