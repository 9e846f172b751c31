import assert from 'node:assert/strict';
import type { Message, MessageQuery, MessageStore, StoredMessage } from '../../core/contracts/index.ts';
import {
  notOptions,
  notText,
  refuses,
  refusesWrongArguments,
  type WrongArguments,
} from '../contract/define-contract.ts';
import { allMembers, type MessageCases, turnOf } from './turn-cases.ts';

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

const badIds = ['', ' ', 'a b', '}', '{x}', 'a/b', '..\\', 'ä', 'a\n', 'a\0', 'x'.repeat(129)];

const goodIds = ['0', '_', '.', '..', ':', '-', 'A-z_0.9:tail', 'x'.repeat(128), '__proto__', 'constructor'];

/** Messages as they come from a caller that no compiler checks. */
function unchecked(...messages: readonly object[]): readonly Message[] {
  return JSON.parse(JSON.stringify(messages));
}

const loop: { self?: object } = {};

loop.self = loop;

const lossy: readonly unknown[] = [10n, Number.NaN, Number.POSITIVE_INFINITY, new Date(0), new Map(), () => 1, loop];

export const inputCases: MessageCases = {
  name: 'input',
  cases: [
    {
      title: 'H-07 arguments of another type are refused as INVALID_INPUT, and change nothing',
      async run({ store, newContextId }) {
        const contextId = newContextId();
        await store.append(contextId, 't', turnOf('t'));
        const before = await store.load(contextId);
        const turns = notText.flatMap((bad) => [
          [bad, 't2'],
          [contextId, bad],
        ]);
        const calls: WrongArguments<MessageStore> = {
          begin: turns,
          append: [
            ...turns.map((turn) => [...turn, []]),
            ...[undefined, null, 'hello', { 0: 'x' }, [7]].map((bad) => [contextId, 't2', bad]),
            [contextId, 't2', [], 'agent'],
            [contextId, 't2', [], { agentId: 7 }],
            [contextId, 't2', [], { createdAt: '2026-01-01' }],
          ],
          setAgent: turns,
          load: [
            ...notText.map((bad) => [bad]),
            ...notOptions.map((bad) => [contextId, bad]),
            [contextId, { limit: '5' }],
            [contextId, { before: null }],
          ],
          list: [
            ...notText.map((bad) => [bad]),
            ...notOptions.map((bad) => [contextId, bad]),
            [contextId, { limit: '5' }],
            [contextId, { order: 1 }],
            [contextId, { after: 7 }],
          ],
          setMetadata: [
            ...notText.map((bad) => [bad, {}]),
            ...[undefined, null, 'x', 7, []].map((bad) => [contextId, bad]),
            [contextId, {}, 1],
            [contextId, {}, { version: '1' }],
          ],
          contexts: [...notOptions.map((bad) => [bad]), [{ limit: '5' }], [{ after: 7 }]],
          delete: notText.map((bad) => [bad]),
        };
        await refusesWrongArguments(store, calls);
        assert.deepEqual(await store.load(contextId), before);
        assert.equal((await store.contexts()).contexts.length, 1);
      },
    },
    {
      title: 'ids outside the pattern are refused as INVALID_INPUT and write nothing',
      async run({ store }) {
        for (const id of badIds) {
          await refuses('INVALID_INPUT', () => store.begin(id, 't'));
          await refuses('INVALID_INPUT', () => store.begin('c', id));
          await refuses('INVALID_INPUT', () => store.append(id, 't', []));
          await refuses('INVALID_INPUT', () => store.append('c', id, []));
          await refuses('INVALID_INPUT', () => store.load(id));
          await refuses('INVALID_INPUT', () => store.setMetadata(id, {}));
          await refuses('INVALID_INPUT', () => store.delete(id));
          if (id !== '') await refuses('INVALID_INPUT', () => store.contexts({ after: id }));
        }
        assert.deepEqual(await store.contexts(), { contexts: [] });
      },
    },
    {
      title: 'every id of the pattern can be used, as context and as task',
      async run({ store, peer }) {
        for (const id of goodIds) {
          assert.equal(await store.begin(id, id), 'open');
          assert.deepEqual(await store.append(id, id, turnOf(id)), { appended: true });
          assert.deepEqual((await peer.load(id)).messages, turnOf(id));
        }
        assert.equal((await store.contexts()).contexts.length, goodIds.length);
      },
    },
    {
      title: 'what is no message is refused as INVALID_INPUT, and none of its turn is stored',
      async run({ store, newContextId }) {
        const contextId = newContextId();
        const [good] = turnOf('good');
        const bad = [{ role: 'robot', content: 'x' }, { role: 'user' }, { role: 'tool', content: 'x' }];
        for (const message of bad) {
          const messages = [...(good ? [good] : []), ...unchecked(message)];
          await refuses('INVALID_INPUT', () => store.append(contextId, 't', messages));
        }
        assert.equal((await store.load(contextId)).total, 0);
        assert.deepEqual(await store.append(contextId, 't', turnOf('good')), { appended: true });
      },
    },
    {
      title: 'what JSON would lose or change is refused as INVALID_INPUT, naming it',
      async run({ store, newContextId }) {
        const contextId = newContextId();
        for (const value of lossy) {
          const message: Message = { role: 'user', content: 'x', metadata: { deep: [value] } };
          const error = await refuses('INVALID_INPUT', () => store.append(contextId, 't', [message]));
          assert.match(error.message, /messages\[0\]\.metadata\.deep\[0\]/);
          await refuses('INVALID_INPUT', () => store.setMetadata(contextId, { deep: { value } }));
        }
        const { total, version } = await store.load(contextId);
        assert.deepEqual({ total, version }, { total: 0, version: 0 });
      },
    },
    {
      title: 'limits, positions and versions that are no whole numbers are refused as INVALID_INPUT',
      async run({ store }) {
        for (const number of [-1, 1.5, Number.NaN]) {
          await refuses('INVALID_INPUT', () => store.load('c', { limit: number }));
          await refuses('INVALID_INPUT', () => store.load('c', { before: number }));
          await refuses('INVALID_INPUT', () => store.contexts({ limit: number }));
          await refuses('INVALID_INPUT', () => store.setMetadata('c', {}, { version: number }));
        }
        await refuses('INVALID_INPUT', () => store.contexts({ limit: 0 }));
      },
    },
    {
      title: 'messages and metadata beyond the size limit are refused as INVALID_INPUT, naming the cure',
      async run({ store, newContextId }) {
        const contextId = newContextId();
        const huge: Message = { role: 'user', content: 'x'.repeat(33 * 1024 * 1024) };
        const error = await refuses('INVALID_INPUT', () => store.append(contextId, 't', [huge]));
        assert.match(error.message, /ArtifactStore/);
        await refuses('INVALID_INPUT', () => store.setMetadata(contextId, { text: 'x'.repeat(1024 * 1024) }));
        assert.deepEqual((await store.contexts()).contexts, []);
      },
    },
  ],
};
