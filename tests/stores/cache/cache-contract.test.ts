import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type Clock, InMemoryCacheStore } from 'millrace';
import { LmdbCacheStore, LmdbMessageStore } from 'millrace/lmdb';
import { RedisCacheStore } from 'millrace/redis';
import { cacheStoreContract } from 'millrace/testing';
import { describeRedis } from '../redis/describe-redis.ts';
import { type RedisProcess, startRedis } from '../redis/redis-process.ts';

const runner = { describe, it };
const folder = mkdtempSync(join(tmpdir(), 'millrace-cache-'));
afterAll(() => rmSync(folder, { recursive: true }));
let made = 0;
const newPath = () => join(folder, String(made++));
/** Where the data of a store lie. */
const places = new WeakMap<object, string>();

function placed<Store extends object>(store: Store, place: string): Store {
  places.set(store, place);
  return store;
}

cacheStoreContract({ name: 'InMemoryCacheStore', createStore: (options) => new InMemoryCacheStore(options) }, runner);

const openLmdb = (path: string, clock: Clock) => placed(new LmdbCacheStore({ path, clock }), path);
cacheStoreContract(
  {
    name: 'LmdbCacheStore with a second instance on the same file',
    createStore: ({ clock }) => openLmdb(newPath(), clock),
    createPeer: (store, { clock }) => openLmdb(places.get(store) ?? '', clock),
    dispose: (store) => (store instanceof LmdbCacheStore ? store.close() : undefined),
  },
  runner,
);

describe('LmdbCacheStore', () => {
  it('drops what was written longest ago beyond maxEntries and maxBytes, in the file', async () => {
    const path = newPath();
    const store = new LmdbCacheStore({ path, maxEntries: 3 });
    for (const key of ['a', 'b', 'c', 'a', 'd']) await store.set(key, key);
    expect(['a', 'b', 'c', 'd'].map((key) => store.get(key))).toEqual(['a', undefined, 'c', 'd']);
    await store.delete('c');
    await store.set('e', 'e');
    expect(['a', 'd', 'e'].map((key) => store.get(key))).toEqual(['a', 'd', 'e']);
    await store.close();
    const smaller = new LmdbCacheStore({ path, maxBytes: 10 });
    await smaller.set('f', '12345678');
    expect(['a', 'd', 'e', 'f'].map((key) => smaller.get(key))).toEqual([undefined, undefined, undefined, '12345678']);
    await smaller.set('f', '123456789');
    expect(smaller.get('f')).toBeUndefined();
    await smaller.close();
  });

  it('drops hundreds of small values for a large one', async () => {
    const store = new LmdbCacheStore({ path: newPath(), maxBytes: 1_000 });
    await Promise.all(Array.from({ length: 300 }, (_, index) => store.set(`${index}`, 1)));
    await store.set('large', 'x'.repeat(900));
    const kept = Array.from({ length: 300 }, (_, index) => store.get(`${index}`)).filter((value) => value === 1);
    expect(kept).toHaveLength(98);
    expect(store.get('large')).toHaveLength(900);
    await store.close();
  });

  it('keeps its values over a restart, in the file of another store', async () => {
    const path = newPath();
    const [messages, store] = [new LmdbMessageStore({ path }), new LmdbCacheStore({ path })];
    await store.set('a', { b: 1 });
    await messages.append('c', 't', []);
    await Promise.all([store.close(), messages.close()]);
    const next = new LmdbCacheStore({ path });
    expect(next.get('a')).toEqual({ b: 1 });
    await next.close();
  });

  it.each([{ path: '' }, { path: 'x', maxEntries: 0 }, { path: 'x', maxBytes: 1.5 }, { path: 'x', ttl: 1 }])(
    'refuses %j',
    (options) => {
      expect(() => new LmdbCacheStore(options)).toThrow(expect.objectContaining({ code: 'INVALID_CONFIG' }));
    },
  );
});

describeRedis('RedisCacheStore', () => {
  let redis: RedisProcess;
  beforeAll(async () => {
    redis = await startRedis();
  });
  afterAll(() => redis.remove());

  const open = (prefix: string) => placed(new RedisCacheStore({ redis: redis.url, prefix }), prefix);
  cacheStoreContract(
    {
      name: 'RedisCacheStore',
      createStore: () => open(`case-${made++}`),
      createPeer: (store) => open(places.get(store) ?? ''),
      dispose: (store) => (store instanceof RedisCacheStore ? store.close() : undefined),
      advance: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
      ttlMs: 300,
    },
    runner,
  );

  it('keeps what has no time of its own for its ttl, or for good', async () => {
    const stores = [600, null].map(
      (ttl, index) => new RedisCacheStore({ redis: redis.url, prefix: `ttl-${index}`, ttl }),
    );
    for (const store of stores) await store.set('a', 1);
    const ttls = [0, 1].map((index) => Number(redis.cli('TTL', redis.cli('KEYS', `ttl-${index}:*`))));
    expect(ttls[0]).toBeGreaterThan(500);
    expect(ttls[0]).toBeLessThanOrEqual(600);
    expect(ttls[1]).toBe(-1);
    for (const store of stores) await store.close();
  });

  it('takes what is no JSON for no value, and is UNAVAILABLE once it is closed', async () => {
    const store = open('damaged');
    await store.set('a', 1);
    redis.cli('SET', redis.cli('KEYS', 'damaged:*'), '{');
    expect(await store.get('a')).toBeUndefined();
    await store.close();
    await expect(store.get('a')).rejects.toMatchObject({ code: 'UNAVAILABLE' });
  });

  it.each([{ ttl: 0 }, { prefix: '' }, { redis: '' }, { maxEntries: 1 }])('refuses %j', (options) => {
    expect(() => new RedisCacheStore({ redis: 'redis://127.0.0.1:1', ...options })).toThrow(
      expect.objectContaining({ code: 'INVALID_CONFIG' }),
    );
  });
});
