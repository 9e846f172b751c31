import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from '@jest/globals';
import type { AgentLoopError, TaskStateStore } from 'millrace';
import {
  callsOfChildren,
  done,
  LmdbDatabase,
  llmStart,
  noteRecord as note,
  startRecord,
  textDelta,
  upTo,
  watch,
} from 'millrace/internals';
import { LmdbStateStore } from 'millrace/lmdb';
import { journalSchema } from 'millrace/stores';
import { openResources } from 'millrace/testing';
import type { Lease } from 'millrace/types';
import { held, stamp } from '../held-task.ts';
import { ChildPrograms, nextMessage } from './child-programs.ts';
import { TemporaryStores } from './temporary-stores.ts';

const stores = new TemporaryStores();
const children = new ChildPrograms();

afterEach(() => stores.clear());
afterAll(() => children.clear());

const options = { status: 'working', barrier: true } as const;

async function errorOf(action: () => unknown): Promise<AgentLoopError> {
  return Promise.resolve()
    .then(action)
    .then(
      () => Promise.reject(new Error('Nothing was thrown.')),
      (error: AgentLoopError) => error,
    );
}

/** The root page of the tree that holds everything, as the newer of the first two pages names it. */
function rootOf(file: Buffer, pageBytes: number): number {
  const headers = [file.subarray(0, pageBytes), file.subarray(pageBytes, 2 * pageBytes)];
  const [newest] = headers.toSorted((a, b) => Number(b.readBigUInt64LE(152) - a.readBigUInt64LE(152)));
  return Number(newest?.readBigUInt64LE(136));
}

/** Changes the file behind the store's back. */
async function tamper(path: string, change: (database: LmdbDatabase) => void): Promise<void> {
  const database = new LmdbDatabase(path);
  await database.write(() => change(database));
  await database.close();
}

/** The keys of the file, as lists of their parts. */
async function keysIn(path: string): Promise<readonly (readonly unknown[])[]> {
  const database = new LmdbDatabase(path);
  const entries = database.read(() => database.range({ start: ['\0'], end: ['~~'] }));
  await database.close();
  return entries.map(({ key }) => (Array.isArray(key) ? key : [key]));
}

