import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { InMemoryPushStore, type PushEntry, type PushStore } from 'millrace/a2a';
import { notText, refusesWrongArguments } from 'millrace/internals';
import { LmdbPushStore } from 'millrace/lmdb';
import { PostgresPushStore } from 'millrace/postgres';
import { RedisPushStore } from 'millrace/redis';
import { type FakeClock, fakeClock } from 'millrace/testing';
import { describePostgres } from '../postgres/describe-postgres.ts';
import { type PostgresProcess, startPostgres } from '../postgres/postgres-process.ts';
import { describeRedis } from '../redis/describe-redis.ts';
import { type RedisProcess, startRedis } from '../redis/redis-process.ts';

const folder = mkdtempSync(join(tmpdir(), 'millrace-push-'));
afterAll(() => rmSync(folder, { recursive: true }));
let made = 0;

interface Opened {
  readonly store: PushStore;
  /** Another process on the same data. */
  readonly peer: PushStore;
  /** Resolves once so much time has passed, by the clock of the stores. */
  readonly pass: (ms: number) => Promise<void>;
  readonly close: () => Promise<unknown>;
}

const entry = (configId: string, more: Partial<PushEntry> = {}): PushEntry => ({
  taskId: 'task-1',
  configId,
  url: 'https://example.com/hook',
  version: '1.0',
  ...more,
});

const claim = { owner: 'one', leaseMs: 60_000, limit: 10 };
const short = { ...claim, leaseMs: 30 };

function contract(open: () => Opened): void {
  let opened: Opened | undefined;
  const stores = () => {
    opened = open();
    return opened;
  };
  afterEach(async () => {
    await opened?.close();
    opened = undefined;
  });

  it('H-07 refuses arguments of another type as INVALID_INPUT, and changes nothing', async () => {
    const { store } = stores();
    const one = entry('a');
    await store.add(one, 5);
    const keys = [undefined, null, 'task-1', {}, { taskId: 'task-1' }, { taskId: 7, configId: 'a' }];
    await refusesWrongArguments(store, {
      add: [...keys.map((bad) => [bad, 5]), [{ ...one, url: 7 }, 5], [one], [one, '5']],
      get: keys.map((bad) => [bad]),
      list: notText.map((bad) => [bad]),
      delete: keys.map((bad) => [bad]),
      claim: [
        [],
        ['one'],
        [{ ...claim, owner: 7 }],
        [{ ...claim, leaseMs: '1' }],
        [{ ...claim, limit: Number.NaN }],
        [{ ...claim, taskId: 7 }],
      ],
      update: [
        ...keys.map((bad) => [bad, 'one', { type: 'over' }]),
        [one, 7, { type: 'over' }],
        [one, 'one'],
        [one, 'one', 'over'],
        [one, 'one', { type: 'done' }],
        [one, 'one', { type: 'held' }],
        [one, 'one', { type: 'parked', afterMs: '5' }],
      ],
    });
    expect(await store.list('task-1')).toEqual([one]);
  });

  it('keeps registrations by task and id, and forgets what is deleted', async () => {
    const { store, peer } = stores();
    const first = entry('b', { token: 't', authentication: { scheme: 'Bearer', credentials: 'c' } });
    expect(await store.add(first, 5)).toBe(true);
    expect(await store.add(entry('a'), 5)).toBe(true);
    await store.add(entry('a', { taskId: 'task-2' }), 5);
    expect(await peer.get(first)).toEqual(first);
    expect(await peer.list('task-1')).toEqual([entry('a'), first]);
    await peer.delete(first);
    await peer.delete(first);
    expect(await store.get(first)).toBeUndefined();
    expect(await store.list('task-1')).toEqual([entry('a')]);
    expect(await store.list('task-9')).toEqual([]);
  });

  it('adds no more than a task may have, but replaces', async () => {
    const { store, peer } = stores();
    await store.add(entry('a'), 2);
    await store.add(entry('b'), 2);
    expect(await peer.add(entry('c'), 2)).toBe(false);
    expect(await peer.add(entry('b', { url: 'https://example.com/other' }), 2)).toBe(true);
    expect((await store.list('task-1')).map(({ url }) => url)).toEqual([
      'https://example.com/hook',
      'https://example.com/other',
    ]);
  });

  it('gives a registration to one owner at a time', async () => {
    const { store, peer } = stores();
    await store.add(entry('a'), 5);
    const both = await Promise.all([store.claim(claim), peer.claim({ ...claim, owner: 'two' })]);
    expect(both.flat()).toHaveLength(1);
    expect(await peer.claim({ ...claim, owner: 'three', taskId: 'task-1' })).toEqual([]);
  });

  it('lets another owner go on behind the cursor, and tells the first', async () => {
    const { store, peer, pass } = stores();
    await store.add(entry('a'), 5);
    await store.claim(short);
    expect(await store.update(entry('a'), 'one', { type: 'held', leaseMs: 30, cursor: '3-1.1' })).toBe(true);
    await pass(31);
    expect(await peer.claim({ ...claim, owner: 'two' })).toEqual([entry('a', { cursor: '3-1.1' })]);
    expect(await store.update(entry('a'), 'one', { type: 'held', leaseMs: 30, cursor: '4-1.1' })).toBe(false);
    expect(await store.get(entry('a'))).toEqual(entry('a', { cursor: '3-1.1' }));
  });

  it('leaves what is parked until its time, or its task', async () => {
    const { store, peer } = stores();
    await store.add(entry('a'), 5);
    await store.claim(claim);
    await store.update(entry('a'), 'one', { type: 'parked', afterMs: 60_000, cursor: '1-0.1' });
    expect(await peer.claim({ ...claim, owner: 'two' })).toEqual([]);
    expect(await peer.claim({ ...claim, owner: 'two', taskId: 'task-2' })).toEqual([]);
    expect(await peer.claim({ ...claim, owner: 'two', taskId: 'task-1' })).toEqual([entry('a', { cursor: '1-0.1' })]);
    await peer.update(entry('a'), 'two', { type: 'parked', afterMs: 0 });
    expect(await store.claim(claim)).toEqual([entry('a', { cursor: '1-0.1' })]);
  });

  it('delivers nothing that is over, or deleted, and shows what is over', async () => {
    const { store, peer, pass } = stores();
    await store.add(entry('a'), 5);
    await store.add(entry('b'), 5);
    await store.claim(short);
    expect(await store.update(entry('a'), 'one', { type: 'over', cursor: '9-1.1' })).toBe(true);
    await peer.delete(entry('b'));
    expect(await store.update(entry('b'), 'one', { type: 'held', leaseMs: 30 })).toBe(false);
    await pass(31);
    expect(await peer.claim({ ...claim, owner: 'two' })).toEqual([]);
    expect(await peer.claim({ ...claim, owner: 'two', taskId: 'task-1' })).toEqual([]);
    expect(await peer.list('task-1')).toEqual([entry('a', { cursor: '9-1.1' })]);
  });

  it('gives as many as are asked for', async () => {
    const { store } = stores();
    for (const taskId of ['t1', 't2', 't3']) await store.add(entry('a', { taskId }), 5);
    expect(await store.claim({ ...claim, limit: 2 })).toHaveLength(2);
    expect(await store.claim({ ...claim, limit: 0 })).toHaveLength(0);
    expect(await store.claim({ ...claim, limit: 2 })).toHaveLength(1);
  });
}

