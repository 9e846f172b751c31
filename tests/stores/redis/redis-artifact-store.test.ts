import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { Cluster } from 'ioredis';
import { RedisConnection, runArtifactScript } from 'millrace/internals';
import { RedisArtifactStore, type RedisArtifactStoreOptions } from 'millrace/redis';
import { type ArtifactStoreContractHarness, artifactStoreContract } from 'millrace/testing';
import { describeRedis } from './describe-redis.ts';
import { meddledClient } from './meddled-client.ts';
import { type RedisCluster, startCluster } from './redis-cluster.ts';
import { type RedisProcess, startRedis } from './redis-process.ts';
import { TcpProxy } from './tcp-proxy.ts';

/** The contract on a real server: each case has keys of its own, and the peer another client. */
function harness(name: string, redis: () => RedisArtifactStoreOptions['redis']): ArtifactStoreContractHarness {
  let made = 0;
  const prefixes = new WeakMap<object, string>();
  const open = (prefix: string): RedisArtifactStore => {
    const store = new RedisArtifactStore({ redis: redis(), prefix });
    prefixes.set(store, prefix);
    return store;
  };
  return {
    name,
    createStore: () => open(`case-${made++}`),
    createPeer: (store) => open(prefixes.get(store) ?? ''),
    dispose: (store) => (store instanceof RedisArtifactStore ? store.close() : undefined),
  };
}

