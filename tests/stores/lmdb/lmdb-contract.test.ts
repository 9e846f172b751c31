import { afterAll, describe, it } from '@jest/globals';
import type { Clock } from 'millrace';
import { LmdbDatabase, TaskTable } from 'millrace/internals';
import { LmdbStateStore } from 'millrace/lmdb';
import { storeContract } from 'millrace/testing';
import { testLimitMs } from '../../eventually.ts';
import { TemporaryStores } from './temporary-stores.ts';

const stores = new TemporaryStores();
const opened = new WeakMap<object, { readonly path: string; readonly clock: Clock }>();

function open(options: { readonly path: string; readonly clock: Clock }): LmdbStateStore {
  const store = new LmdbStateStore(options);
  opened.set(store, options);
  return store;
}

function optionsOf(store: object) {
  const options = opened.get(store);
  if (options === undefined) throw new Error('not a store of this suite');
  return options;
}

afterAll(() => stores.clear());

storeContract(
  {
    name: 'S1-102 LmdbStateStore with a second instance on the same file',
    createStore: ({ clock }) => open({ path: stores.path(), clock }),
    createPeer: (store, { clock }) => open({ path: optionsOf(store).path, clock }),
    dispose: (store) => (store instanceof LmdbStateStore ? store.close() : undefined),
    deadlineMs: testLimitMs,
    async plantUnknownRecord(store, taskId) {
      const database = new LmdbDatabase(optionsOf(store).path);
      const tasks = new TaskTable(database);
      await database.write(() => {
        const head = tasks.head(taskId);
        tasks.putRecord(
          taskId,
          head.seq + 1,
          JSON.stringify({ type: 'later.thing', seq: head.seq + 1, epoch: 1, at: 0 }),
        );
        tasks.putHead({ ...head, seq: head.seq + 1 }, head);
      });
      await database.close();
    },
  },
  { describe, it },
);
