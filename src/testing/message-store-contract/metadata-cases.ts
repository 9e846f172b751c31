import assert from 'node:assert/strict';
import { refuses } from '../store-contract/expectations.ts';
import { type MessageCases, turnOf } from './message-case.ts';

export const metadataCases: MessageCases = {
  name: 'metadata',
  cases: [
    {
      title: 'metadata come back as they were given, and are replaced as a whole',
      async run({ store, peer, newContextId }) {
        const contextId = newContextId();
        const metadata = { title: 'Elephants ä 🐘', tags: ['a'], nested: { n: 1.5, no: null }, empty: [] };
        assert.equal(await store.setMetadata(contextId, metadata), 1);
        const first = await peer.load(contextId);
        assert.deepEqual({ metadata: first.metadata, version: first.version }, { metadata, version: 1 });
        assert.equal(await peer.setMetadata(contextId, { other: true }), 2);
        assert.deepEqual((await store.load(contextId)).metadata, { other: true });
      },
    },
    {
      title: 'only a change of the metadata makes a new version',
      async run({ store, newContextId }) {
        const contextId = newContextId();
        await store.begin(contextId, 't');
        await store.append(contextId, 't', turnOf('said'));
        assert.equal((await store.load(contextId)).version, 0);
        await store.setMetadata(contextId, { a: 1 });
        await store.append(contextId, 'u', turnOf('more'));
        const { version, metadata, total } = await store.load(contextId);
        assert.deepEqual({ version, metadata, total }, { version: 1, metadata: { a: 1 }, total: 4 });
      },
    },
    {
      title: 'a change that names an old version is a CONFLICT and changes nothing',
      async run({ store, peer, newContextId }) {
        const contextId = newContextId();
        assert.equal(await store.setMetadata(contextId, { by: 'me' }, { version: 0 }), 1);
        assert.equal(await peer.setMetadata(contextId, { by: 'you' }, { version: 1 }), 2);
        const error = await refuses('CONFLICT', () => store.setMetadata(contextId, { by: 'me' }, { version: 1 }));
        assert.match(error.message, /version 2, not 1/);
        await refuses('CONFLICT', () => store.setMetadata(contextId, { by: 'me' }, { version: 0 }));
        await refuses('CONFLICT', () => store.setMetadata(newContextId(), {}, { version: 1 }));
        const { metadata, version } = await store.load(contextId);
        assert.deepEqual({ metadata, version }, { metadata: { by: 'you' }, version: 2 });
      },
    },
    {
      title: 'of several that change the same version at once exactly one does',
      async run({ store, peer, newContextId }) {
        const contextId = newContextId();
        const change = async (by: number) => (by % 2 ? store : peer).setMetadata(contextId, { by }, { version: 0 });
        const outcomes = await Promise.allSettled([1, 2, 3, 4, 5, 6].map(change));
        const winners = outcomes.flatMap(({ status }, index) => (status === 'fulfilled' ? [index + 1] : []));
        assert.equal(winners.length, 1);
        for (const outcome of outcomes) {
          if (outcome.status === 'rejected') await refuses('CONFLICT', () => Promise.reject(outcome.reason));
        }
        const { metadata, version } = await store.load(contextId);
        assert.deepEqual({ metadata, version }, { metadata: { by: winners[0] }, version: 1 });
      },
    },
  ],
};
