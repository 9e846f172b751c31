import { afterAll, beforeAll, describe, it } from '@jest/globals';
import type { Cluster } from 'ioredis';
import { RedisStateStore } from 'millrace/redis';
import { storeContract } from 'millrace/testing';
import { contractHarness } from '../stores/redis/contract-harness.ts';
import { describeRedis } from '../stores/redis/describe-redis.ts';
import { type RedisCluster, startCluster } from '../stores/redis/redis-cluster.ts';

describeRedis('S1-102 RedisStateStore on a cluster of three', () => {
  let cluster: RedisCluster;
  let client: Cluster;
  let peerClient: Cluster;
  let opened = 0;
  beforeAll(async () => {
    cluster = await startCluster();
    client = cluster.connect();
    peerClient = cluster.connect();
  });
  afterAll(async () => {
    client.disconnect();
    peerClient.disconnect();
    await cluster.remove();
  });

  storeContract(
    contractHarness('RedisStateStore', {
      open: () => new RedisStateStore({ redis: opened++ % 2 === 0 ? client : peerClient }),
      command: (...args) => cluster.nodes[0]?.cli('-c', ...args),
    }),
    { describe, it },
  );
});
