import { afterAll, beforeAll, describe, it } from '@jest/globals';
import { RedisStateStore } from 'millrace/redis';
import { storeContract } from 'millrace/testing';
import { contractHarness } from './contract-harness.ts';
import { describeRedis } from './describe-redis.ts';
import { type RedisProcess, startRedis } from './redis-process.ts';

describeRedis('S1-102 RedisStateStore on one server', () => {
  let redis: RedisProcess;
  beforeAll(async () => {
    redis = await startRedis();
  });
  afterAll(() => redis.remove());

  storeContract(
    contractHarness('RedisStateStore', {
      open: () => new RedisStateStore({ redis: redis.url }),
      command: (...args) => redis.cli(...args),
    }),
    { describe, it },
  );
});
