import { afterAll, describe, it } from '@jest/globals';
import type { Clock } from 'millrace';
import { LmdbStateStore } from 'millrace/lmdb';
import { storeContract } from 'millrace/testing';
import { testLimitMs } from '../../eventually.ts';
import { ChildPrograms } from './child-programs.ts';
import { type RemoteStore, RemoteStores } from './remote-stores.ts';
import { TemporaryStores } from './temporary-stores.ts';

const stores = new TemporaryStores();
const children = new ChildPrograms();
const remote = new RemoteStores(children.start('peer'));
const opened = new WeakMap<object, { readonly path: string; readonly clock: Clock }>();
const remotes = new WeakMap<object, RemoteStore>();

afterAll(async () => {
  await children.clear();
  await stores.clear();
});

storeContract(
  {
    name: 'S1-102 LmdbStateStore with a second process on the same file',
    createStore({ clock }) {
      const options = { path: stores.path(), clock };
      const store = stores.open(options);
      opened.set(store, options);
      return store;
    },
    async createPeer(store) {
      const options = opened.get(store);
      if (options === undefined) throw new Error('not a store of this suite');
      const peer = await remote.open(options);
      remotes.set(peer, peer);
      return peer;
    },
    dispose: (store) => (store instanceof LmdbStateStore ? store.close() : remotes.get(store)?.close()),
    deadlineMs: testLimitMs,
  },
  { describe, it },
);
