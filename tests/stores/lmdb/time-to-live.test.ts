import { afterEach, describe, expect, it } from '@jest/globals';
import { erase, type TaskStateStore } from 'millrace';
import { startRecord } from 'millrace/internals';
import { LmdbMessageStore } from 'millrace/lmdb';
import { fakeClock } from 'millrace/testing';
import type { TurnRecord } from 'millrace/types';
import { stamp } from '../held-task.ts';
import { TemporaryStores } from './temporary-stores.ts';

const stores = new TemporaryStores();
const open: LmdbMessageStore[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((store) => store.close()));
  await stores.clear();
});

const start = 1_000_000;
const canceled: TurnRecord = { type: 'turn.canceled', reason: 'enough' };
const said = [{ role: 'user', content: 'Hello.' }] as const;

async function begin(store: TaskStateStore, taskId: string, parent?: string) {
  const link = { taskId: parent ?? '', callId: '1:0', agentId: 'a', rootTaskId: parent ?? '' };
  const first = { ...startRecord(taskId), ...(parent !== undefined && { parent: link }) };
  await store.create(taskId, first);
  return store.acquire(taskId, 'owner', 30_000);
}

/** Ends a turn at a time of the clock. */
async function end(store: TaskStateStore, taskId: string, at: number, parent?: string): Promise<void> {
  const lease = await begin(store, taskId, parent);
  const records = stamp(lease, 2, canceled).map((record) => ({ ...record, at }));
  await store.append(lease, records, { status: 'canceled', barrier: true });
}

function messagesAt(path: string, clock: ReturnType<typeof fakeClock>, ttl?: number | null): LmdbMessageStore {
  const store = new LmdbMessageStore({ path, clock, ...(ttl !== undefined && { ttl }) });
  open.push(store);
  return store;
}

describe('the time that LmdbStateStore keeps a task', () => {
  it('R-25 is `ttl` after the end of its turn, and open turns stay', async () => {
    const clock = fakeClock({ startAt: start });
    const store = stores.open({ clock, ttl: 60 });
    await end(store, 'ended', start);
    await begin(store, 'running');
    await store.create('submitted', startRecord('submitted'));
    clock.advance(60_000);
    await store.create('in-time', startRecord('in-time'));
    expect(store.describe('ended')).not.toBeNull();
    clock.advance(1);
    await store.create('late', startRecord('late'));
    expect(store.list().map(({ taskId }) => taskId)).toEqual(['late', 'in-time', 'submitted', 'running']);
    expect(store.load('ended')).toBeNull();
  });

  it('R-25 of a child turn is that of its parent turn', async () => {
    const clock = fakeClock({ startAt: start });
    const store = stores.open({ clock, ttl: 60 });
    const lease = await begin(store, 'parent');
    await end(store, 'child', start, 'parent');
    clock.advance(1_000_000);
    await store.create('later', startRecord('later'));
    expect(store.describe('child')).not.toBeNull();
    const records = stamp(lease, 2, canceled).map((record) => ({ ...record, at: clock.now() }));
    await store.append(lease, records, { status: 'canceled', barrier: true });
    clock.advance(60_001);
    await store.create('last', startRecord('last'));
    expect(store.list().map(({ taskId }) => taskId)).toEqual(['last', 'later']);
  });

  it('R-25 begins anew while a child turn of an ended turn is open', async () => {
    const clock = fakeClock({ startAt: start });
    const store = stores.open({ clock, ttl: 60 });
    await end(store, 'parent', start);
    await begin(store, 'child', 'parent');
    const late = Array.from({ length: 3 }, (_, index) => `later-${index}`);
    for (const taskId of late) {
      clock.advance(60_001);
      await store.create(taskId, startRecord(taskId));
      expect(store.describe('child')).not.toBeNull();
    }
  });

  it('R-25 each create deletes at most four tasks, so that a large file shrinks bit by bit', async () => {
    const clock = fakeClock({ startAt: start });
    const store = stores.open({ clock, ttl: 60 });
    for (let index = 0; index < 10; index++) await end(store, `t${index}`, start);
    clock.advance(60_001);
    const left: number[] = [];
    for (let index = 0; index < 3; index++) {
      await store.create(`new-${index}`, startRecord(`new-${index}`));
      left.push(store.list().filter(({ taskId }) => taskId.startsWith('t')).length);
    }
    expect(left).toEqual([6, 2, 0]);
  });

  it('R-25 is without end by default, and a store with a `ttl` deletes what ended before it', async () => {
    const clock = fakeClock({ startAt: start });
    const path = stores.path();
    const keeping = stores.open({ path, clock });
    await end(keeping, 'ended', start);
    clock.advance(1_000_000_000);
    await keeping.create('second', startRecord('second'));
    expect(keeping.describe('ended')).not.toBeNull();
    const store = stores.open({ path, clock, ttl: 60 });
    await store.create('third', startRecord('third'));
    expect(store.describe('ended')).toBeNull();
  });

  it('R-25 an erased task leaves no entry in the index of ended tasks', async () => {
    const clock = fakeClock({ startAt: start });
    const store = stores.open({ clock, ttl: 60 });
    await end(store, 't', start);
    const contextId = store.describe('t')?.contextId ?? '';
    await erase({ taskStateStore: store, contextId });
    clock.advance(60_001);
    await end(store, 't', clock.now());
    await store.create('later', startRecord('later'));
    expect(store.describe('t')).not.toBeNull();
  });

  it.each([0, 1.5, -1, '60'])('R-25 refuses a ttl of %p', (ttl) => {
    expect(() => stores.open({ ttl: ttl as never })).toThrow(/LmdbStateStore: ttl must .*, or null/);
    expect(() => messagesAt(stores.path(), fakeClock(), ttl as never)).toThrow(
      /LmdbMessageStore: ttl must .*, or null/,
    );
  });
});

