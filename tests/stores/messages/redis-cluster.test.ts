import { afterAll, beforeAll, describe, it } from '@jest/globals';
import type { Cluster } from 'ioredis';
import { messageStoreContract } from 'millrace/testing';
import { describeRedis } from '../redis/describe-redis.ts';
import { type RedisCluster, startCluster } from '../redis/redis-cluster.ts';
import { redisHarness } from './redis-contract.ts';

describeRedis('RedisMessageStore on a cluster of three', () => {
  let cluster: RedisCluster;
  let clients: readonly Cluster[] = [];
  let taken = 0;
  beforeAll(async () => {
    cluster = await startCluster();
    clients = [cluster.connect(), cluster.connect()];
  });
  afterAll(async () => {
    for (const client of clients) client.disconnect();
    await cluster.remove();
  });

  const next = (): Cluster => {
    const client = clients[taken++ % 2];
    if (client === undefined) throw new Error('The cluster is not up yet.');
    return client;
  };
  messageStoreContract(redisHarness('RedisMessageStore', next), { describe, it });
});
