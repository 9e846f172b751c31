import { spawnSync } from 'node:child_process';
import { startRedis } from '../../tests/stores/redis/redis-process.ts';
import { measureBytes } from './bytes.ts';
import { measureCpu } from './cpu.ts';
import type { Figure } from './figure.ts';
import { printFigures } from './figure.ts';
import { measureListing } from './listing.ts';
import { measureQueue } from './queue.ts';
import { measureResume } from './resume.ts';
import { measureRoundTrips } from './round-trips.ts';
import { measureSuspended } from './suspended.ts';
import { measureTimes } from './times.ts';

type Measure = (port: number) => Promise<readonly Figure[]>;

const figures: Readonly<Record<string, Measure>> = {
  bytes: measureBytes,
  times: measureTimes,
  cpu: measureCpu,
  trips: measureRoundTrips,
  resume: measureResume,
  suspended: measureSuspended,
  listing: measureListing,
  queue: measureQueue,
};

const asked = process.argv.slice(2);

async function measureAll(): Promise<void> {
  const redis = await startRedis({ config: ['appendonly yes', 'appendfsync everysec', 'save ""'] });
  try {
    const measured: Figure[] = [];
    for (const [name, measure] of Object.entries(figures)) {
      if (asked.length === 0 || asked.includes(name)) measured.push(...(await measure(redis.port)));
    }
    printFigures('Turns on Redis (append-only file, everysec); two tool calls of 2 KB results an iteration', measured);
    if (measured.some(({ met }) => !met)) process.exitCode = 1;
  } finally {
    await redis.remove();
  }
}

if (spawnSync('redis-server', ['--version']).status === 0) await measureAll();
else
  console.log(
    'There is no redis-server on this machine, so nothing was measured; install it, e.g. apt-get install redis-server.',
  );
