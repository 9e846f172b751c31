import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { RedisMessageStore, type RedisMessageStoreOptions } from 'millrace/redis';
import { messageStoreContract } from 'millrace/testing';
import { describeRedis } from '../redis/describe-redis.ts';
import { meddledClient } from '../redis/meddled-client.ts';
import { type RedisProcess, startRedis } from '../redis/redis-process.ts';
import { redisHarness } from './redis-contract.ts';

const hello = [{ role: 'user', content: 'Hello' }] as const;

describeRedis('RedisMessageStore on one server', () => {
  let redis: RedisProcess;
  const stores: RedisMessageStore[] = [];
  const open = (options: Partial<RedisMessageStoreOptions> = {}): RedisMessageStore => {
    const store = new RedisMessageStore({ redis: redis.url, ...options });
    stores.push(store);
    return store;
  };
  /** -1 where a key stays for good, true where it has more than ten of 100 seconds to live. */
  const ttlOf = (key: string) => {
    const seconds = Number(redis.cli('TTL', key));
    return seconds === -1 ? -1 : seconds > 10 && seconds <= 100;
  };
  const age = (key: string) => redis.cli('EXPIRE', key, '10');
  const keysOf = (prefix: string, contextId: string) => redis.cli('KEYS', `${prefix}:{${contextId}}:*`).split('\n');

  beforeAll(async () => {
    redis = await startRedis();
  });
  afterEach(async () => {
    await Promise.all(stores.splice(0).map((store) => store.close()));
  });
  afterAll(() => redis.remove());

  messageStoreContract(
    redisHarness('RedisMessageStore', () => redis.url),
    { describe, it },
  );

  it('keeps a context for its time to live, all keys alike, and as long as a turn is open', async () => {
    const store = open({ prefix: 'ttl', ttl: 100 });
    await store.append('c', 'first', hello);
    keysOf('ttl', 'c').map(age);
    await store.setMetadata('c', { a: 1 });
    expect(keysOf('ttl', 'c').map(ttlOf)).toEqual([true, true, true]);
    await store.begin('c', 'open');
    expect(keysOf('ttl', 'c').map(ttlOf)).toEqual([-1, -1, -1, -1]);
    await store.append('c', 'open', hello);
    expect(keysOf('ttl', 'c').map(ttlOf)).toEqual([true, true, true]);
    await open({ prefix: 'ttl', ttl: null }).append('c', 'kept', hello);
    expect(keysOf('ttl', 'c').map(ttlOf)).toEqual([-1, -1, -1]);
    expect(await store.delete('c')).toBeUndefined();
    expect(keysOf('ttl', 'c')).toEqual(['']);
  });

  it('lists no context whose time ran out, and takes it out of the index', async () => {
    const store = open({ prefix: 'gone' });
    for (const contextId of ['a', 'b', 'c', 'd']) await store.append(contextId, 't', hello);
    redis.cli('DEL', ...['b', 'c'].flatMap((contextId) => keysOf('gone', contextId)));
    const { contexts, next } = await store.contexts({ limit: 2 });
    expect(contexts.map(({ contextId }) => contextId)).toEqual(['a', 'd']);
    expect(next).toBeUndefined();
    expect(redis.cli('ZCARD', 'gone:conversations')).toBe('2');
  });

  it('lists a context that somebody makes anew while it is deleted', async () => {
    const other = open({ prefix: 'anew' });
    await other.append('c', 'first', hello);
    /** Takes the context out of the index only after somebody else wrote to it. */
    class Late extends Redis {
      override sendCommand(...[sent, stream]: Parameters<Redis['sendCommand']>): unknown {
        const send = () => super.sendCommand(sent, stream);
        return sent.name === 'zrem' ? other.append('c', 'second', hello).then(send) : send();
      }
    }
    const client = new Late(redis.url);
    await open({ prefix: 'anew', redis: client }).delete('c');
    expect((await other.contexts()).contexts.map(({ contextId }) => contextId)).toEqual(['c']);
    client.disconnect();
  });

  it('lists a context that a list met before it was there', async () => {
    const other = open({ prefix: 'early' });
    const client = meddledClient(redis.url, () => other.contexts());
    await open({ prefix: 'early', redis: client }).append('c', 't', hello);
    expect((await other.contexts()).contexts.map(({ contextId }) => contextId)).toEqual(['c']);
    client.disconnect();
  });

  it('looks now and then for contexts whose time ran out, without a list', async () => {
    const store = open({ prefix: 'swept' });
    for (let n = 0; n < 20; n++) await store.append(`old-${n}`, 't', hello);
    redis.cli('EVAL', "return redis.call('DEL', unpack(redis.call('KEYS', 'swept:{old*')))", '0');
    for (let n = 0; n < 12; n++) await store.append(`new-${n}`, 't', hello);
    expect(redis.cli('ZCARD', 'swept:conversations')).toBe('12');
  });

  it('runs again what Redis forgot the scripts of', async () => {
    const store = open({ prefix: 'flushed' });
    await store.append('c', 't', hello);
    redis.cli('SCRIPT', 'FLUSH');
    expect(await store.append('c', 't', hello)).toEqual({ appended: false });
    expect(await store.load('c')).toMatchObject({ total: 1 });
  });

  it('refuses a context that lost a key as POISON, and one of a newer version as SCHEMA', async () => {
    const store = open({ prefix: 'torn' });
    await store.append('c', 't', hello);
    redis.cli('DEL', 'torn:{c}:mm');
    for (const call of [() => store.load('c'), () => store.append('c', 'u', hello), () => store.begin('c', 'u')]) {
      await expect(call()).rejects.toMatchObject({ code: 'POISON', message: expect.stringContaining('evicted') });
    }
    await store.append('newer', 't', hello);
    redis.cli('HSET', 'torn:{newer}:mh', 'layout', '2');
    await expect(store.load('newer')).rejects.toMatchObject({ code: 'SCHEMA' });
    await store.delete('c');
    expect(await store.append('c', 't', hello)).toEqual({ appended: true });
  });

  it('refuses a message that is not JSON as POISON', async () => {
    const store = open({ prefix: 'edited' });
    await store.append('c', 't', hello);
    redis.cli('LSET', 'edited:{c}:mm', '0', '{');
    await expect(store.load('c')).rejects.toMatchObject({ code: 'POISON' });
  });

  it('is FULL where Redis has no memory, retryable, and nothing of the turn is stored; what is there can be deleted', async () => {
    const store = open({ prefix: 'full' });
    await store.append('c', 'before', hello);
    redis.cli('CONFIG', 'SET', 'maxmemory', '1');
    try {
      await expect(store.append('c', 't', hello)).rejects.toMatchObject({ code: 'FULL', retryable: true });
      expect(await store.load('c')).toMatchObject({ total: 1, openTurns: [] });
      await store.delete('c');
    } finally {
      redis.cli('CONFIG', 'SET', 'maxmemory', '0');
    }
    expect(await store.append('c', 't', hello)).toEqual({ appended: true });
  });

  it('is UNAVAILABLE, retryable, where nobody answers, and for good once it is closed', async () => {
    const away = open({ redis: 'redis://127.0.0.1:1' });
    await expect(away.append('c', 't', hello)).rejects.toMatchObject({ code: 'UNAVAILABLE', retryable: true });
    const store = open();
    await store.close();
    await store.close();
    for (const call of [() => store.load('c'), () => store.begin('c', 't'), () => store.contexts()]) {
      await expect(call()).rejects.toMatchObject({ code: 'UNAVAILABLE', retryable: false });
    }
  });

  it.each([{ ttl: 0 }, { prefix: 'a b' }, { redis: '' }, { durability: 'strict' }])('refuses %j', (options) => {
    expect(() => open(options)).toThrow(expect.objectContaining({ code: 'INVALID_CONFIG' }));
  });
});