describe('LmdbStateStore', () => {
  it('S1-71 finds everything again when the file is opened anew', async () => {
    const path = stores.path();
    const first = stores.open({ path });
    const lease = await held(first);
    await first.append(lease, stamp(lease, 2, note('ä😀'), note('x'.repeat(1_000_000))), options);
    await first.post('t', { id: 'c', type: 'pause' });
    const [records, tasks] = [first.read('t'), first.list()];
    await first.close();
    const second = stores.open({ path });
    expect(second.read('t')).toEqual(records);
    expect(second.list()).toEqual(tasks);
    expect((await errorOf(() => second.acquire('t', 'other', 1_000))).code).toBe('BUSY');
    await second.append(lease, stamp(lease, 4, note('goes on')), options);
    const commands = watch(second.commands('t'));
    expect(commands.values).toEqual([{ id: 'c', type: 'pause' }]);
    commands.stop();
  });

  it('raises the epoch where a task is deleted and created again, also by another process', async () => {
    const path = stores.path();
    const store = stores.open({ path });
    const lease = await held(store);
    await store.append(lease, stamp(lease, 2, note('old')), options);
    await store.delete('t');
    await store.close();
    const again = await held(stores.open({ path }));
    expect(again.epoch).toBeGreaterThan(lease.epoch);
    expect(again.seq).toBe(1);
  });

  it('leaves nothing of a deleted task in the file, and uses its space again', async () => {
    const path = stores.path();
    const store = stores.open({ path });
    const size = () => readFileSync(join(path, 'data.mdb')).length;
    const sizes: number[] = [];
    for (const _ of upTo(5)) {
      const lease = await held(store);
      for (const seq of upTo(10)) await store.append(lease, stamp(lease, seq + 1, note('x'.repeat(100_000))), options);
      await store.post('t', { id: 'c', type: 'pause' });
      await store.delete('t');
      sizes.push(size());
    }
    expect(sizes.at(-1)).toBeLessThan(2 * (sizes[0] ?? 0));
    await store.close();
    const database = new LmdbDatabase(path);
    const keys = database.read(() => database.range({ start: ['a'], end: ['zzz'] }).map(({ key }) => key));
    await database.close();
    expect(keys).toEqual(['meta', 'write']);
  });

  it('takes an append without records as a sign of life, and what cannot be JSON not at all', async () => {
    const store = stores.open();
    const lease = await held(store);
    await store.append(lease, [], options);
    const circular: Record<string, unknown> = {};
    circular['self'] = circular;
    const error = await errorOf(() => store.append(lease, stamp(lease, 2, note(circular)), options));
    expect(error).toMatchObject({ code: 'INVALID_INPUT', taskId: 't' });
    expect(error.message).toMatch(/^Record 2 \(x\.note\) of task "t" cannot be written as JSON: /);
    expect(store.read('t')).toHaveLength(1);
  });

  it('checks that it can write and how much room there is', async () => {
    expect(await stores.open().check()).toEqual({ ok: true, warnings: [] });
  });

  it('says FULL where the disk takes no more, keeps all it had, and writes again once there is room', async () => {
    const path = stores.path();
    const child = children.start('full-disk', path);
    const [answer] = await nextMessage(child);
    await once(child, 'exit');
    expect(answer).toMatchObject({ code: 'FULL', retryable: true, other: 'FULL', small: 'written' });
    const store = stores.open({ path });
    expect(store.read('t')).toHaveLength(Number(answer.kept) + 1);
    expect(store.read('other')).toHaveLength(Number(answer.kept));
  });

  describe('in damaged files', () => {
    it('says POISON where a record is missing, moved, another task’s or no JSON, and keeps the journal', async () => {
      const record = (seq: number) => ['record', 't', seq];
      const damages: readonly ((database: LmdbDatabase) => void)[] = [
        (database) => database.remove(record(3)),
        (database) => database.put(record(3), database.get(record(2)) ?? ''),
        (database) => database.put(record(1), JSON.stringify(startRecord('other'))),
        (database) => database.put(record(2), '{"type":"x.note"'),
        (database) => database.put(['head', 't'], '{'),
      ];
      for (const damage of damages) {
        const path = stores.path();
        const store = stores.open({ path });
        const lease = await held(store);
        await store.append(lease, stamp(lease, 2, note('two'), note('three')), options);
        await tamper(path, damage);
        const error = await errorOf(() => store.read('t'));
        expect(error).toMatchObject({ code: 'POISON', taskId: 't' });
        const follower = watch(store.follow('t'));
        expect(follower.error).toMatchObject({ code: 'POISON' });
      }
    });

    it('deletes a task and its child turns whose heads or records are damaged, and lists none of them', async () => {
      const path = stores.path();
      const store = stores.open({ path });
      const lease = await held(store);
      const linked = callsOfChildren(['damaged-head', 'damaged-records', 'foreign']);
      await store.append(lease, stamp(lease, 2, ...linked), options);
      for (const child of ['damaged-head', 'damaged-records']) {
        await store.create(child, startRecord(child, { parent: 't', contextId: 'group:c' }));
      }
      for (const other of ['foreign', 'other']) await store.create(other, startRecord(other));
      await tamper(path, (database) => {
        database.put(['head', 't'], '{');
        database.put(['record', 't', 2], '{"child":');
        database.put(['head', 'damaged-head'], '{');
        database.put(['record', 'damaged-records', 1], '{"parent":');
      });
      await store.delete('t');
      expect(store.list().map(({ taskId }) => taskId)).toEqual(['other', 'foreign']);
      expect(store.list({ limit: 2 })).toHaveLength(2);
      expect(store.list({ byStatus: { group: 'group' } })).toEqual([]);
      await store.delete('other');
      await store.delete('foreign');
      expect(await keysIn(path)).toEqual([['meta'], ['write']]);
    });

    it('says SCHEMA for a file of a newer layout, and for a journal of a newer schema', async () => {
      const path = stores.path();
      const store = stores.open({ path });
      await store.create('t', startRecord('t', { schema: journalSchema + 1 }));
      expect((await errorOf(() => store.read('t'))).code).toBe('SCHEMA');
      await tamper(path, (database) => database.put(['meta'], '{"layout":2,"epoch":0,"born":0}'));
      const error = await errorOf(() => new LmdbStateStore({ path }));
      expect(error).toMatchObject({ code: 'SCHEMA', message: expect.stringContaining('layout 2') });
    });

    it.each([
      ['text', Buffer.from('not a database '.repeat(1_000))],
      ['a few bytes', Buffer.from('short')],
      ['zeros', Buffer.alloc(20_000)],
    ])('says POISON for a file of %s', async (_, content) => {
      const path = stores.path();
      writeFileSync(join(path, 'data.mdb'), content);
      const error = await errorOf(() => new LmdbStateStore({ path }));
      expect(error).toMatchObject({ code: 'POISON', message: expect.stringContaining(path) });
    });

    it('says POISON for a file that was cut short by the page at which reading begins', async () => {
      const path = stores.path();
      const store = stores.open({ path });
      const lease = await held(store);
      for (let seq = 2; seq <= 40; seq++)
        await store.append(lease, stamp(lease, seq, note('x'.repeat(1_000))), options);
      await store.close();
      const whole = readFileSync(join(path, 'data.mdb'));
      const pageBytes = whole.readUInt32LE(48);
      for (const pages of [2, rootOf(whole, pageBytes)]) {
        writeFileSync(join(path, 'data.mdb'), whole.subarray(0, pages * pageBytes));
        const error = await errorOf(() => new LmdbStateStore({ path }));
        expect(error).toMatchObject({ code: 'POISON', message: expect.stringContaining(path) });
      }
      writeFileSync(join(path, 'data.mdb'), whole);
      expect(stores.open({ path }).read('t')).toHaveLength(40);
    });

    it('says UNAVAILABLE for a path that cannot be a store', async () => {
      const folder = stores.path();
      writeFileSync(join(folder, 'file'), '');
      mkdirSync(join(folder, 'store', 'lock.mdb'), { recursive: true });
      for (const path of [join(folder, 'file'), join(folder, 'file', 'below'), join(folder, 'store')]) {
        const error = await errorOf(() => new LmdbStateStore({ path }));
        expect(error).toMatchObject({ code: 'UNAVAILABLE', message: expect.stringContaining(path) });
      }
    });

    it('says SCHEMA for a file of another version of LMDB', async () => {
      const path = stores.path();
      await stores.open({ path }).close();
      const file = join(path, 'data.mdb');
      const bytes = readFileSync(file);
      bytes.writeUInt32LE(3, 28);
      writeFileSync(file, bytes);
      expect((await errorOf(() => new LmdbStateStore({ path }))).code).toBe('SCHEMA');
    });

    it('refuses a path and a poll that cannot be', async () => {
      expect((await errorOf(() => new LmdbStateStore({ path: '' }))).code).toBe('INVALID_CONFIG');
      const error = await errorOf(() => new LmdbStateStore({ path: stores.path(), pollMs: 0 }));
      expect(error).toMatchObject({
        code: 'INVALID_CONFIG',
        message: expect.stringMatching(/pollMs must be .*, not 0/),
      });
    });
  });

  describe('close', () => {
    it('waits for what was sent, ends readers with UNAVAILABLE, and refuses everything after', async () => {
      const path = stores.path();
      const store = stores.open({ path });
      const lease = await held(store);
      const follower = watch(store.follow('t'));
      const listener = watch(store.commands('t'));
      const appends = upTo(20).map((index) => store.append(lease, stamp(lease, index + 1, note(index)), options));
      const closing = [store.close(), store.close()];
      await Promise.all([...appends, ...closing]);
      await store.close();
      expect(follower.error).toMatchObject({ code: 'UNAVAILABLE', message: expect.stringContaining('was closed') });
      expect(listener.error).toMatchObject({ code: 'UNAVAILABLE' });
      for (const action of refusedAfterClose(store, lease)) expect((await errorOf(action)).code).toBe('UNAVAILABLE');
      store.publish('t', textDelta(lease.epoch, 'dropped'));
      expect(stores.open({ path }).read('t')).toHaveLength(21);
    });

    it('leaves no timer behind', async () => {
      const ledger = openResources();
      const path = stores.path();
      const [store, other] = [stores.open({ path }), stores.open({ path })];
      const lease = await held(store);
      await store.append(lease, stamp(lease, 2, llmStart(1)), options);
      watch(store.follow('t'));
      watch(other.follow('t'));
      watch(store.commands('t'));
      store.publish('t', textDelta(lease.epoch, 'text'));
      await Promise.all([store.close(), other.close()]);
      await ledger.assertNone();
    });
  });

  it('may be opened and closed by many processes at the same time', async () => {
    const path = stores.path();
    const names = ['a', 'b', 'c'];
    const ends = names.map((name) => once(children.start('open-and-close', path, name, '80'), 'exit'));
    expect(await Promise.all(ends)).toEqual(names.map(() => [0, null]));
    expect(stores.open({ path }).list({ limit: 100 })).toHaveLength(24);
  });

  it('is not loaded by importing the library', async () => {
    const child = children.start('import');
    const [loaded] = await nextMessage(child);
    expect(loaded).toEqual({ atImport: false, atConstruction: true });
    await once(child, 'exit');
  });

  it('keeps its files in the folder of its path and nowhere else', async () => {
    const path = join(stores.path(), 'deep', 'below');
    const store = stores.open({ path });
    await held(store);
    expect(readdirSync(path).toSorted()).toEqual(['data.mdb', 'lock.mdb', 'openings']);
  });
});

function refusedAfterClose(store: TaskStateStore, lease: Lease): readonly (() => unknown)[] {
  return [
    () => store.create('u', startRecord('u')),
    () => store.acquire('t', 'a', 1_000),
    () => store.append(lease, stamp(lease, 22, done), options),
    () => store.renew(lease),
    () => store.release(lease),
    () => store.post('t', { id: 'd', type: 'pause' }),
    () => store.read('t'),
    () => store.load('t'),
    () => store.list(),
    () => store.delete('t'),
  ];
}
