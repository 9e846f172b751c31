import { RedisStateStore } from 'millrace/redis';
import { medianOf } from '../measure.ts';
import { type Figure, ratioFigure } from './figure.ts';
import { runStoredTurn } from './stored-turn.ts';

const rounds = 5;

/** Wall time of an iteration in long turns and in short ones, by turns; a sample is 1,000 iterations. */
export async function measureTimes(port: number): Promise<readonly Figure[]> {
  const store = new RedisStateStore({ redis: `redis://127.0.0.1:${port}` });
  try {
    await timeOf(store, 50);
    const short: number[] = [];
    const long: number[] = [];
    for (let round = 0; round < rounds; round++) {
      short.push(await timeOf(store, 50));
      long.push(await timeOf(store, 1_000));
    }
    const [of, to] = [medianOf(long), medianOf(short)];
    const detail = `${of.toFixed(2)} and ${to.toFixed(2)} ms`;
    return [ratioFigure('time of an iteration, at 1,000 iterations to 50', { of, to, most: 1.5, detail })];
  } finally {
    await store.close();
  }
}

/** Milliseconds an iteration. */
async function timeOf(store: RedisStateStore, iterations: number): Promise<number> {
  const startedAt = performance.now();
  for (let done = 0; done < 1_000; done += iterations) await runStoredTurn({ store, iterations });
  return (performance.now() - startedAt) / 1_000;
}
