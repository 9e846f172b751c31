import { afterAll, beforeAll, describe, it } from '@jest/globals';
import { ChildPrograms } from '../stores/lmdb/child-programs.ts';
import { describePostgres } from '../stores/postgres/describe-postgres.ts';
import { type PostgresProcess, startPostgres } from '../stores/postgres/postgres-process.ts';
import { describeRedis } from '../stores/redis/describe-redis.ts';
import { type RedisProcess, startRedis } from '../stores/redis/redis-process.ts';
import { temporaryFolder } from './echoing.ts';
import { checkKilledBatch } from './killed-batch.ts';

const children = new ChildPrograms('tests/batch/children');

afterAll(() => children.clear());

describe('a batch whose process is killed at 40 %', () => {
  it('F-17 on LMDB has every key once after the next start, and no finished prompt is paid twice', () =>
    checkKilledBatch({ kind: 'lmdb', place: temporaryFolder(), count: 300, children }));
});

describeRedis('a batch whose process is killed at 40 %', () => {
  let redis: RedisProcess;
  beforeAll(async () => {
    redis = await startRedis();
  });
  afterAll(() => redis.remove());

  it('F-17 on Redis has every key once after the next start, and no finished prompt is paid twice', () =>
    checkKilledBatch({ kind: 'redis', place: redis.url, count: 100, children }));
});

describePostgres('a batch whose process is killed at 40 %', () => {
  let postgres: PostgresProcess;
  beforeAll(async () => {
    postgres = await startPostgres();
  });
  afterAll(() => postgres.remove());

  it('F-17 on PostgreSQL has every key once after the next start, and no finished prompt is paid twice', () =>
    checkKilledBatch({ kind: 'postgres', place: postgres.url, count: 100, children }));
});