describe('the time that LmdbMessageStore keeps a context', () => {
  it('R-25 is `ttl` after its last write, and a context with an open turn stays', async () => {
    const clock = fakeClock({ startAt: start });
    const store = messagesAt(stores.path(), clock, 60);
    await store.append('old', 't', said);
    await store.append('written', 't', said);
    await store.begin('open', 't');
    clock.advance(60_000);
    await store.setAgent('written', 'ada');
    clock.advance(1);
    await store.setAgent('another', 'ada');
    const ids = () => store.contexts().contexts.map(({ contextId }) => contextId);
    expect(ids()).toEqual(['another', 'open', 'written']);
    expect(store.load('old')).toMatchObject({ total: 0, version: 0 });
    await store.append('open', 't', said);
    clock.advance(60_001);
    await store.setAgent('another', 'ada');
    expect(ids()).toEqual(['another']);
  });

  it('R-25 each write deletes at most four contexts', async () => {
    const clock = fakeClock({ startAt: start });
    const store = messagesAt(stores.path(), clock, 60);
    for (let index = 0; index < 10; index++) await store.append(`c${index}`, 't', said);
    clock.advance(60_001);
    const left: number[] = [];
    for (let index = 0; index < 3; index++) {
      await store.setAgent('d', 'ada');
      left.push(store.contexts().contexts.length - 1);
    }
    expect(left).toEqual([6, 2, 0]);
  });

  it('R-25 is without end by default, and a store with a `ttl` deletes what was written before it', async () => {
    const clock = fakeClock({ startAt: start });
    const path = stores.path();
    const keeping = messagesAt(path, clock);
    await keeping.append('old', 't', said);
    clock.advance(1_000_000_000);
    await keeping.append('new', 't', said);
    expect(keeping.load('old').total).toBe(1);
    const store = messagesAt(path, clock, 60);
    await store.setAgent('new', 'ada');
    expect(store.contexts().contexts.map(({ contextId }) => contextId)).toEqual(['new']);
  });
});
