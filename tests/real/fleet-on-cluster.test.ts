import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { Cluster } from 'ioredis';
import { agent } from 'millrace';
import { turnQueue, worker } from 'millrace/fleet';
import { RedisStateStore } from 'millrace/redis';
import { asking, callsOnce, times, until, user } from '../fleet/fleet-bench.ts';
import { describeRedis } from '../stores/redis/describe-redis.ts';
import { type RedisCluster, startCluster } from '../stores/redis/redis-cluster.ts';

describeRedis('a fleet on a cluster of three', () => {
  let cluster: RedisCluster;
  const clients: Cluster[] = [];
  const connect = () => {
    const client = cluster.connect();
    clients.push(client);
    return client;
  };
  beforeAll(async () => {
    cluster = await startCluster();
  });
  afterAll(async () => {
    for (const client of clients) client.disconnect();
    await cluster.remove();
  });

  it('runs turns of tenants within their limits, wakes those that are answered, and survives that its slot moves', async () => {
    const store = new RedisStateStore({ redis: connect(), prefix: 'journals' });
    const queueOn = () => turnQueue({ connection: connect(), store, name: 'work', maxOutstanding: 100 });
    const producer = queueOn();
    const queue = queueOn();
    const ada = agent({ id: 'ada', provider: callsOnce('pay'), tools: [asking()], enableTracing: false });
    const working = worker({ queue, agents: [ada], ...times, tenantConcurrency: () => 4 });
    const over = working.run();
    const ids = Array.from({ length: 40 }, (_, index) => `t${index}`);
    const all = async (state: 'input-required' | 'completed', count: number) =>
      (await store.list({ state, limit: 100 })).length === count;
    const start = (some: readonly string[]) =>
      Promise.all(
        some.map((taskId, index) => producer.start(user('Pay'), { agentId: 'ada', taskId, tenant: `t${index % 3}` })),
      );
    const answer = (some: readonly string[]) =>
      Promise.all(some.map((taskId) => producer.answer(taskId, { '1:0': { approved: true } })));
    try {
      await start(ids.slice(0, 20));
      await until(() => all('input-required', 20));
      await cluster.moveSlotOf('{work}');
      await start(ids.slice(20));
      await until(() => all('input-required', 40));
      await answer(ids);
      await until(() => all('completed', 40));
      await until(async () => {
        const { waiting, active, delayed } = await producer.health();
        return waiting + active + delayed === 0;
      });
      expect(await producer.health()).toMatchObject({ dead: 0, workers: [{ agents: ['ada'] }] });
      for (const id of ids) expect((await store.read(id)).filter(({ type }) => type === 'tool.result')).toHaveLength(1);
    } finally {
      await working.drain();
      await over;
      await Promise.all([queue.close(), producer.close()]);
      await store.close();
    }
  });
});
