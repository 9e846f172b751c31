import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import {
  AgentLoop,
  type AgentLoopConfig,
  type Clock,
  InMemoryStateStore,
  snapshotStateStore,
  systemClock,
  type TaskStateStore,
} from 'millrace';
import { LmdbStateStore } from 'millrace/lmdb';
import { PostgresStateStore } from 'millrace/postgres';
import { RedisStateStore } from 'millrace/redis';
import { gate, scriptedLLM } from 'millrace/testing';
import { filter, firstValueFrom } from 'rxjs';
import { plainTools } from '../core/plain-tools.ts';
import { describePostgres } from './postgres/describe-postgres.ts';
import { type PostgresProcess, startPostgres } from './postgres/postgres-process.ts';
import { sql } from './postgres/sql.ts';
import { describeRedis } from './redis/describe-redis.ts';
import { type RedisProcess, startRedis } from './redis/redis-process.ts';
import { PlainMap } from './snapshot/plain-map.ts';

const question = [{ role: 'user', content: 'Shall I?' }] as const;
const twoDaysMs = 2 * 86_400_000;

/** One store, as processes open it. */
interface OpenedStores {
  open(): TaskStateStore;
  /** Lets time pass for the task, as far as the store has a clock. */
  passTwoDays(taskId: string): Promise<void>;
  close(): Promise<void>;
}

class LaterClock implements Clock {
  aheadMs = 0;
  passTwoDays = async () => {
    this.aheadMs = twoDaysMs;
  };
  now(): number {
    return systemClock.now() + this.aheadMs;
  }
  schedule(ms: number, callback: () => void): () => void {
    return systemClock.schedule(ms, callback);
  }
}

function memory(): OpenedStores {
  const clock = new LaterClock();
  const store = new InMemoryStateStore({ clock });
  return { open: () => store, passTwoDays: clock.passTwoDays, close: async () => {} };
}

function snapshots(): OpenedStores {
  const clock = new LaterClock();
  const store = snapshotStateStore(new PlainMap(), { clock });
  return { open: () => store, passTwoDays: clock.passTwoDays, close: async () => {} };
}

function lmdb(): OpenedStores {
  const clock = new LaterClock();
  const path = mkdtempSync(join(tmpdir(), 'millrace-open-'));
  const stores: LmdbStateStore[] = [];
  const open = () => {
    const store = new LmdbStateStore({ path, clock });
    stores.push(store);
    return store;
  };
  const close = async () => {
    await Promise.all(stores.map((store) => store.close()));
    rmSync(path, { recursive: true });
  };
  return { open, passTwoDays: clock.passTwoDays, close };
}

/** The clock of Redis cannot be set: no key of the task has a time to live that could run out. */
function redis(server: RedisProcess): OpenedStores {
  const stores: RedisStateStore[] = [];
  const open = () => {
    const store = new RedisStateStore({ redis: server.url, ttl: 60 });
    stores.push(store);
    return store;
  };
  const passTwoDays = async (taskId: string) => {
    const lives = [...'hjbcdi'].map((letter) => server.cli('TTL', `millrace:{${taskId}}:${letter}`));
    expect(lives.filter((seconds) => seconds !== '-2').length).toBeGreaterThanOrEqual(2);
    expect(lives.filter((seconds) => seconds !== '-2' && seconds !== '-1')).toEqual([]);
  };
  return { open, passTwoDays, close: async () => void (await Promise.all(stores.map((store) => store.close()))) };
}

/** The clock of the server cannot be set: all times of the task are. */
function postgres(server: PostgresProcess): OpenedStores {
  const stores: PostgresStateStore[] = [];
  const open = () => {
    const store = new PostgresStateStore({ postgres: server.url, ttl: 60, migrate: true });
    stores.push(store);
    return store;
  };
  const passTwoDays = async (taskId: string) => {
    const earlier = ['created_at', 'updated_at', 'status_at', 'expires', 'abandoned_at', 'delete_at']
      .map((column) => `${column} = ${column} - ${twoDaysMs}`)
      .join(', ');
    const moved = await sql(server.url, `update millrace.task set ${earlier} where task_id = $1 returning 1`, [taskId]);
    expect(moved).toHaveLength(1);
  };
  return { open, passTwoDays, close: async () => void (await Promise.all(stores.map((store) => store.close()))) };
}

function openWork(openStores: () => OpenedStores): void {
  let opened: OpenedStores;
  beforeAll(() => {
    opened = openStores();
  });
  afterAll(() => opened.close());

  const configOf = (llmProvider: AgentLoopConfig['llmProvider'], taskStateStore: TaskStateStore): AgentLoopConfig => ({
    agentId: 'a',
    llmProvider,
    taskStateStore,
    toolProviders: [plainTools({ ask: { needsApproval: true, execute: () => 'asked' } })],
  });

  it('F-15 an answered turn that nobody runs is there after two days, and runs', async () => {
    const [first, second] = [opened.open(), opened.open()];
    const asks = scriptedLLM([{ toolCalls: [{ name: 'ask' }] }]);
    const turn = new AgentLoop(configOf(asks, first)).startTurn(question);
    expect(await turn.result()).toMatchObject({ status: 'input-required' });
    await turn.settled;
    const { taskId } = turn;
    await AgentLoop.answer(taskId, { store: first, answers: { '1:0': { approved: true } } });
    await opened.passTwoDays(taskId);
    // Stores delete what is over when a task is created.
    const next = new AgentLoop(configOf(scriptedLLM([{ text: 'Yes?' }]), second)).startTurn(question);
    expect(await next.result()).toMatchObject({ status: 'completed' });
    const ends = scriptedLLM([{ text: 'Good.' }]);
    expect(await AgentLoop.resume(taskId, configOf(ends, second)).result()).toMatchObject({
      status: 'completed',
      text: 'Good.',
    });
  });

  it('F-16 a stuck owner whose lease is broken is FENCED at its next append, and another one ends the turn', async () => {
    const [first, second] = [opened.open(), opened.open()];
    const answer = gate();
    const stuck = scriptedLLM([{ gate: answer.pass(), text: 'Late.' }]);
    const turn = new AgentLoop({ ...configOf(stuck, first), leaseMs: 600_000 }).startTurn(question, { detached: true });
    const { taskId } = turn;
    await firstValueFrom(turn.pipe(filter(({ kind }) => kind === 'internal:llm-call')));
    const next = () => AgentLoop.resume(taskId, configOf(scriptedLLM([{ text: 'In time.' }]), second)).result();
    await expect(next()).rejects.toMatchObject({ code: 'BUSY' });
    expect(await AgentLoop.breakLease(taskId, { store: second })).toBe(true);
    answer.open();
    await expect(turn.result()).rejects.toMatchObject({ code: 'FENCED' });
    expect(await next()).toMatchObject({ status: 'completed', text: 'In time.' });
    const records = await second.read(taskId);
    expect(records.filter(({ type }) => type === 'turn.done')).toHaveLength(1);
  });
}

describe('open work in InMemoryStateStore', () => openWork(memory));
describe('open work in LmdbStateStore', () => openWork(lmdb));
describe('open work in snapshotStateStore', () => openWork(snapshots));

describeRedis('open work in RedisStateStore', () => {
  let server: RedisProcess;
  beforeAll(async () => {
    server = await startRedis();
  });
  openWork(() => redis(server));
  afterAll(() => server.remove());
});

describePostgres('open work in PostgresStateStore', () => {
  let server: PostgresProcess;
  beforeAll(async () => {
    server = await startPostgres();
  });
  openWork(() => postgres(server));
  afterAll(() => server.remove());
});
