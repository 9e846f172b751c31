// Hundreds of turns at once while workers and Redis die, for as long as it is told. What it takes and tells stands in README.md.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Random } from '../crash/random.ts';
import { startRedis } from '../stores/redis/redis-process.ts';
import { Soak } from './soak.ts';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    workers: { type: 'string', default: '4' },
    turns: { type: 'string', default: '300' },
    seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 31)) },
  },
});
const minutes = numberOf('minutes', values.minutes);
const workers = numberOf('workers', values.workers, 2);
const turns = numberOf('turns', values.turns);
const random = new Random(numberOf('seed', values.seed));
const endingMs = 120_000;

const folder = mkdtempSync(join(tmpdir(), 'millrace-soak-'));
const redis = await startRedis({ config: ['appendonly yes', 'save ""'] });
const program = fileURLToPath(new URL('worker.mjs', import.meta.url));
const soak = new Soak({ program, redis, folder, workers, turns, random });
const startedAt = Date.now();
const until = startedAt + minutes * 60_000;
console.log(`seed ${values.seed}: ${minutes} minutes, ${turns} turns at once in ${workers} workers`);
soak.start();
const telling = setInterval(() => console.log(line()), 10_000);
await Promise.all([again(3_000, 8_000, () => soak.killWorker()), again(10_000, 20_000, () => soak.restartRedis())]);
await soak.finish(endingMs);
clearInterval(telling);
await redis.remove();
rmSync(folder, { recursive: true });
console.log(line());
console.log(`memory of the worker that lived, in tenths of the time: ${soak.memory.course}`);
for (const violation of soak.violations.slice(0, 50)) console.log(`VIOLATION ${violation}`);
console.log(
  `${soak.ended} turns, ${soak.kills} kills, ${soak.restarts} restarts, ${soak.violations.length} violations`,
);
process.exitCode = soak.violations.length > 0 ? 1 : 0;

/** Does something again and again, after a while of random length, until the time is over. */
async function again(leastMs: number, mostMs: number, act: () => Promise<void>): Promise<void> {
  for (;;) {
    const pause = random.int(leastMs, mostMs);
    if (Date.now() + pause >= until) return void (await sleep(Math.max(0, until - Date.now())));
    await sleep(pause);
    await act();
  }
}

function line(): string {
  const seconds = Math.round((Date.now() - startedAt) / 1_000);
  const lost = [...soak.losses].map(([code, times]) => `${times} ${code}`).join(', ') || 'none';
  return `${seconds} s: ${soak.ended} ended, ${soak.open} open, ${soak.kills} kills, ${soak.restarts} restarts, lost: ${lost}; ${soak.memory.last}; ${soak.violations.length} violations`;
}

function numberOf(name: string, text: string, least = 1): number {
  const value = Number(text);
  if (Number.isFinite(value) && value >= (name === 'minutes' ? 0.1 : least)) return value;
  console.error(`--${name} is ${text}; give a number from ${least}.`);
  process.exit(1);
}
