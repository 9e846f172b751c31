import { describe, expect, it } from '@jest/globals';
import { AgentLoopError, InMemoryStateStore, StoreFactory } from 'millrace';
import { type StateStoreOptions, startRecord } from 'millrace/internals';
import { LmdbCacheStore, LmdbStateStore } from 'millrace/lmdb';
import { RedisCacheStore, RedisStateStore } from 'millrace/redis';
import { fakeClock } from 'millrace/testing';
import { TemporaryStores } from './lmdb/temporary-stores.ts';

function thrownBy(run: () => unknown): unknown {
  try {
    return run();
  } catch (thrown) {
    return thrown;
  }
}

/** A configuration as it comes from a file: its type is not known. */
function configured(json: string): StateStoreOptions {
  return JSON.parse(json);
}

describe('StoreFactory.createStateStore', () => {
  it('makes a store of the type asked for, synchronously', () => {
    expect(StoreFactory.createStateStore({ type: 'memory' })).toBeInstanceOf(InMemoryStateStore);
  });

  it('makes a store in a file of the path asked for, synchronously', async () => {
    const files = new TemporaryStores();
    const path = files.path();
    const store = StoreFactory.createStateStore({ type: 'lmdb', path });
    try {
      expect(store).toBeInstanceOf(LmdbStateStore);
      expect(await store.create('t', startRecord('t'))).toMatchObject({ created: true });
      expect(files.open({ path }).read('t')).toHaveLength(1);
    } finally {
      await store.close();
      await files.clear();
    }
    expect(() => StoreFactory.createStateStore({ type: 'lmdb', path: '' })).toThrow('needs a path');
  });

  it('S1-74 makes a Redis store of a URL, synchronously and without a connection', async () => {
    const store = StoreFactory.createStateStore({ type: 'redis', redis: 'redis://127.0.0.1:1', ttl: 86_400 });
    expect(store).toBeInstanceOf(RedisStateStore);
    await store.close();
    expect(() => StoreFactory.createStateStore({ type: 'redis', redis: 'redis://127.0.0.1:1', ttl: 0 })).toThrow(
      /ttl must .*, not 0/,
    );
  });

  it('says what is missing where a program without types gives nothing', () => {
    const refused = {
      code: 'INVALID_CONFIG',
      message: expect.stringContaining("StoreFactory.createStateStore({ type: 'memory' })"),
    };
    expect(thrownBy(() => Reflect.apply(StoreFactory.createStateStore, undefined, []))).toMatchObject(refused);
  });

  it('lists tasks by a query whose members may be undefined', () => {
    const store = StoreFactory.createStateStore({ type: 'memory' });
    const none = { state: undefined, contextId: undefined, runnable: undefined, roots: undefined, limit: undefined };
    expect(store.list({ ...none, byStatus: undefined })).toEqual([]);
    expect(store.list({ byStatus: { group: 'g', after: undefined, since: undefined } })).toEqual([]);
  });

  it('hands the options on to the store', async () => {
    const clock = fakeClock();
    const store = StoreFactory.createStateStore({ type: 'memory', clock });
    await store.create('t', startRecord('t'));
    await store.acquire('t', 'a', 1_000);
    expect(await store.list()).toMatchObject([{ held: true }]);
    clock.advance(1_000);
    expect(await store.list()).toMatchObject([{ held: false }]);
    expect(() => StoreFactory.createStateStore({ type: 'memory', maxEndedTasks: -1 })).toThrow(
      /maxEndedTasks must .*, not -1/,
    );
  });

  it.each([
    [
      '{"type":"redis","redis":"redis://127.0.0.1:1","url":"redis://x"}',
      /^RedisStateStore has no option "url"; .*redis, ttl/,
    ],
    ['{"type":"redis"}', /^redis is undefined; give a URL/],
    ['{"type":"redis","redis":""}', /^redis is ""; give a URL/],
    ['{"type":"lmdb","folder":"x"}', /^LmdbStateStore has no option "folder"; .*path, ttl, clock, pollMs\.$/],
    ['{"type":"memory","toString":1}', /^InMemoryStateStore has no option "toString"; .*clock, maxEndedTasks\.$/],
  ])('refuses %s with INVALID_CONFIG, naming what is wrong and what there is', (json, message) => {
    const expected = expect.objectContaining({ code: 'INVALID_CONFIG', message: expect.stringMatching(message) });
    expect(() => StoreFactory.createStateStore(configured(json))).toThrow(expected);
  });

  it('refuses options that are no object', () => {
    const memory = () => Reflect.construct(InMemoryStateStore, ['x']);
    expect(memory).toThrow('InMemoryStateStore takes an object of options, not "x"; the options are: clock');
  });

  it.each(['{"type":"reddis"}', '{"type":"toString"}', '{}'])(
    'S1-74 refuses the unknown type in %s with INVALID_CONFIG and names the known ones',
    (json) => {
      const type = JSON.parse(json).type;
      const create = (): unknown => StoreFactory.createStateStore(configured(json));
      expect(create).toThrow(AgentLoopError);
      expect(create).toThrow(
        expect.objectContaining({
          code: 'INVALID_CONFIG',
          message: `The store type "${type}" is not known; known types: memory, lmdb, postgres, redis.`,
        }),
      );
    },
  );
});

