import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { cacheKeyHash, LmdbDatabase } from 'millrace/internals';
import { LmdbCacheStore, LmdbMessageStore, LmdbPushStore } from 'millrace/lmdb';

const path = mkdtempSync(join(tmpdir(), 'millrace-earlier-'));
afterAll(() => rmSync(path, { recursive: true }));
const json = JSON.stringify;

/** Rows of a file as the stores of 0.1 and those after it wrote them. */
async function plant(rows: readonly (readonly [key: (string | number)[], value: string])[]): Promise<void> {
  const file = new LmdbDatabase(path);
  await file.write(() => {
    for (const [key, value] of rows) file.put(key, value);
  });
  await file.close();
}

describe('rows of LMDB that were written before there were tables', () => {
  it('are read and continued by a message store', async () => {
    const head = { layout: 1, contextId: 'c', createdAt: 1, updatedAt: 2, total: 1, begun: 2, open: 1, version: 3 };
    const said = { role: 'user', content: 'Hello' } as const;
    await plant([
      [['conversation', 'c'], json({ ...head, agentId: 'ada' })],
      [['message', 'c', 0], json(said)],
      [['metadata', 'c'], json({ title: 'Ours' })],
      [['turn', 'c', 'saved'], '"saved"'],
      [['turn', 'c', 'open'], json({ begun: 1 })],
      [['open-turn', 'c', 1], 'open'],
    ]);
    const store = new LmdbMessageStore({ path });
    const before = { messages: [said], total: 1, metadata: { title: 'Ours' }, version: 3, agentId: 'ada' };
    expect(store.load('c')).toMatchObject({ ...before, openTurns: ['open'] });
    expect(await store.append('c', 'saved', [said])).toEqual({ appended: false });
    expect(await store.append('c', 'open', [said])).toEqual({ appended: true });
    expect(store.load('c')).toMatchObject({ messages: [said, said], total: 2, openTurns: [] });
    expect(store.contexts().contexts).toMatchObject([{ contextId: 'c', total: 2, openTurns: 0 }]);
    await store.delete('c');
    expect(store.load('c')).toMatchObject({ messages: [], metadata: {}, version: 0 });
    await store.close();
  });

  it('are claimed, ended and forgotten by a push store', async () => {
    const entry = (configId: string) => ({ taskId: 't', configId, url: 'https://example.com', version: '1.0' });
    await plant([
      [['push', 't', 'due'], json({ entry: entry('due'), dueAt: 5 })],
      [['push-due', 5, 't', 'due'], ''],
      [['push', 't', 'held'], json({ entry: entry('held'), owner: 'another', dueAt: 9e15 })],
      [['push-due', 9e15, 't', 'held'], ''],
      [['push', 't', 'over'], json({ entry: entry('over'), overAt: 5 })],
      [['push-over', 5, 't', 'over'], ''],
    ]);
    const store = new LmdbPushStore({ path });
    expect(store.list('t')).toEqual([entry('due'), entry('held'), entry('over')]);
    expect(await store.claim({ owner: 'one', leaseMs: 1_000, limit: 10 })).toEqual([entry('due')]);
    expect(await store.update(entry('due'), 'one', { type: 'over' })).toBe(true);
    expect(store.list('t')).toEqual([entry('due'), entry('held')]);
    await store.close();
  });

  it('are values and victims of a cache', async () => {
    const [first, second] = [cacheKeyHash('first'), cacheKeyHash('second')];
    await plant([
      [['cache', first], json({ written: 1, bytes: 1, text: '1' })],
      [['cache-age', 1], `1 ${first}`],
      [['cache', second], json({ written: 2, bytes: 1, expiresAt: 9e15, text: '2' })],
      [['cache-age', 2], `1 ${second}`],
      [['cache-totals'], json({ written: 2, entries: 2, bytes: 2 })],
    ]);
    const store = new LmdbCacheStore({ path, maxEntries: 2 });
    expect([store.get('first'), store.get('second')]).toEqual([1, 2]);
    await store.set('third', 3);
    expect([store.get('first'), store.get('second'), store.get('third')]).toEqual([undefined, 2, 3]);
    await store.close();
  });
});
