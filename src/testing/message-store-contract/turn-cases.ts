import assert from 'node:assert/strict';
import { allMembers, type MessageCases, textsOf, turnOf } from './message-case.ts';

export const turnCases: MessageCases = {
  name: 'append and load',
  cases: [
    {
      title: 'a context that nobody wrote to is empty',
      async run({ store, newContextId }) {
        const contextId = newContextId();
        const empty = { contextId, messages: [], from: 0, total: 0, metadata: {}, version: 0, openTurns: [] };
        assert.deepEqual(await store.load(contextId), empty);
      },
    },
    {
      title: 'messages come back turn behind turn, in the order of the appends',
      async run({ store, peer, newContextId }) {
        const contextId = newContextId();
        for (const name of ['one', 'two', 'three']) await store.append(contextId, name, turnOf(name));
        const { messages, from, total } = await peer.load(contextId);
        assert.deepEqual(messages, ['one', 'two', 'three'].flatMap(turnOf));
        assert.deepEqual({ from, total }, { from: 0, total: 6 });
      },
    },
    {
      title: 'messages come back as they were given, with every member',
      async run({ store, peer, newContextId }) {
        const contextId = newContextId();
        await store.append(contextId, 't', allMembers);
        const { messages } = await peer.load(contextId);
        assert.deepEqual(messages, allMembers);
        assert.equal(JSON.stringify(messages), JSON.stringify(allMembers));
      },
    },
    {
      title: 'another context sees none of them, also one whose id begins alike',
      async run({ store, peer, newContextId }) {
        const contextId = newContextId();
        const others = [`${contextId}-`, `${contextId}:t`, contextId.slice(0, -1), newContextId()];
        await store.append(contextId, 't', turnOf('mine'));
        for (const other of others) assert.equal((await peer.load(other)).total, 0);
        await peer.append(`${contextId}-`, 't', turnOf('theirs'));
        assert.deepEqual((await store.load(contextId)).messages, turnOf('mine'));
        assert.deepEqual((await store.load(`${contextId}-`)).messages, turnOf('theirs'));
      },
    },
    {
      title: 'the messages of a turn are stored once: the first that came stay',
      async run({ store, peer, newContextId }) {
        const contextId = newContextId();
        assert.deepEqual(await store.append(contextId, 't', turnOf('first')), { appended: true });
        assert.deepEqual(await peer.append(contextId, 't', turnOf('second')), { appended: false });
        assert.deepEqual(await store.append(contextId, 't', []), { appended: false });
        await store.append(contextId, 'later', turnOf('later'));
        assert.deepEqual(await peer.append(contextId, 't', turnOf('third')), { appended: false });
        assert.deepEqual((await peer.load(contextId)).messages, [...turnOf('first'), ...turnOf('later')]);
      },
    },
    {
      title: 'of several that bring the same turn at once exactly one appends it',
      async run({ store, peer, newContextId }) {
        const contextId = newContextId();
        const names = ['a', 'b', 'c', 'd', 'e', 'f'];
        const append = async (name: string, index: number) =>
          (index % 2 ? store : peer).append(contextId, 't', turnOf(name));
        const answers = await Promise.all(names.map(append));
        const winners = names.filter((_, index) => answers[index]?.appended);
        assert.equal(winners.length, 1);
        assert.deepEqual((await store.load(contextId)).messages, winners.flatMap(turnOf));
      },
    },
    {
      title: 'turns that are appended concurrently are stored whole, one after the other',
      async run({ store, peer, newContextId }) {
        const contextId = newContextId();
        const names = Array.from({ length: 12 }, (_, index) => `turn-${index}`);
        const append = async (name: string, index: number) =>
          (index % 2 ? store : peer).append(contextId, name, turnOf(name));
        await Promise.all(names.map(append));
        const texts = textsOf((await store.load(contextId)).messages);
        const order = texts.filter((_, index) => index % 2 === 0).map(String);
        assert.deepEqual([...order].sort(), [...names].sort());
        assert.deepEqual(
          texts,
          order.flatMap(turnOf).map(({ content }) => content),
        );
      },
    },
    {
      title: 'a page holds the last messages in front of a position, and says where it begins',
      async run({ store, newContextId }) {
        const contextId = newContextId();
        const all = ['one', 'two', 'three', 'four'].flatMap(turnOf);
        for (const name of ['one', 'two', 'three', 'four']) await store.append(contextId, name, turnOf(name));
        const page = async (options: { readonly limit?: number; readonly before?: number }) => {
          const { messages, from, total } = await store.load(contextId, options);
          assert.equal(total, 8);
          return { messages, from };
        };
        assert.deepEqual(await page({ limit: 3 }), { messages: all.slice(5), from: 5 });
        assert.deepEqual(await page({ limit: 3, before: 5 }), { messages: all.slice(2, 5), from: 2 });
        assert.deepEqual(await page({ limit: 3, before: 2 }), { messages: all.slice(0, 2), from: 0 });
        assert.deepEqual(await page({ before: 0 }), { messages: [], from: 0 });
        assert.deepEqual(await page({ limit: 0 }), { messages: [], from: 8 });
        assert.deepEqual(await page({ before: 3 }), { messages: all.slice(0, 3), from: 0 });
        assert.deepEqual(await page({ before: 99, limit: 99 }), { messages: all, from: 0 });
      },
    },
    {
      title: 'a turn of thousands of messages and one of a megabyte come back whole',
      async run({ store, peer, newContextId }) {
        const contextId = newContextId();
        const many = Array.from({ length: 9_000 }, (_, index) => ({ role: 'user' as const, content: `${index}` }));
        const large = [{ role: 'user' as const, content: 'ä'.repeat(2 ** 19) }];
        await store.append(contextId, 'many', many);
        await store.append(contextId, 'large', large);
        assert.deepEqual((await peer.load(contextId)).messages, [...many, ...large]);
        assert.deepEqual((await peer.load(contextId, { limit: 1, before: 8_500 })).messages, [many[8_499]]);
      },
    },
  ],
};
