import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LmdbStateStore } from 'millrace/lmdb';
import { PostgresStateStore } from 'millrace/postgres';
import { RedisStateStore } from 'millrace/redis';
import type { JournalRecord, TaskQuery, TaskStateStore, TurnRecord } from 'millrace/types';
import { startPostgres } from '../../tests/stores/postgres/postgres-process.ts';
import { postgresPrograms } from '../../tests/stores/postgres/postgres-programs.mjs';
import { sql } from '../../tests/stores/postgres/sql.ts';
import { medianOf } from '../measure.ts';
import type { Figure } from './figure.ts';

const endedTasks = Number(process.env['MILLRACE_TASKS'] ?? 100_000);
const dueTasks = 10;
const waitingTasks = 1_000;
const rounds = 21;

/** The time of lists in stores that hold many tasks that have ended, some that back off for an hour, and ten that are due. */
export async function measureListing(port: number): Promise<readonly Figure[]> {
  const redis = new RedisStateStore({ redis: `redis://127.0.0.1:${port}`, prefix: 'listing' });
  const path = mkdtempSync(join(tmpdir(), 'millrace-listing-'));
  const lmdb = new LmdbStateStore({ path });
  try {
    const figures: Figure[] = [];
    for (const [name, store] of [
      ['Redis', redis],
      ['LMDB', lmdb],
    ] as const) {
      await fill(store, endedTasks);
      figures.push(...(await figuresOf(name, store)));
    }
    return postgresPrograms === undefined ? figures : [...figures, ...(await measurePostgres())];
  } finally {
    await Promise.all([redis.close(), lmdb.close()]);
    rmSync(path, { recursive: true });
  }
}

async function measurePostgres(): Promise<readonly Figure[]> {
  const server = await startPostgres();
  const store = new PostgresStateStore({ postgres: server.url });
  try {
    await store.migrate();
    await sql(
      server.url,
      `insert into millrace.task (task_id, context_id, agent_id, schema, state, ended, seq, bytes, created_at, updated_at, status_at)
       select gen_random_uuid(), 'c' || n, 'bench', 2, 'completed', true, 2, 500, 1, 1, 1 from generate_series(1, $1::int) n`,
      [endedTasks],
    );
    await fill(store, 0);
    await sql(server.url, 'analyze millrace.task');
    return await figuresOf('PostgreSQL', store);
  } finally {
    await store.close();
    await server.remove();
  }
}

async function fill(store: TaskStateStore, ended: number): Promise<void> {
  const now = Date.now();
  const done: TurnRecord = { type: 'turn.done', text: 'Two.', reason: 'stop' };
  await many(ended, 'ended', (taskId) => task(store, taskId, done));
  await many(waitingTasks, 'waits', (taskId) => task(store, taskId, backoff(now + 3_600_000)));
  await many(dueTasks / 2, 'due', (taskId) => task(store, taskId, backoff(now - 1)));
  await many(dueTasks / 2, 'created', (taskId) => task(store, taskId, undefined));
}

async function many(count: number, name: string, make: (taskId: string) => Promise<void>): Promise<void> {
  for (let from = 0; from < count; from += 200) {
    const size = Math.min(200, count - from);
    await Promise.all(Array.from({ length: size }, (_, index) => make(`${name}-${from + index}`)));
  }
}

function backoff(until: number): TurnRecord {
  return { type: 'turn.suspended', state: 'working', reason: 'backoff', questions: [], hold: { until, attempt: 1 } };
}

async function task(store: TaskStateStore, taskId: string, last: TurnRecord | undefined): Promise<void> {
  const messages = [{ role: 'user', content: 'Hello' }] as const;
  const start = {
    type: 'turn.started',
    schema: 2,
    taskId,
    contextId: `c-${taskId}`,
    agentId: 'bench',
    messages,
  } as const;
  await store.create(taskId, { ...start, settings: { maxIterations: 7 }, seq: 1, epoch: 0, at: Date.now() });
  if (last === undefined) return;
  const lease = await store.acquire(taskId, 'bench', 60_000);
  const record: JournalRecord = { ...last, seq: 2, epoch: lease.epoch, at: Date.now() };
  const status = last.type === 'turn.done' ? 'completed' : 'working';
  await store.append(lease, [record], { status, barrier: true });
  if (status === 'working') await store.release(lease);
}

async function figuresOf(name: string, store: TaskStateStore): Promise<readonly Figure[]> {
  const stock = `${endedTasks} ended, ${waitingTasks} that back off`;
  return [
    await figureOf(
      `${name}: the ${dueTasks} due tasks beside ${stock}`,
      store,
      { runnable: true, dueBy: Date.now() },
      10,
    ),
    await figureOf(`${name}: 50 tasks of one common state`, store, { state: 'completed' }, 50),
    await figureOf(`${name}: a state that no task has`, store, { state: 'failed' }, 50),
  ];
}

async function figureOf(figure: string, store: TaskStateStore, query: TaskQuery, mostMs: number): Promise<Figure> {
  const expected = query.runnable ? dueTasks : query.state === 'completed' ? 50 : 0;
  const samples: number[] = [];
  for (let round = 0; round <= rounds; round++) {
    const startedAt = performance.now();
    const found = await store.list(query);
    // The first one connects, and in Redis looks for tasks of older versions.
    if (round > 0) samples.push(performance.now() - startedAt);
    if (found.length !== expected) throw new Error(`${figure}: ${found.length} tasks in place of ${expected}.`);
  }
  const ms = medianOf(samples);
  const longest = Math.max(...samples);
  return {
    figure,
    measured: `${ms.toFixed(1)} ms (at most ${longest.toFixed(1)})`,
    target: `< ${mostMs} ms`,
    met: ms < mostMs,
  };
}
