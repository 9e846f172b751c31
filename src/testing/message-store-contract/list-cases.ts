import assert from 'node:assert/strict';
import type { MessageQuery, MessageStore, StoredMessage } from '../../core/contracts/index.ts';
import { refuses } from '../store-contract/expectations.ts';
import { allMembers, type MessageCases, turnOf } from './message-case.ts';

/** All messages of a context, page by page. */
async function pagesOf(
  store: MessageStore,
  contextId: string,
  query: MessageQuery,
): Promise<readonly (readonly StoredMessage[])[]> {
  const pages: (readonly StoredMessage[])[] = [];
  for (let after: string | undefined, more = true; more; ) {
    const { messages, next } = await store.list(contextId, { ...query, after });
    pages.push(messages);
    assert.ok(pages.length < 100, 'the pages do not end');
    after = next;
    more = next !== undefined;
  }
  return pages;
}

const said = (messages: readonly StoredMessage[]) => messages.map(({ message }) => message.content);
const idsOf = (messages: readonly StoredMessage[]) => messages.map(({ id }) => id);

async function fill(store: MessageStore, contextId: string, turns: readonly string[]): Promise<void> {
  for (const turn of turns) await store.append(contextId, turn, turnOf(turn));
}

export const listCases: MessageCases = {
  name: 'list',
  cases: [
    {
      title: 'U-10 every message has an id of its own, a time and its turn, and is as it was appended',
      async run({ store, peer, newContextId }) {
        const contextId = newContextId();
        await store.append(contextId, 't', allMembers);
        await store.append(contextId, 'u', allMembers);
        const { messages, next } = await peer.list(contextId);
        assert.equal(next, undefined);
        assert.deepEqual(
          messages.map(({ message }) => message),
          [...allMembers, ...allMembers],
        );
        assert.equal(JSON.stringify(messages[2]?.message), JSON.stringify(allMembers[2]));
        assert.equal(new Set(idsOf(messages)).size, messages.length);
        for (const [index, { id, createdAt, taskId }] of messages.entries()) {
          assert.ok(typeof id === 'string' && id !== '');
          assert.equal(new Date(createdAt).toISOString(), createdAt);
          assert.equal(taskId, index < allMembers.length ? 't' : 'u');
        }
        assert.deepEqual((await peer.load(contextId)).messages, [...allMembers, ...allMembers]);
      },
    },
    {
      title: 'U-10 a message is of the time that it brings, else of the one given with it, else of its append',
      async run({ store, peer, newContextId }) {
        const contextId = newContextId();
        const [first = { role: 'user', content: '' }, second = first] = turnOf('said');
        const own = { ...first, createdAt: '2026-01-02T05:04:05.678+02:00' };
        const createdAt = ['2020-01-01T00:00:00.000Z', '2020-01-01T00:00:01.000Z'];
        await store.append(contextId, 't', [own, second], { createdAt });
        await store.append(contextId, 'u', [second]);
        const { messages } = await peer.list(contextId);
        const times = messages.map((each) => each.createdAt);
        assert.deepEqual(times.slice(0, 2), ['2026-01-02T03:04:05.678Z', createdAt[1]]);
        assert.ok((times[2] ?? '') >= (createdAt[1] ?? ''));
        assert.deepEqual(messages[0]?.message, own);
      },
    },
    {
      title: 'U-10 ids and times stay where a turn is appended again, others come, and metadata change',
      async run({ store, peer, newContextId }) {
        const contextId = newContextId();
        await store.begin(contextId, 'a');
        await fill(store, contextId, ['a', 'b']);
        const { messages: before } = await store.list(contextId);
        assert.deepEqual(await peer.append(contextId, 'a', turnOf('again')), { appended: false });
        await peer.setMetadata(contextId, { summary: 'Short.' });
        await peer.setAgent(contextId, 'other');
        await fill(peer, contextId, ['c']);
        const { messages: after } = await peer.list(contextId);
        assert.deepEqual(after.slice(0, before.length), before);
        assert.equal(new Set(idsOf(after)).size, 6);
      },
    },
    {
      title: 'U-10 pages have every message once, oldest first and newest first',
      async run({ store, peer, newContextId }) {
        const contextId = newContextId();
        const turns = ['one', 'two', 'three', 'four', 'five'];
        await fill(store, contextId, turns);
        await store.append(newContextId(), 'one', turnOf('elsewhere'));
        const all = turns.flatMap(turnOf).map(({ content }) => content);
        for (const limit of [1, 3, 5, 10, 99]) {
          const oldest = await pagesOf(peer, contextId, { limit });
          const newest = await pagesOf(peer, contextId, { limit, order: 'newest-first' });
          assert.equal(oldest.length, Math.ceil(10 / limit));
          assert.deepEqual(
            newest.map((page) => page.length),
            oldest.map((page) => page.length),
          );
          assert.deepEqual(said(oldest.flat()), all);
          assert.deepEqual(idsOf(newest.flat()), idsOf(oldest.flat()).reverse());
          assert.deepEqual(said(newest.flat()), [...all].reverse());
        }
        assert.deepEqual(await store.list(newContextId()), { messages: [] });
        assert.deepEqual(await store.list(newContextId(), { order: 'newest-first' }), { messages: [] });
      },
    },
    {
      title: 'U-10 a page comes after any message, by its id',
      async run({ store, peer, newContextId }) {
        const contextId = newContextId();
        await fill(store, contextId, ['one', 'two']);
        const { messages: all } = await store.list(contextId);
        for (const [index, { id }] of all.entries()) {
          assert.deepEqual((await peer.list(contextId, { after: id })).messages, all.slice(index + 1));
          const older = await peer.list(contextId, { after: id, order: 'newest-first' });
          assert.deepEqual(older.messages, all.slice(0, index).reverse());
          assert.equal(older.next, undefined);
        }
      },
    },
    {
      title:
        'U-10 messages that come while pages are read are on the last page of the oldest first, and shift no other',
      async run({ store, peer, newContextId }) {
        const contextId = newContextId();
        await fill(store, contextId, ['one', 'two']);
        const oldest = await store.list(contextId, { limit: 3 });
        const newest = await store.list(contextId, { limit: 3, order: 'newest-first' });
        await fill(peer, contextId, ['three']);
        const rest = await store.list(contextId, { after: oldest.next });
        assert.deepEqual(said([...oldest.messages, ...rest.messages]), said((await peer.list(contextId)).messages));
        const older = await store.list(contextId, { after: newest.next, order: 'newest-first' });
        assert.deepEqual(said(older.messages), ['one']);
        assert.deepEqual((await store.list(contextId, { after: rest.messages.at(-1)?.id })).messages, []);
      },
    },
    {
      title: 'U-10 an id of no message of the context is refused as INVALID_INPUT, also after the context was deleted',
      async run({ store, peer, newContextId }) {
        const [contextId, other] = [newContextId(), newContextId()];
        await fill(store, contextId, ['one']);
        await store.append(other, 'two', turnOf('two'));
        const [known] = (await store.list(contextId)).messages;
        const [foreign] = (await store.list(other)).messages;
        const strays = [foreign?.id, '', 'x', ':0', '0', `${known?.id}0`, 'x:99999999999999999999', known?.message.id];
        for (const order of ['oldest-first', 'newest-first'] as const) {
          for (const after of strays.filter((each) => each !== undefined)) {
            const error = await refuses('INVALID_INPUT', () => store.list(contextId, { after, order }));
            assert.match(error.message, /has no message/);
          }
          await refuses('INVALID_INPUT', () => store.list(newContextId(), { after: known?.id, order }));
        }
        await peer.delete(contextId);
        await fill(peer, contextId, ['another']);
        await refuses('INVALID_INPUT', () => store.list(contextId, { after: known?.id }));
      },
    },
    {
      title: 'U-10 orders, limits and times that are none are refused as INVALID_INPUT',
      async run({ store, newContextId }) {
        const contextId = newContextId();
        for (const limit of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY]) {
          await refuses('INVALID_INPUT', () => store.list(contextId, { limit }));
        }
        const order = JSON.parse('"newest"');
        await refuses('INVALID_INPUT', () => store.list(contextId, { order }));
        for (const createdAt of [[], ['2020-01-01T00:00:00Z'], ['2020-01-01T00:00:00Z', 'yesterday']]) {
          await refuses('INVALID_INPUT', () => store.append(contextId, 't', turnOf('said'), { createdAt }));
        }
        assert.equal((await store.load(contextId)).total, 0);
      },
    },
    {
      title: 'U-10 of thousands of messages a page has the ones asked for',
      async run({ store, peer, newContextId }) {
        const contextId = newContextId();
        const many = Array.from({ length: 5_000 }, (_, index) => ({ role: 'user' as const, content: `${index}` }));
        await store.append(contextId, 'many', many);
        const newest = await peer.list(contextId, { limit: 2, order: 'newest-first' });
        assert.deepEqual(said(newest.messages), ['4999', '4998']);
        const older = await peer.list(contextId, { limit: 3_000, order: 'newest-first', after: newest.next });
        assert.deepEqual([older.messages.length, said(older.messages).at(-1)], [3_000, '1998']);
      },
    },
  ],
};
