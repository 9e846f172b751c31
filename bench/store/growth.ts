// One conversation of 1,000 turns on each store: CPU time, bytes sent to the server, and bytes stored, from turn to turn. Draws docs/pictures/growth.svg.
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { agent, InMemoryStateStore, type LLMProvider, type TaskStateStore } from 'millrace';
import { LmdbStateStore } from 'millrace/lmdb';
import { PostgresStateStore } from 'millrace/postgres';
import { RedisStateStore } from 'millrace/redis';
import { startPostgres } from '../../tests/stores/postgres/postgres-process.ts';
import { sql } from '../../tests/stores/postgres/sql.ts';
import { startRedis } from '../../tests/stores/redis/redis-process.ts';
import { CountingProxy } from './counting-proxy.ts';
import { type Curve, drawCurves } from './curves.ts';

const turns = 1_000;
const step = 50;
const bytesOfText = 87;

const text = (name: string) => name.padEnd(bytesOfText, '.');
const provider: LLMProvider = {
  info: { model: 'gpt-4o' },
  call: async () => ({ message: { role: 'assistant', content: text('Answer') }, finishReason: 'stop' }),
};

type Sum = () => number | Promise<number>;

/** How a sum grows with the turns of one conversation: its value after each `step` of them, from 0 on. */
async function growth(store: TaskStateStore & { close?(): Promise<void> }, sum: Sum): Promise<readonly number[]> {
  const ada = agent({ id: 'ada', provider, taskStateStore: store, contextId: 'c', enableTracing: false });
  // What is compiled, and written once, does not count.
  for (let turn = 0; turn < step; turn++) await ada.run(text('Question'), { contextId: 'first' });
  const from = await sum();
  const sums = [0];
  for (let turn = 1; turn <= turns; turn++) {
    await ada.run(text(`Question ${turn}`));
    if (turn % step === 0) sums.push((await sum()) - from);
  }
  await ada.close();
  await store.close?.();
  return sums;
}

/** Seconds. */
const cpu = (): number => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
};

const mebibytes = (bytes: number): number => bytes / 1024 / 1024;

async function onMemory(): Promise<readonly Curve[]> {
  return [{ figure: 'cpu', store: 'memory', sums: await growth(new InMemoryStateStore(), cpu) }];
}

async function onLmdb(): Promise<readonly Curve[]> {
  const folders = [0, 1].map(() => mkdtempSync(join(tmpdir(), 'millrace-growth-')));
  const [one = '', other = ''] = folders;
  const stored = () => mebibytes(statSync(join(other, 'data.mdb')).size);
  try {
    return [
      { figure: 'cpu', store: 'LMDB', sums: await growth(new LmdbStateStore({ path: one }), cpu) },
      { figure: 'stored', store: 'LMDB', sums: await growth(new LmdbStateStore({ path: other }), stored) },
    ];
  } finally {
    for (const folder of folders) rmSync(folder, { recursive: true });
  }
}

async function onRedis(): Promise<readonly Curve[]> {
  const server = await startRedis();
  const proxy = await CountingProxy.start(server.port);
  const client = new Redis(server.url);
  const open = (prefix: string, redis = server.url) => new RedisStateStore({ redis, prefix });
  const stored = async () => mebibytes(Number(/used_memory:(\d+)/.exec(await client.info('memory'))?.[1]));
  try {
    return [
      { figure: 'cpu', store: 'Redis', sums: await growth(open('cpu'), cpu) },
      { figure: 'sent', store: 'Redis', sums: await growth(open('sent', proxy.url), () => mebibytes(proxy.sent)) },
      { figure: 'stored', store: 'Redis', sums: await growth(open('stored'), stored) },
    ];
  } finally {
    client.disconnect();
    await proxy.close();
    await server.remove();
  }
}

async function onPostgres(): Promise<readonly Curve[]> {
  const server = await startPostgres();
  const proxy = await CountingProxy.start(server.port);
  const open = (schema: string, port = server.port) =>
    new PostgresStateStore({ postgres: server.url.replace(`:${server.port}`, `:${port}`), schema, migrate: true });
  const stored = async () => {
    const [row] = await sql(server.url, 'select pg_database_size(current_database()) as size');
    return mebibytes(Number(row?.['size']));
  };
  const ownPort = Number(new URL(proxy.url).port);
  try {
    return [
      { figure: 'cpu', store: 'PostgreSQL', sums: await growth(open('cpu'), cpu) },
      { figure: 'sent', store: 'PostgreSQL', sums: await growth(open('sent', ownPort), () => mebibytes(proxy.sent)) },
      { figure: 'stored', store: 'PostgreSQL', sums: await growth(open('stored'), stored) },
    ];
  } finally {
    await proxy.close();
    await server.remove();
  }
}

const curves: Curve[] = [];
for (const measure of [onMemory, onLmdb, onRedis, onPostgres]) curves.push(...(await measure()));
for (const { figure, store, sums } of curves) {
  const half = sums[sums.length >> 1] ?? Number.NaN;
  const last = sums.at(-1) ?? Number.NaN;
  console.log(
    `${store.padEnd(10)} ${figure.padEnd(6)} ${last.toFixed(2).padStart(7)} after ${turns} turns; the second half is ${((last - half) / half).toFixed(2)} times the first`,
  );
}
writeFileSync('docs/pictures/growth.svg', drawCurves(curves, { turns, step }));
