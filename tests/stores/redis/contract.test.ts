import { afterAll, beforeAll, describe, it } from '@jest/globals';
import { RedisStateStore } from '../../../src/stores/redis/redis-state-store.ts';
import { storeContract } from '../../../src/testing/store-contract.ts';
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
