import { afterEach, describe, expect, it } from '@jest/globals';
import { backoff, done, LmdbDatabase, Owner, startRecord, TaskTable } from 'millrace/internals';
import type { TaskQuery, TurnRecord } from 'millrace/types';
import { TemporaryStores } from './temporary-stores.ts';

class CountingDatabase extends LmdbDatabase {
  heads = 0;
  entries = 0;

  override get(...args: Parameters<LmdbDatabase['get']>) {
    this.heads++;
    return super.get(...args);
  }

  override range(...args: Parameters<LmdbDatabase['range']>) {
    const found = super.range(...args);
    this.entries += found.length;
    return found;
  }
}

describe('the runnable tasks of LmdbStateStore', () => {
  const stores = new TemporaryStores();
  afterEach(() => stores.clear());

  it('F-14 that are due, and those of one state, are found without a look at the others', async () => {
    const path = stores.path();
    const store = stores.open({ path });
    const now = 1_700_000_000_000;
    let count = 0;
    const begin = async (record: TurnRecord) => {
      const taskId = `t${++count}`;
      await store.create(taskId, startRecord(taskId));
      const owner = new Owner(store, await store.acquire(taskId, 'owner-a', 30_000));
      await owner.append(record);
      await store.release(owner.lease);
      return taskId;
    };
    const many = (each: (index: number) => Promise<string>) =>
      Promise.all(Array.from({ length: 150 }, (_, i) => each(i)));
    await many(() => begin(done));
    const due = [await begin(backoff(now - 2)), await begin(backoff(now))];
    await many((index) => begin(backoff(now + 1 + index)));
    const failed = await begin({ type: 'turn.failed', code: 'INTERNAL', message: 'lost', reason: 'internal' });
    const submitted = 'submitted';
    await store.create(submitted, startRecord(submitted));

    const database = new CountingDatabase(path);
    const tasks = new TaskTable(database);
    const read = (query: TaskQuery) => {
      [database.heads, database.entries] = [0, 0];
      const found = database.read(() => tasks.list(query, now)).map(({ taskId }) => taskId);
      return { found: found.sort(), heads: database.heads, entries: database.entries };
    };
    try {
      expect(read({ runnable: true, dueBy: now })).toEqual({ found: [submitted, ...due].sort(), heads: 3, entries: 3 });
      expect(read({ state: 'failed' })).toEqual({ found: [failed], heads: 1, entries: 1 });
      expect(read({ state: 'completed', limit: 10 })).toMatchObject({ heads: 10, entries: 11 });
      expect(read({ state: 'working', limit: 10 })).toMatchObject({ found: { length: 10 }, heads: 10, entries: 11 });
    } finally {
      await database.close();
    }
  });

  it('of a state in a group are found by the index that has fewer, in the order of the group', async () => {
    const path = stores.path();
    const store = stores.open({ path });
    const begin = async (taskId: string, group: string, at: number) => {
      await store.create(taskId, startRecord(taskId, { contextId: `${group}:c`, at }));
      return taskId;
    };
    const end = async (taskId: string) => {
      const owner = new Owner(store, await store.acquire(taskId, 'owner-a', 30_000));
      await owner.append(done);
      await store.release(owner.lease);
    };
    for (let index = 0; index < 120; index++) await end(await begin(`done-${index}`, 'g', 1_000 + index));
    for (const [taskId, at] of [
      ['b', 2_000],
      ['c', 3_000],
      ['a', 2_000],
    ] as const)
      await begin(taskId, 'g', at);
    await begin('of-another', 'other', 2_500);

    const database = new CountingDatabase(path);
    const tasks = new TaskTable(database);
    const read = (query: TaskQuery) => {
      database.heads = 0;
      return database.read(() => tasks.list(query, 0)).map(({ taskId }) => taskId);
    };
    const byStatus = { group: 'g' };
    const after = { statusAt: new Date(2_000).toISOString(), taskId: 'b' };
    const since = new Date(2_500).toISOString();
    try {
      expect(read({ byStatus, state: 'submitted' })).toEqual(['c', 'b', 'a']);
      expect(database.heads).toBeLessThan(12);
      expect(read({ byStatus, state: 'submitted', limit: 2 })).toEqual(['c', 'b']);
      expect(read({ byStatus: { ...byStatus, after }, state: 'submitted' })).toEqual(['a']);
      expect(read({ byStatus: { ...byStatus, since }, state: 'submitted' })).toEqual(['c']);
      expect(read({ byStatus, state: 'failed' })).toEqual([]);
      expect(database.heads).toBeLessThan(3);
      expect(read({ byStatus, state: 'completed', limit: 10 })).toHaveLength(10);
      expect(database.heads).toBeLessThan(30);
    } finally {
      await database.close();
    }
  });
});
