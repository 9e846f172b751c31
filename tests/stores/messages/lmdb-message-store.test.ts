import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { startRecord } from 'millrace/internals';
import { LmdbMessageStore, LmdbStateStore } from 'millrace/lmdb';
import { messageStoreContract } from 'millrace/testing';

const folder = mkdtempSync(join(tmpdir(), 'millrace-messages-'));
afterAll(() => rmSync(folder, { recursive: true }));
let made = 0;
const newPath = () => join(folder, String(made++));
const paths = new WeakMap<object, string>();

function open(path: string): LmdbMessageStore {
  const store = new LmdbMessageStore({ path });
  paths.set(store, path);
  return store;
}

messageStoreContract(
  {
    name: 'LmdbMessageStore with a second instance on the same file',
    createStore: () => open(newPath()),
    createPeer: (store) => open(paths.get(store) ?? ''),
    dispose: (store) => (store instanceof LmdbMessageStore ? store.close() : undefined),
  },
  { describe, it },
);

describe('LmdbMessageStore', () => {
  it('shares a file with journals', async () => {
    const path = newPath();
    const journals = new LmdbStateStore({ path });
    const store = open(path);
    await journals.create('t', startRecord('t'));
    await store.append('t', 't', [{ role: 'user', content: 'Hello' }]);
    await journals.delete('t');
    expect(store.load('t').total).toBe(1);
    await journals.create('t', startRecord('t'));
    await store.delete('t');
    expect(journals.read('t')).toHaveLength(1);
    expect(journals.list()).toHaveLength(1);
    await Promise.all([journals.close(), store.close()]);
  });

  it('keeps what was written for the next process', async () => {
    const path = newPath();
    const store = open(path);
    await store.begin('c', 'open');
    await store.append('c', 't', [{ role: 'user', content: 'Hello' }]);
    await store.close();
    const next = open(path);
    expect(next.load('c')).toMatchObject({ messages: [{ content: 'Hello' }], openTurns: ['open'] });
    await next.close();
  });

  it('refuses calls after close as UNAVAILABLE, and options that nothing reads as INVALID_CONFIG', async () => {
    const store = open(newPath());
    await store.close();
    await store.close();
    expect(() => store.load('c')).toThrow(expect.objectContaining({ code: 'UNAVAILABLE' }));
    await expect(store.begin('c', 't')).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    for (const options of [{ path: '' }, { path: newPath(), pollMs: 20 }]) {
      expect(() => new LmdbMessageStore(options)).toThrow(expect.objectContaining({ code: 'INVALID_CONFIG' }));
    }
  });
});
