import { afterAll, beforeAll, it } from '@jest/globals';
import { temporaryFolder } from '../batch/echoing.ts';
import { checkKilledBatch } from '../batch/killed-batch.ts';
import { ChildPrograms } from '../stores/lmdb/child-programs.ts';
import { describePostgres } from '../stores/postgres/describe-postgres.ts';
import { type PostgresProcess, startPostgres } from '../stores/postgres/postgres-process.ts';
import { describeRedis } from '../stores/redis/describe-redis.ts';
import { type RedisProcess, startRedis } from '../stores/redis/redis-process.ts';

const children = new ChildPrograms('tests/batch/children');

afterAll(() => children.clear());

it('F-17 a batch of 5,000 prompts that is killed at 40 % has every key once, and pays no finished prompt twice', async () => {
  await checkKilledBatch({ kind: 'lmdb', place: temporaryFolder(), count: 5_000, children });
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