const passOf = (clock: FakeClock) => async (ms: number) => clock.advance(ms);

describe('InMemoryPushStore', () => {
  contract(() => {
    const clock = fakeClock();
    const store = new InMemoryPushStore({ clock });
    return { store, peer: store, pass: passOf(clock), close: async () => {} };
  });

  it('forgets of those that are over all but the last 1,000', () => {
    const store = new InMemoryPushStore();
    for (let index = 0; index <= 1_000; index++) {
      const each = entry('a', { taskId: `t${index}` });
      store.add(each, 1);
      store.claim({ ...claim, taskId: each.taskId });
      store.update(each, 'one', { type: 'over' });
    }
    expect([store.list('t0'), store.list('t1'), store.list('t1000')].map(({ length }) => length)).toEqual([0, 1, 1]);
  });

  it('forgets what was over first beyond 1,000, but nothing that is registered anew', () => {
    const store = new InMemoryPushStore();
    const keys = Array.from({ length: 1_002 }, (_, index) => entry('a', { taskId: `task-${index}` }));
    for (const key of keys) store.add(key, 1);
    store.claim({ ...claim, limit: 2_000 });
    const [first, second, third] = keys;
    for (const key of keys.slice(0, 1_000)) store.update(key, 'one', { type: 'over' });
    expect(first && store.get(first)).toBeDefined();
    if (first) store.add(first, 1);
    for (const key of keys.slice(1_000)) store.update(key, 'one', { type: 'over' });
    expect([first, second, third].map((key) => key && store.list(key.taskId).length)).toEqual([1, 0, 1]);
  });
});

