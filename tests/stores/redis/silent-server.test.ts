import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { openClient, redisStoreSettings } from 'millrace/internals';
import {
  RedisArtifactStore,
  RedisCacheStore,
  RedisMessageStore,
  RedisPushStore,
  RedisStateStore,
} from 'millrace/redis';
import { describeRedis } from './describe-redis.ts';
import { RedisBench } from './redis-bench.ts';
import { TcpProxy } from './tcp-proxy.ts';

const said = [{ role: 'user' as const, content: 'Hi' }];

describe('a Redis that takes connections and says nothing', () => {
  const sockets = new Set<Socket>();
  let server: Server;
  let port: number;

  beforeAll(async () => {
    server = createServer((socket) => void sockets.add(socket.on('error', () => {})));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    port = typeof address === 'object' ? (address?.port ?? 0) : 0;
  });
  afterAll(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });

  it.each<[string, (redis: object) => { ask: () => unknown; close: () => Promise<void> }]>([
    ['RedisStateStore', (redis) => storeOf(new RedisStateStore({ redis }), (store) => store.read('t'))],
    ['RedisMessageStore', (redis) => storeOf(new RedisMessageStore({ redis }), (store) => store.begin('c', 't'))],
    ['RedisArtifactStore', (redis) => storeOf(new RedisArtifactStore({ redis }), (store) => store.describe('a'))],
    ['RedisPushStore', (redis) => storeOf(new RedisPushStore({ redis }), (store) => store.list('t'))],
    ['RedisCacheStore', (redis) => storeOf(new RedisCacheStore({ redis }), (store) => store.get('k'))],
  ])('is UNAVAILABLE, retryable, to %s, which can be closed then', async (_name, storeOn) => {
    const { ask, close } = storeOn({ host: '127.0.0.1', port, socketTimeout: 50 });
    await expect(ask()).rejects.toMatchObject({ code: 'UNAVAILABLE', retryable: true });
    await close();
  });

  it('has five seconds to answer, and those of the replicas it waits for, unless the caller says otherwise', () => {
    const waits = { socketTimeout: 5_000, sentinelCommandTimeout: 5_000 };
    expect(openClient('redis://127.0.0.1:1').client.options).toMatchObject(waits);
    expect(openClient({ port: 1 }, { silenceMs: 7 }).client.options).toMatchObject({ socketTimeout: 7 });
    expect(redisStoreSettings({ redis: 'redis://h' }).silenceMs).toBe(5_000);
    const strict = redisStoreSettings({ redis: 'redis://h', durability: 'strict', replicaTimeoutMs: 9_000 });
    expect(strict.silenceMs).toBe(14_000);
    expect(openClient({ port: 1, socketTimeout: 9 }).client.options).toMatchObject({ ...waits, socketTimeout: 9 });
  });
});

function storeOf<S extends { close(): Promise<void> }>(store: S, ask: (store: S) => unknown) {
  return { ask: () => ask(store), close: () => store.close() };
}

describeRedis('a connection that is lost without a word', () => {
  const bench = new RedisBench();

  it('is made anew, and what was on its way is stored once', async () => {
    const proxy = await TcpProxy.start(bench.server.port);
    const { port } = new URL(proxy.url);
    const redis = { host: '127.0.0.1', port: Number(port), socketTimeout: 100 };
    const store = new RedisMessageStore({ redis, prefix: 'silence' });
    try {
      await store.begin('c', 't');
      proxy.fallSilent();
      expect(await store.append('c', 't', said)).toEqual({ appended: true });
      expect(await store.load('c')).toMatchObject({ messages: said, total: 1, openTurns: [] });
    } finally {
      await store.close();
      await proxy.close();
    }
  });
});