describe('StoreFactory.createMessageStore, createArtifactStore and createCacheStore', () => {
  it('make a store of the type asked for, with its options', async () => {
    const messages = StoreFactory.createMessageStore({ type: 'memory', maxContexts: 1 });
    await messages.append('a', 't', []);
    await messages.append('b', 't', []);
    expect(await messages.contexts()).toMatchObject({ contexts: [{ contextId: 'b' }] });
    const artifacts = StoreFactory.createArtifactStore({ type: 'memory', maxBytes: 1 });
    expect(() => artifacts.create({ name: 'a', content: 'xy' })).toThrow('more than 1 bytes');
    const cache = StoreFactory.createCacheStore({ type: 'memory', maxEntries: 1 });
    await cache.set('a', 1);
    await cache.set('b', 2);
    expect([await cache.get('a'), await cache.get('b')]).toEqual([undefined, 2]);
    const files = new TemporaryStores();
    const path = files.path();
    const kept = StoreFactory.createCacheStore({ type: 'lmdb', path: files.path() });
    expect(kept).toBeInstanceOf(LmdbCacheStore);
    if (kept instanceof LmdbCacheStore) await kept.close();
    expect(StoreFactory.createCacheStore({ type: 'redis', redis: 'redis://127.0.0.1:1' })).toBeInstanceOf(
      RedisCacheStore,
    );
    await StoreFactory.createArtifactStore({ type: 'folder', path }).create({ artifactId: 'a', name: 'a' });
    expect(await StoreFactory.createArtifactStore({ type: 'folder', path }).describe('a')).toMatchObject({ name: 'a' });
    await files.clear();
  });

  it('refuse types and options that are not known, as INVALID_CONFIG', () => {
    expect(() => StoreFactory.createMessageStore(JSON.parse('{"type":"folder"}'))).toThrow(
      'The store type "folder" is not known; known types: memory, lmdb, postgres, redis.',
    );
    expect(() => StoreFactory.createArtifactStore(JSON.parse('{"type":"s3"}'))).toThrow(
      'known types: memory, folder, redis.',
    );
    expect(() => StoreFactory.createArtifactStore(JSON.parse('{"type":"folder","path":"x","stray":1}'))).toThrow(
      'has no option "stray"',
    );
    expect(() => StoreFactory.createCacheStore(JSON.parse('{"type":"disk"}'))).toThrow(
      'known types: memory, lmdb, postgres, redis.',
    );
    expect(() => StoreFactory.createMessageStore(JSON.parse('{"type":"redis"}'))).toThrow('redis is undefined');
  });
});