describe('LmdbPushStore', () => {
  const openAt = (path: string, clock: FakeClock) => {
    const [store, peer] = [new LmdbPushStore({ path, clock }), new LmdbPushStore({ path, clock })];
    return { store, peer, pass: passOf(clock), close: () => Promise.all([store.close(), peer.close()]) };
  };
  contract(() => openAt(join(folder, String(made++)), fakeClock()));

  it('forgets what has been over for a week, and nothing else', async () => {
    const { store, pass, close } = openAt(join(folder, String(made++)), fakeClock());
    const end = async (each: PushEntry) => {
      await store.claim({ ...claim, taskId: each.taskId });
      await store.update(each, 'one', { type: 'over' });
    };
    const [old, again, waits, last] = ['t1', 't2', 't3', 't4'].map((taskId) => entry('a', { taskId })) as [
      PushEntry,
      PushEntry,
      PushEntry,
      PushEntry,
    ];
    for (const each of [old, again, waits]) await store.add(each, 5);
    await end(old);
    await end(again);
    await store.add(again, 5);
    await pass(604_800_001);
    expect(store.get(old)).toEqual(old);
    await store.add(last, 5);
    await end(last);
    expect([old, again, waits, last].map((each) => store.get(each)?.taskId)).toEqual([undefined, 't2', 't3', 't4']);
    expect((await store.claim(claim)).map(({ taskId }) => taskId).sort()).toEqual(['t2', 't3']);
    await close();
  });

  it.each([0, 1.5, -1])('refuses a ttl of %p', (ttl) => {
    expect(() => new LmdbPushStore({ path: join(folder, 'none'), ttl })).toThrow(/LmdbPushStore: ttl must .*, or null/);
  });
});

describeRedis('RedisPushStore', () => {
  let redis: RedisProcess | undefined;
  beforeAll(async () => {
    redis = await startRedis();
  });
  afterAll(async () => redis?.remove());
  contract(() => {
    const options = { redis: redis?.url ?? '', prefix: `push-${made++}` };
    const [store, peer] = [new RedisPushStore(options), new RedisPushStore(options)];
    // Its clock is that of Redis: what passes is the lease of a witness.
    const witness = new RedisPushStore({ ...options, prefix: `witness-${made++}` });
    const pass = async (ms: number) => {
      await witness.add(entry('a'), 1);
      await witness.claim({ ...claim, leaseMs: ms });
      while ((await witness.claim(claim)).length === 0);
    };
    return { store, peer, pass, close: () => Promise.all([store.close(), peer.close(), witness.close()]) };
  });

  it('keeps registrations for their time to live from each sign of life on, or for good', async () => {
    const store = new RedisPushStore({ redis: redis?.url ?? '', prefix: 'alive', ttl: 100 });
    const ttl = () => Number(redis?.cli('TTL', 'alive:{push}:task:task-1'));
    const signs = [
      () => store.add(entry('a'), 5),
      () => store.claim(claim),
      () => store.update(entry('a'), 'one', { type: 'held', leaseMs: 60_000 }),
    ];
    for (const sign of signs) {
      redis?.cli('EXPIRE', 'alive:{push}:task:task-1', '10');
      await sign();
      expect(ttl()).toBeGreaterThan(10);
      expect(ttl()).toBeLessThanOrEqual(100);
    }
    const forGood = new RedisPushStore({ redis: redis?.url ?? '', prefix: 'alive', ttl: null });
    await forGood.update(entry('a'), 'one', { type: 'over' });
    expect(ttl()).toBe(-1);
    await Promise.all([store.close(), forGood.close()]);
  });

  it('leaves nothing of a registration that is deleted', async () => {
    const store = new RedisPushStore({ redis: redis?.url ?? '', prefix: 'bare' });
    await store.add(entry('a'), 5);
    await store.claim(claim);
    await store.update(entry('a'), 'one', { type: 'held', leaseMs: 60_000, cursor: '1-0.1' });
    await store.delete(entry('a'));
    expect(redis?.cli('KEYS', 'bare:*')).toBe('');
    await store.close();
  });
});

describePostgres('PostgresPushStore', () => {
  let postgres: PostgresProcess | undefined;
  beforeAll(async () => {
    postgres = await startPostgres();
  });
  afterAll(async () => postgres?.remove());
  contract(() => {
    const clock = fakeClock();
    const options = { postgres: postgres?.url ?? '', schema: `push_${made++}`, migrate: true, clock };
    const [store, peer] = [new PostgresPushStore(options), new PostgresPushStore(options)];
    const pass = async (ms: number) => void clock.advance(ms);
    return { store, peer, pass, close: () => Promise.all([store.close(), peer.close()]) };
  });
});