describeRedis('RedisArtifactStore on one server', () => {
  let redis: RedisProcess;
  const stores: RedisArtifactStore[] = [];
  const open = (options: Partial<RedisArtifactStoreOptions> = {}): RedisArtifactStore => {
    const store = new RedisArtifactStore({ redis: redis.url, ...options });
    stores.push(store);
    return store;
  };
  const keysOf = (pattern: string) => redis.cli('KEYS', pattern).split('\n').filter(Boolean).sort();
  /** Of each key: -1 where it stays for good, true where it has more than ten of 100 seconds to live. */
  const ttlsOf = (pattern: string) =>
    keysOf(pattern).map((key) => {
      const seconds = Number(redis.cli('TTL', key));
      return seconds === -1 ? -1 : seconds > 10 && seconds <= 100;
    });

  beforeAll(async () => {
    redis = await startRedis();
  });
  afterEach(async () => {
    await Promise.all(stores.splice(0).map((store) => store.close()));
  });
  afterAll(() => redis.remove());

  artifactStoreContract(
    harness('RedisArtifactStore', () => redis.url),
    { describe, it },
  );

  it('keeps an artifact for its time to live from the last change on, all versions and lists alike, or for good', async () => {
    const store = open({ prefix: 'ttl', ttl: 100 });
    await store.create({ artifactId: 'a', name: 'a', content: 'x', taskId: 't', contextId: 'c' });
    for (const key of keysOf('ttl:*').filter((one) => one !== 'ttl:artifacts')) redis.cli('EXPIRE', key, '10');
    await store.update('a', { content: 'y' });
    expect(ttlsOf('ttl:*')).toEqual([-1, true, true, true, true, true]);
    await open({ prefix: 'ttl', ttl: null }).update('a', { name: 'b' });
    expect(ttlsOf('ttl:*')).toEqual([-1, -1, -1, -1, -1, -1]);
    await store.update('a', { name: 'c' });
    expect(ttlsOf('ttl:*')).toEqual([-1, -1, -1, true, true, true]);
    await store.delete('a');
    expect(keysOf('ttl:*')).toEqual([]);
  });

  it('lists no artifact whose time ran out, takes it out of the lists, and looks for such ones now and then', async () => {
    const store = open({ prefix: 'gone' });
    for (const artifactId of ['a', 'b', 'c', 'd']) await store.create({ artifactId, name: 'x', taskId: 't' });
    redis.cli('DEL', 'gone:{b}:ah', 'gone:{c}:ah');
    const { artifacts, next } = await store.list({ taskId: 't', limit: 2 });
    expect(artifacts.map(({ artifactId }) => artifactId)).toEqual(['a', 'd']);
    expect(next).toBeUndefined();
    expect([redis.cli('ZCARD', 'gone:artifacts'), redis.cli('ZCARD', 'gone:artifacts:t:t')]).toEqual(['2', '2']);
    for (const artifactId of ['a', 'd']) redis.cli('DEL', `gone:{${artifactId}}:ah`);
    for (let n = 0; n < 28; n++) await store.create({ artifactId: `new-${n}`, name: 'x' });
    expect(redis.cli('ZCARD', 'gone:artifacts')).toBe('28');
  });

  it('keeps the newest versions, which share the content that did not change, and no drafts of failures', async () => {
    const store = open({ prefix: 'kept', keepVersions: 2 });
    await store.create({ artifactId: 'a', name: 'a', content: 'x' });
    for (const name of ['b', 'c', 'd']) await store.update('a', { name });
    expect(await store.describe('a', { version: 2 })).toBeNull();
    expect(await store.describe('a', { version: 3 })).toMatchObject({ name: 'c' });
    expect(keysOf('kept:{a}:ac:*')).toHaveLength(1);
    await store.update('a', { content: 'y' });
    await store.update('a', { content: 'z' });
    await expect(store.create({ artifactId: 'a', name: 'a' })).rejects.toMatchObject({ code: 'CONFLICT' });
    await expect(store.update('a', { content: 'y' }, { version: 2 })).rejects.toMatchObject({ code: 'CONFLICT' });
    await store.append('a', 'x'.repeat(300_000));
    await store.append('a', 'anew', { offset: 0 });
    expect(keysOf('kept:{a}:ac:*')).toHaveLength(2);
  });

  it('keeps a draft for a day behind its last chunk, and says where it is gone', async () => {
    const store = open({ prefix: 'draft' });
    await store.create({ artifactId: 'a', name: 'a', content: 'before' });
    const [kept] = keysOf('draft:{a}:ac:*');
    await store.append('a', 'x'.repeat(300_000));
    const [draft = ''] = keysOf('draft:{a}:ac:*').filter((key) => key !== kept);
    expect(Number(redis.cli('TTL', draft))).toBe(86_400);
    redis.cli('DEL', draft);
    await expect(store.append('a', '', { last: true })).rejects.toMatchObject({ code: 'UNAVAILABLE', retryable: true });
    expect(await store.get('a')).toMatchObject({ version: 1, size: 6 });
    expect(keysOf('draft:{a}:ac:*')).toEqual([kept]);
  });

  it('knows its own version where the reply to its write was lost and the client sends it again', async () => {
    const proxy = await TcpProxy.start(redis.port);
    const store = open({ redis: proxy.url, prefix: 'lost' });
    await store.create({ artifactId: 'a', name: 'a', content: 'one' });
    const lost = proxy.loseReplyTo('second');
    expect(await store.update('a', { name: 'second' }, { version: 1 })).toMatchObject({ version: 2 });
    await lost;
    expect(await store.describe('a')).toMatchObject({ version: 2, name: 'second' });
    await store.close();
    await proxy.close();
  });

  it('knows it also where another version was made before the call arrived again', async () => {
    const connection = new RedisConnection('test', redis.url);
    const store = open({ prefix: 'twice' });
    const place = { key: 'twice:{a}:ah', artifactId: 'a' };
    const { version: _, ...info } = await store.create({ artifactId: 'a', name: 'a', content: 'one' });
    const [, stamp, , content] = await runArtifactScript(connection, { script: 'look', ...place, args: [''] });
    const args = [-1, String(stamp), 'call', 2, JSON.stringify({ ...info, version: 2, name: 'b' }), String(content), 1];
    const [first] = await runArtifactScript(connection, { script: 'publish', ...place, args });
    expect(await store.update('a', { name: 'c' })).toMatchObject({ version: 3 });
    const [again] = await runArtifactScript(connection, { script: 'publish', ...place, args });
    expect([first, again]).toEqual([0, 0]);
    expect(await store.describe('a')).toMatchObject({ version: 3, name: 'c' });
    await connection.close();
  });

  it('lists an artifact that a list met before it was there', async () => {
    const other = open({ prefix: 'early' });
    const client = meddledClient(redis.url, () => other.list());
    await open({ prefix: 'early', redis: client }).create({ artifactId: 'a', name: 'a', content: 'x' });
    expect((await other.list()).artifacts.map(({ artifactId }) => artifactId)).toEqual(['a']);
    client.disconnect();
  });

  it('runs again what Redis forgot the scripts of', async () => {
    const store = open({ prefix: 'flushed' });
    await store.create({ artifactId: 'a', name: 'a', content: Uint8Array.of(0, 255, 13, 10) });
    redis.cli('SCRIPT', 'FLUSH');
    await store.update('a', { content: Uint8Array.of(255, 0, 128) });
    expect([...((await store.get('a'))?.content ?? [])]).toEqual([255, 0, 128]);
  });

  it('refuses contents and infos that were changed, cut or evicted as POISON, and newer layouts as SCHEMA', async () => {
    const store = open({ prefix: 'torn' });
    for (const artifactId of ['changed', 'evicted', 'garbled', 'swapped', 'newer']) {
      await store.create({ artifactId, name: 'a', content: 'a content' });
    }
    redis.cli('HSET', keysOf('torn:{changed}:ac:*')[0] ?? '', '0', 'A content');
    redis.cli('DEL', keysOf('torn:{evicted}:ac:*')[0] ?? '');
    redis.cli('HSET', 'torn:{garbled}:ah', 'v1', '{');
    redis.cli('HSET', 'torn:{swapped}:ah', 'v1', '{"artifactId":"garbled"}');
    redis.cli('HSET', 'torn:{newer}:ah', 'layout', '2');
    for (const artifactId of ['changed', 'evicted', 'garbled', 'swapped']) {
      await expect(store.get(artifactId)).rejects.toMatchObject({ code: 'POISON' });
    }
    await expect(store.update('evicted', { name: 'b' })).rejects.toMatchObject({ code: 'POISON' });
    await expect(store.get('newer')).rejects.toMatchObject({ code: 'SCHEMA' });
    await store.delete('evicted');
    expect(await store.create({ artifactId: 'evicted', name: 'a' })).toMatchObject({ version: 1 });
  });

  it('is FULL beyond maxBytes, and, retryable, where Redis has no memory; what is there can be read and deleted', async () => {
    const small = open({ prefix: 'small', maxBytes: 10 });
    await expect(small.create({ name: 'a', content: '12345678901' })).rejects.toMatchObject({ code: 'FULL' });
    const store = open({ prefix: 'full' });
    await store.create({ artifactId: 'a', name: 'a', content: 'x' });
    redis.cli('CONFIG', 'SET', 'maxmemory', '1');
    try {
      await expect(store.update('a', { content: 'y' })).rejects.toMatchObject({ code: 'FULL', retryable: true });
      expect(await store.get('a')).toMatchObject({ version: 1 });
      await store.delete('a');
    } finally {
      redis.cli('CONFIG', 'SET', 'maxmemory', '0');
    }
    expect(keysOf('full:*')).toEqual([]);
  });

  it('is UNAVAILABLE, retryable, where nobody answers, and for good once it is closed', async () => {
    const away = open({ redis: 'redis://127.0.0.1:1' });
    await expect(away.create({ name: 'a' })).rejects.toMatchObject({ code: 'UNAVAILABLE', retryable: true });
    const store = open();
    await store.close();
    await store.close();
    for (const call of [() => store.create({ name: 'a' }), () => store.get('a'), () => store.list()]) {
      await expect(call()).rejects.toMatchObject({ code: 'UNAVAILABLE', retryable: false });
    }
  });

  it.each([
    { ttl: 0 },
    { prefix: 'a b' },
    { redis: '' },
    { maxBytes: 0 },
    { keepVersions: 0 },
    { durability: 'strict' },
  ])('refuses %j', (options) => {
    expect(() => open(options)).toThrow(expect.objectContaining({ code: 'INVALID_CONFIG' }));
  });
});

describeRedis('RedisArtifactStore on a cluster of three', () => {
  let cluster: RedisCluster;
  let clients: readonly Cluster[] = [];

  beforeAll(async () => {
    cluster = await startCluster();
    clients = [cluster.connect(), cluster.connect()];
  });
  afterAll(async () => {
    for (const client of clients) client.disconnect();
    await cluster.remove();
  });

  let turn = 0;
  const next = (): Cluster => {
    const client = clients[turn++ % clients.length];
    if (client === undefined) throw new Error('The cluster is not up yet.');
    return client;
  };
  artifactStoreContract(harness('RedisArtifactStore', next), { describe, it });
});
