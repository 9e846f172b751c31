import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { agent } from 'millrace';
import { turnQueue, worker } from 'millrace/fleet';
import { RedisStateStore } from 'millrace/redis';
import { asking, callsOnce, times, until, user } from '../fleet/fleet-bench.ts';
import { describeSentinel } from '../stores/redis/describe-redis.ts';
import type { RedisProcess } from '../stores/redis/redis-process.ts';
import { startWatched, type WatchedRedis } from '../stores/redis/redis-sentinel.ts';

describeSentinel('a fleet behind Sentinel', () => {
  let redis: WatchedRedis;
  const clients: Redis[] = [];
  const connect = () => {
    const client = new Redis({ ...redis.options, maxRetriesPerRequest: null });
    // A client without a listener writes each broken connection to the console.
    client.on('error', () => {});
    clients.push(client);
    return client;
  };
  beforeAll(async () => {
    redis = await startWatched(['appendonly yes', 'maxmemory-policy noeviction']);
  });
  afterAll(async () => {
    for (const client of clients) client.disconnect();
    await redis.remove();
  });

  it('loses no turn when the primary is killed: those that wait are woken, and new ones run, on its replica', async () => {
    const store = new RedisStateStore({ redis: redis.options, prefix: 'journals' });
    const queueOn = () => turnQueue({ connection: connect(), store, name: 'work' });
    const producer = queueOn();
    const queue = queueOn();
    const ada = agent({ id: 'ada', provider: callsOnce('pay'), tools: [asking()], enableTracing: false });
    const working = worker({ queue, agents: [ada], ...times });
    const over = working.run();
    const ids = Array.from({ length: 20 }, (_, index) => `t${index}`);
    const all = async (state: 'input-required' | 'completed', count: number) =>
      (await store.list({ state, limit: 100 })).length === count;
    /** As a gateway's client does where it is told that the server is away. */
    const patiently = async (act: () => Promise<unknown>) => {
      await until(() =>
        act().then(
          () => true,
          () => false,
        ),
      );
    };
    const start = (taskId: string) => patiently(() => producer.start(user('Pay'), { agentId: 'ada', taskId }));
    const answer = (taskId: string) => patiently(() => producer.answer(taskId, { '1:0': { approved: true } }));
    try {
      await Promise.all(ids.slice(0, 10).map(start));
      await until(() => all('input-required', 10));
      const written = offsetIn('master_repl_offset', redis.primary);
      await until(() => offsetIn('slave_repl_offset', redis.replica) >= written);
      await redis.primary.end('SIGKILL');
      await redis.promoted();
      await Promise.all(ids.slice(10).map(start));
      // Connections of BullMQ wait up to 20 s before they try again.
      await until(() => all('input-required', 20));
      await Promise.all(ids.map(answer));
      await until(() => all('completed', 20));
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

/** How much of the primary's writes a server has. */
function offsetIn(name: string, server: RedisProcess): number {
  return Number(new RegExp(`${name}:(\\d+)`).exec(server.cli('INFO', 'replication'))?.[1] ?? -1);
}
