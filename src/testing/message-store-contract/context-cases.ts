import assert from 'node:assert/strict';
import type { ContextSummary, MessageStore } from '../../core/contracts/index.ts';
import { type MessageCases, turnOf } from './message-case.ts';

/** All contexts, a page at a time. */
async function pagesOf(store: MessageStore, limit: number): Promise<readonly (readonly ContextSummary[])[]> {
  const pages: (readonly ContextSummary[])[] = [];
  for (let after: string | undefined = ''; after !== undefined; ) {
    const { contexts, next } = await store.contexts(after === '' ? { limit } : { limit, after });
    pages.push(contexts);
    assert.ok(pages.length < 100, 'the pages do not end');
    after = next;
  }
  return pages;
}

export const contextCases: MessageCases = {
  name: 'contexts and delete',
  cases: [
    {
      title: 'contexts are listed with what they hold',
      async run({ store, peer }) {
        assert.deepEqual(await store.contexts(), { contexts: [] });
        await store.append('b', 't', turnOf('said'));
        await store.begin('b', 'open');
        await store.begin('a', 'only-begun');
        await store.setMetadata('c', { a: 1 });
        const { contexts } = await peer.contexts();
        assert.deepEqual(
          contexts.map(({ contextId, total, openTurns }) => [contextId, total, openTurns]),
          [
            ['a', 0, 1],
            ['b', 2, 1],
            ['c', 0, 0],
          ],
        );
        for (const { createdAt, updatedAt } of contexts) {
          assert.equal(new Date(createdAt).toISOString(), createdAt);
          assert.ok(updatedAt >= createdAt);
        }
      },
    },
    {
      title: 'the bytes of messages are counted, or not told at all',
      async run({ store, peer }) {
        const bytesOf = async () => (await peer.contexts()).contexts.find(({ contextId }) => contextId === 'b')?.bytes;
        await store.begin('b', 'open');
        const first = await bytesOf();
        await store.append('b', 't', turnOf('said'));
        const second = await bytesOf();
        await store.append('b', 'u', turnOf('\u{1f600}'.repeat(1_000)));
        await store.append('b', 'u', turnOf('once more'));
        const third = await bytesOf();
        if (third === undefined) return assert.deepEqual([first, second], [undefined, undefined]);
        const told = JSON.stringify(turnOf('\u{1f600}'.repeat(1_000)));
        assert.equal(first, 0);
        assert.ok(second !== undefined && second > JSON.stringify(turnOf('said')).length - 2);
        assert.ok(third - second >= Buffer.byteLength(told) - 2 && third - second < Buffer.byteLength(told) + 1_000);
        await store.delete('b');
        await store.begin('b', 'anew');
        assert.equal(await bytesOf(), 0);
      },
    },
    {
      title: 'pages have every context once, in the order of their ids',
      async run({ store, peer }) {
        const ids = ['Z', 'a', 'a-', 'a.', 'a0', 'a_', 'aa', 'b', '_', '0', '9:', ':'];
        for (const contextId of ids) await store.append(contextId, 't', turnOf(contextId));
        for (const limit of [1, 5, 12, 50]) {
          const pages = await pagesOf(peer, limit);
          assert.equal(pages.length, Math.ceil(ids.length / limit));
          assert.deepEqual(
            pages.flat().map(({ contextId }) => contextId),
            [...ids].sort(),
          );
        }
        assert.deepEqual(
          (await store.contexts({ after: 'a_' })).contexts.map(({ contextId }) => contextId),
          ['aa', 'b'],
        );
      },
    },
    {
      title: 'a deleted context is gone with all that belonged to it, and others stay',
      async run({ store, peer }) {
        await store.append('gone', 't', turnOf('said'));
        await store.begin('gone', 'open');
        await store.setMetadata('gone', { a: 1 });
        await store.append('gone-not', 't', turnOf('kept'));
        await peer.delete('gone');
        await peer.delete('gone');
        await peer.delete('never-there');
        const { total, metadata, version, openTurns } = await store.load('gone');
        assert.deepEqual(
          { total, metadata, version, openTurns },
          { total: 0, metadata: {}, version: 0, openTurns: [] },
        );
        assert.deepEqual(
          (await store.contexts()).contexts.map(({ contextId }) => contextId),
          ['gone-not'],
        );
        assert.deepEqual((await store.load('gone-not')).messages, turnOf('kept'));
      },
    },
    {
      title: 'what is written to a deleted context begins it anew',
      async run({ store, peer }) {
        await store.append('c', 't', turnOf('before'));
        await store.delete('c');
        assert.equal(await peer.begin('c', 't'), 'open');
        assert.deepEqual(await peer.append('c', 't', turnOf('after')), { appended: true });
        assert.deepEqual((await store.load('c')).messages, turnOf('after'));
        assert.equal((await store.contexts()).contexts.length, 1);
      },
    },
  ],
};
