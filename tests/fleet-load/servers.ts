import type { TaskStateStore } from 'millrace';
import { PostgresStateStore } from 'millrace/postgres';
import { RedisStateStore } from 'millrace/redis';
import { type PostgresProcess, startPostgres } from '../stores/postgres/postgres-process.ts';
import { sql } from '../stores/postgres/sql.ts';
import { type RedisProcess, startRedis } from '../stores/redis/redis-process.ts';

export interface Servers {
  readonly redis: RedisProcess;
  readonly postgres: PostgresProcess | undefined;
  readonly store: TaskStateStore & { close(): Promise<void> };
}

/** Servers of the run's own. */
export async function startServers(kind: 'redis' | 'postgres', name: string): Promise<Servers> {
  const redis = await startRedis();
  if (kind === 'redis')
    return { redis, postgres: undefined, store: new RedisStateStore({ redis: redis.url, prefix: name }) };
  const postgres = await startPostgres(['max_connections=300']);
  const store = new PostgresStateStore({ postgres: postgres.url });
  await store.migrate();
  return { redis, postgres, store };
}

/** What Redis counts from its start on. */
export interface RedisCounts {
  readonly commands: number;
  readonly received: number;
  readonly sent: number;
  readonly cpuMs: number;
}

export async function redisCounts(redis: RedisProcess): Promise<RedisCounts> {
  const info = await redis.cliLater('INFO', 'everything');
  const of = (key: string) => Number(new RegExp(`^${key}:([\\d.]+)`, 'm').exec(info)?.[1] ?? Number.NaN);
  return {
    commands: of('total_commands_processed'),
    received: of('total_net_input_bytes'),
    sent: of('total_net_output_bytes'),
    cpuMs: 1_000 * (of('used_cpu_user') + of('used_cpu_sys')),
  };
}

/** What the journals take, and what is left of the queue. */
export async function storedBytes({ redis, postgres }: Servers): Promise<number> {
  if (postgres) {
    const [row] = await sql(postgres.url, 'select pg_database_size(current_database())::float8 as bytes');
    return Number(row?.['bytes']);
  }
  return Number(/^used_memory:(\d+)/m.exec(await redis.cliLater('INFO', 'memory'))?.[1]);
}
