import assert from 'node:assert/strict';
import type { Message, MessageStore, MessageView } from '../../core/contracts/index.ts';
import { foldRecords, type JournalRecord, type TurnRecord, toPersisted } from '../../core/journal/index.ts';
import { refuses, watch } from '../contract/define-contract.ts';
import { begin, type ContractGroup, note, Owner, type StoreUnderTest, takeOver } from './journal-fixture.ts';

const stored: readonly Message[] = Array.from({ length: 6 }, (_, index) =>
  index % 2 === 0 ? { role: 'user', content: `question ${index}` } : { role: 'assistant', content: `answer ${index}` },
);
const summary: Message = { role: 'user', content: 'A summary of the first two.' };
const own: Message = { role: 'user', content: 'How many?' };

/** The messages of a turn that continues a conversation of six, whose first two are summarized. */
const given: readonly Message[] = [summary, ...stored.slice(2), own];

interface Referring {
  readonly taskId: string;
  readonly contextId: string;
  readonly owner: Owner;
}

/** A journal whose second record has the messages `given`, as an agent records them. */
async function referring(subject: StoreUnderTest): Promise<Referring> {
  const taskId = await begin(subject);
  const contextId = `context-of-${taskId}`;
  const { store } = subject;
  await store.messages?.append(contextId, 'one', stored.slice(0, 4));
  await store.messages?.append(contextId, 'two', stored.slice(4));
  const page = await store.messages?.list(contextId, { order: 'newest-first', limit: 1 });
  const owner = await Owner.take(subject, taskId);
  await owner.append(
    recordOf({ contextId, last: page?.messages[0]?.id ?? '', parts: [summary, [2, 4], own] }),
    note(1),
  );
  return { taskId, contextId, owner };
}

function recordOf(view: MessageView): TurnRecord {
  return { type: 'x.conversation', hook: 'beforeTurn', effects: { given, earlier: 5, givenFrom: view } };
}

/** The messages in the second record of a journal. */
function givenIn(records: readonly JournalRecord[], seq = 2): readonly Message[] | undefined {
  const record = records.find((each) => each.seq === seq);
  assert.equal(record?.type, 'x.conversation');
  return record !== undefined && 'effects' in record ? record.effects?.given : undefined;
}

export const messageCases: ContractGroup = {
  name: 'messages that are in the store of conversations',
  cases: [
    {
      title: 'refersTo says yes to its own store of conversations, or to none, and no to another',
      run({ store }) {
        const refers = (messages: MessageStore) => store.refersTo?.(messages) === true;
        if (store.messages && store.refersTo) assert.equal(refers(store.messages), true);
        const another = new Proxy(store.messages ?? ({} as MessageStore), {});
        assert.equal(refers(another), false);
        return Promise.resolve();
      },
    },
    {
      title: 'read, follow and load return them, also after more were added',
      async run(subject) {
        const { store, peer, deadlineMs } = subject;
        const { taskId, contextId, owner } = await referring(subject);
        await store.messages?.append(contextId, 'three', [{ role: 'user', content: 'later' }]);
        for (const reader of [store, peer]) {
          const records = await reader.read(taskId);
          assert.deepEqual(givenIn(records), given);
          assert.deepEqual(givenIn(await reader.read(taskId, { from: 2 })), given);
          assert.deepEqual(foldRecords(records).messages, given);
          assert.deepEqual(await reader.load(taskId), toPersisted(foldRecords(records)));
          const reading = watch(reader.follow(taskId), { deadlineMs });
          await reading.until('the records', ({ values }) => values.length >= 3);
          const shown = reading.values.flatMap((signal) => (signal.type === 'record' ? signal.record : []));
          assert.deepEqual(shown, records);
          reading.stop();
        }
        await owner.append(note(2));
      },
    },
    {
      title: 'a follower that was there before gets them, in order',
      async run(subject) {
        const { peer, deadlineMs } = subject;
        const taskId = await begin(subject);
        const reading = watch(peer.follow(taskId), { deadlineMs });
        await reading.until('the records', ({ values }) => values.length >= 1);
        const contextId = `context-of-${taskId}`;
        await subject.store.messages?.append(contextId, 'one', stored);
        const page = await subject.store.messages?.list(contextId, { order: 'newest-first', limit: 1 });
        const owner = await takeOver(subject, taskId);
        const view = { contextId, last: page?.messages[0]?.id ?? '', parts: [summary, [2, 4] as const, own] };
        await owner.append(recordOf(view));
        await owner.append(note('next'));
        await reading.until('the records', ({ values }) => values.length >= 3);
        const shown = reading.values.flatMap((signal) => (signal.type === 'record' ? signal.record : []));
        assert.deepEqual(givenIn(shown), given);
        assert.deepEqual(
          shown.map(({ seq }) => seq),
          [1, 2, 3],
        );
        reading.stop();
      },
    },
    {
      title: 'once their context was deleted, also if it was written again, as many others stand in their place',
      async run(subject) {
        const { store, peer } = subject;
        const { taskId, contextId } = await referring(subject);
        await store.messages?.delete(contextId);
        const before = foldRecords(await peer.read(taskId));
        await store.messages?.append(contextId, 'other', stored);
        for (const state of [before, foldRecords(await peer.read(taskId))]) {
          assert.equal(state.messages.length, given.length);
          assert.deepEqual([state.messages[0], state.messages.at(-1)], [summary, own]);
          if (!store.messages || store.refersTo?.(store.messages) !== true) assert.deepEqual(state.messages, given);
          else {
            assert.equal(state.turn.deleted, true);
            assert.equal(state.messages.filter((message) => stored.includes(message)).length, 0);
          }
        }
        await refuses('NOT_FOUND', () => peer.read(subject.newTaskId()));
      },
    },
  ],
};
