import assert from 'node:assert/strict';
import { journalSchema } from '../../core/journal/index.ts';
import type { ContractGroup } from './contract-case.ts';
import { failsWith, refuses, watch } from './expectations.ts';
import { begin, note, Owner, seqsOf, startRecord } from './journal-fixture.ts';

const badIds = ['', ' ', 'a b', '}', '{x}', 'a/b', 'ä', 'a\n', 'a\0', 'x'.repeat(129)];
const goodIds = ['x', '0', '_', '.', ':', '-', 'A-z_0.9:tail'];

export const createCases: ContractGroup = {
  name: 'create',
  cases: [
    {
      title: 'writes the given record as the first of a new journal',
      async run({ store, peer, newTaskId }) {
        const taskId = newTaskId();
        const started = startRecord(taskId);
        const answer = await store.create(taskId, started);
        assert.equal(answer.created, true);
        assert.deepEqual(answer.started, started);
        assert.deepEqual(await peer.read(taskId), [started]);
      },
    },
    {
      title: 'the same id again writes nothing and answers with the record that stands',
      async run({ store, peer, newTaskId }) {
        const taskId = newTaskId();
        const first = startRecord(taskId, { text: 'first' });
        await store.create(taskId, first);
        const again = await peer.create(taskId, startRecord(taskId, { text: 'second' }));
        assert.equal(again.created, false);
        assert.deepEqual(again.started, first);
        assert.deepEqual(await store.read(taskId), [first]);
      },
    },
    {
      title: 'the same id again leaves a lease and a longer journal alone',
      async run(subject) {
        const taskId = await begin(subject);
        const owner = await Owner.take(subject, taskId);
        await owner.append(note('kept'));
        await subject.peer.create(taskId, startRecord(taskId));
        await owner.append(note('also kept'));
        assert.deepEqual(await seqsOf(subject.store.read(taskId)), [1, 2, 3]);
      },
    },
    {
      title: 'of several at the same time exactly one creates',
      async run({ store, peer, newTaskId }) {
        const taskId = newTaskId();
        const texts = ['a', 'b', 'c', 'd', 'e', 'f'];
        const answers = await Promise.all(
          texts.map(async (text, index) => (index % 2 ? store : peer).create(taskId, startRecord(taskId, { text }))),
        );
        const winner = answers.filter((answer) => answer.created);
        assert.equal(winner.length, 1);
        for (const answer of answers) assert.deepEqual(answer.started, winner[0]?.started);
      },
    },
    {
      title: 'a task id outside the pattern is refused as INVALID_INPUT',
      async run({ store }) {
        for (const taskId of badIds) await refuses('INVALID_INPUT', () => store.create(taskId, startRecord(taskId)));
      },
    },
    {
      title: 'every form of a task id that the pattern allows is taken',
      async run({ store, newTaskId }) {
        const unique = newTaskId();
        const ids = [...goodIds.map((id) => `${id}${unique}`), unique.padEnd(128, 'x')];
        for (const taskId of ids) {
          assert.equal((await store.create(taskId, startRecord(taskId))).created, true);
          assert.equal((await store.load(taskId))?.taskId, taskId);
        }
      },
    },
    {
      title: 'a journal of an older schema is read, followed and continued',
      async run(subject) {
        const { store, peer } = subject;
        const taskId = await begin(subject, { schema: 1 });
        const owner = await Owner.take(subject, taskId);
        await owner.append(note('continued'));
        assert.deepEqual(await seqsOf(peer.read(taskId)), [1, 2]);
        assert.equal((await peer.load(taskId))?.taskId, taskId);
        const follower = watch(store.follow(taskId), subject);
        await follower.until('two records', ({ values }) => values.length === 2);
        follower.stop();
      },
    },
    {
      title: 'a journal of a newer schema is refused as SCHEMA before anybody gets its lease or a record',
      async run(subject) {
        const { store } = subject;
        const taskId = await begin(subject, { schema: journalSchema + 1 });
        await refuses('SCHEMA', () => store.acquire(taskId, 'owner-a', subject.leaseMs));
        await refuses('SCHEMA', () => store.read(taskId));
        await refuses('SCHEMA', () => store.load(taskId));
        const follower = watch(store.follow(taskId), subject);
        await failsWith('SCHEMA', follower);
        assert.deepEqual(follower.values, []);
      },
    },
  ],
};
