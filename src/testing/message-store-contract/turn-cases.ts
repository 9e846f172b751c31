import assert from 'node:assert/strict';
import type { Message, MessageStore } from '../../core/contracts/index.ts';
import type { Pair, PromiseGroup } from '../contract/define-contract.ts';

export interface MessageStoreUnderTest extends Pair<MessageStore> {
  newContextId(): string;
}

export type MessageCases = PromiseGroup<MessageStoreUnderTest>;

/** A turn of two messages. */
export function turnOf(text: string): readonly Message[] {
  return [
    { role: 'user', content: text },
    { role: 'assistant', content: `${text}, you say` },
  ];
}

/** The texts of messages. */
function textsOf(messages: readonly Message[]): readonly unknown[] {
  return messages.map(({ content }) => content);
}

/** A message of each role, with every member that a message can have. */
export const allMembers: readonly Message[] = [
  { role: 'system', content: 'Be brief.', id: 's-1' },
  { role: 'developer', content: [{ type: 'text', text: 'Be kind.' }] },
  {
    role: 'user',
    id: 'u-1',
    createdAt: '2026-01-02T03:04:05.678Z',
    metadata: { tags: ['a', 'b'], nested: { deep: [null, true, 1.5, 'x'] }, empty: {}, none: [] },
    content: [
      { type: 'text', text: 'What is this? "quotes" \\ \n\t\u0000 äöü 漢字 🐘 \u2028 \ud800' },
      { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA', detail: 'low' } },
      { type: 'file', file: { filename: 'a.txt', file_data: 'data:text/plain;base64,QQ==' } },
      { type: 'file', file: { file_id: 'f-1' } },
    ],
  },
  {
    role: 'assistant',
    content: null,
    reasoning: 'Let me look.',
    toolCalls: [
      { id: 'call-1', type: 'function', function: { name: 'look', arguments: '{"at": 1e2}' } },
      { id: 'call-2', type: 'function', function: { name: 'fail', arguments: '' } },
    ],
  },
  { role: 'tool', toolCallId: 'call-1', content: 'An elephant.', status: 'ok' },
  { role: 'tool', toolCallId: 'call-2', content: [{ type: 'text', text: 'It broke.' }], status: 'error' },
  { role: 'tool', toolCallId: 'call-3', content: '' },
  { role: 'assistant', id: 'a-2', content: 'An elephant.', createdAt: '2026-01-02T03:04:06Z', metadata: { '': 0 } },
];

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

export const openTurnCases: MessageCases = {
  name: 'open turns',
  cases: [
    {
      title: 'a turn that was begun is open until its messages come',
      async run({ store, peer, newContextId }) {
        const contextId = newContextId();
        assert.equal(await store.begin(contextId, 't'), 'open');
        const begun = await peer.load(contextId);
        assert.deepEqual(begun.openTurns, ['t']);
        assert.equal(begun.total, 0);
        await peer.append(contextId, 't', turnOf('said'));
        const settled = await store.load(contextId);
        assert.deepEqual(settled.openTurns, []);
        assert.deepEqual(settled.messages, turnOf('said'));
      },
    },
    {
      title: 'open turns come in the order they were begun, each once, also where it is begun again',
      async run({ store, peer, newContextId }) {
        const contextId = newContextId();
        for (const taskId of ['z', 'a', 'm', 'z', 'a']) {
          assert.equal(await (taskId === 'a' ? peer : store).begin(contextId, taskId), 'open');
        }
        assert.deepEqual((await store.load(contextId)).openTurns, ['z', 'a', 'm']);
        await store.append(contextId, 'a', turnOf('a'));
        assert.deepEqual((await peer.load(contextId)).openTurns, ['z', 'm']);
      },
    },
    {
      title: 'a turn whose messages are here is saved: begun again it is not open',
      async run({ store, peer, newContextId }) {
        const contextId = newContextId();
        await store.append(contextId, 't', turnOf('said'));
        assert.equal(await peer.begin(contextId, 't'), 'saved');
        assert.deepEqual((await store.load(contextId)).openTurns, []);
      },
    },
    {
      title: 'a withdrawn turn is not open, and its id can be used again, after the turns registered since',
      async run({ store, peer, newContextId }) {
        if (!store.withdraw || !peer.withdraw) return;
        const contextId = newContextId();
        for (const taskId of ['a', 'b']) await store.begin(contextId, taskId);
        await peer.withdraw(contextId, 'a');
        await peer.withdraw(contextId, 'a');
        await peer.withdraw(contextId, 'nobody');
        assert.deepEqual((await store.load(contextId)).openTurns, ['b']);
        assert.equal(await store.begin(contextId, 'a'), 'open');
        assert.deepEqual((await peer.load(contextId)).openTurns, ['b', 'a']);
        assert.deepEqual(await store.append(contextId, 'a', turnOf('said')), { appended: true });
        await store.withdraw(contextId, 'a');
        assert.equal(await peer.begin(contextId, 'a'), 'saved');
        assert.equal((await peer.load(contextId)).total, turnOf('said').length);
      },
    },
    {
      title:
        'a registered turn is appended; one whose context was deleted since is not, and nothing of the context comes back',
      async run({ store, peer, newContextId }) {
        const contextId = newContextId();
        const registered = { registered: true };
        for (const taskId of ['a', 'b']) await store.begin(contextId, taskId);
        assert.deepEqual(await peer.append(contextId, 'a', turnOf('said'), registered), { appended: true });
        assert.deepEqual(await peer.append(contextId, 'a', turnOf('said'), registered), { appended: false });
        await peer.delete(contextId);
        assert.deepEqual(await store.append(contextId, 'b', turnOf('late'), registered), { appended: false });
        await assert.rejects(async () => store.setMetadata(contextId, { a: 1 }, { minTotal: 1 }), { code: 'CONFLICT' });
        assert.equal((await peer.load(contextId)).total, 0);
        const { contexts } = await peer.contexts({ limit: 1_000 });
        assert.deepEqual(
          contexts.filter((context) => context.contextId === contextId),
          [],
        );
        await store.append(contextId, 'c', turnOf('new'));
        assert.equal(await store.setMetadata(contextId, { a: 1 }, { minTotal: 2 }), 1);
      },
    },
    {
      title: 'a context of which only a withdrawn turn was known is gone',
      async run({ store, peer, newContextId }) {
        if (!store.withdraw || !peer.withdraw) return;
        const [contextId, named] = [newContextId(), newContextId()];
        for (const each of [contextId, named]) await store.begin(each, 'a');
        await store.setAgent(named, 'ada');
        for (const each of [contextId, named]) await peer.withdraw(each, 'a');
        const { contexts } = await peer.contexts({ limit: 1_000 });
        const known = contexts.map((context) => context.contextId);
        assert.deepEqual([known.includes(contextId), known.includes(named)], [false, true]);
      },
    },
    {
      title: 'an empty list settles a turn that said nothing',
      async run({ store, peer, newContextId }) {
        const contextId = newContextId();
        await store.begin(contextId, 't');
        assert.deepEqual(await peer.append(contextId, 't', []), { appended: true });
        assert.equal(await store.begin(contextId, 't'), 'saved');
        const { openTurns, total } = await store.load(contextId);
        assert.deepEqual({ openTurns, total }, { openTurns: [], total: 0 });
      },
    },
    {
      title: 'open turns are of one context: the same task id in another is another turn',
      async run({ store, newContextId }) {
        const [first, second] = [newContextId(), newContextId()];
        await store.begin(first, 't');
        await store.begin(second, 't');
        await store.append(first, 't', turnOf('first'));
        assert.deepEqual((await store.load(second)).openTurns, ['t']);
        assert.deepEqual(await store.append(second, 't', turnOf('second')), { appended: true });
      },
    },
    {
      title: 'a turn that is begun and appended at once is settled in the end',
      async run({ store, peer, newContextId }) {
        const contextId = newContextId();
        await Promise.all([
          ...['1', '2', '3', '4'].map(async (taskId) => store.begin(contextId, taskId)),
          ...['1', '2', '3', '4'].map(async (taskId) => peer.append(contextId, taskId, turnOf(taskId))),
        ]);
        const { openTurns, total } = await store.load(contextId);
        assert.deepEqual({ openTurns, total }, { openTurns: [], total: 8 });
      },
    },
  ],
};
