import assert from 'node:assert/strict';
import { AgentLoopError } from '../../core/contracts/index.ts';
import { type JournalRecord, journalSchema } from '../../core/journal/index.ts';
import { failsWith, refuses, watch } from '../contract/define-contract.ts';
import {
  begin,
  beginHeld,
  type ContractGroup,
  done,
  expire,
  note,
  Owner,
  seqsOf,
  startedAt,
  startRecord,
  takeOver,
  upTo,
} from './journal-fixture.ts';

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

export const appendCases: ContractGroup = {
  name: 'append',
  cases: [
    {
      title: 'records come back as they were written, in order and without a gap',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        const written = [owner.stamp(note('one')), owner.stamp(note('two'), note('three')), owner.stamp(note('four'))];
        for (const records of written) await owner.send(records);
        const read = await subject.peer.read(taskId);
        assert.deepEqual(read.slice(1), written.flat());
        assert.deepEqual(await seqsOf(read), upTo(5));
      },
    },
    {
      title: 'pipelined appends apply in the order they were sent',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        await Promise.all(upTo(100).map((number) => owner.send(owner.stamp(note(number)), number % 10 === 0)));
        const read = await subject.peer.read(taskId);
        assert.deepEqual(await seqsOf(read), upTo(101));
        assert.deepEqual(read.slice(1).map(dataOf), upTo(100));
      },
    },
    {
      title: 'appends with and without a barrier stand in one journal',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        await owner.send(owner.stamp(note('lazy')), false);
        await owner.send(owner.stamp(note('barrier')), true);
        await owner.send(owner.stamp(note('lazy again')), false);
        assert.deepEqual(await seqsOf(subject.store.read(taskId)), upTo(4));
      },
    },
    {
      title: 'the same append sent again answers as before and doubles nothing',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        const first = owner.stamp(note('one'), note('two'));
        await owner.send(first);
        await owner.send(first);
        await owner.append(note('three'));
        await owner.send(first);
        await owner.append(note('four'));
        const read = await subject.store.read(taskId);
        assert.deepEqual(await seqsOf(read), upTo(5));
        assert.deepEqual(read.slice(1).map(dataOf), ['one', 'two', 'three', 'four']);
      },
    },
    {
      title: 'pipelined appends sent again from a failed one on complete the journal',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        const batches = upTo(6).map((number) => owner.stamp(note(number)));
        await Promise.all(batches.slice(0, 4).map((records) => owner.send(records, false)));
        await Promise.all(batches.slice(2).map((records) => owner.send(records, false)));
        const read = await subject.store.read(taskId);
        assert.deepEqual(await seqsOf(read), upTo(7));
        assert.deepEqual(read.slice(1).map(dataOf), upTo(6));
      },
    },
    {
      title: 'records that leave a gap are REWOUND, and so are appends pipelined after them',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        const [lost, next, last] = [owner.stamp(note('lost')), owner.stamp(note('next')), owner.stamp(note('last'))];
        const attempts = await Promise.allSettled([owner.send(next, false), owner.send(last, false)]);
        for (const attempt of attempts) await refusedWith('REWOUND', attempt);
        assert.deepEqual(await seqsOf(subject.store.read(taskId)), [1]);
        for (const records of [lost, next, last]) await owner.send(records);
        assert.deepEqual(await seqsOf(subject.store.read(taskId)), upTo(4));
      },
    },
    {
      title: 'records of an earlier owner, sent by the next one, are REWOUND: they are not its own',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        await owner.append(note('two'), note('three'));
        await expire(subject);
        const next = await takeOver(subject, taskId);
        for (const seqs of [[3], [2, 3], [3, 4]])
          await refuses('REWOUND', () => next.send(seqs.map((seq) => next.stampAt(seq, note('other')))));
        await next.append(note('four'));
        assert.deepEqual((await subject.store.read(taskId)).slice(1).map(dataOf), ['two', 'three', 'four']);
      },
    },
    {
      title: 'an append is written whole or not at all',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        await refuses('REWOUND', () =>
          owner.send([owner.stampAt(2, note('fits')), owner.stampAt(4, note('does not'))]),
        );
        assert.deepEqual(await seqsOf(subject.store.read(taskId)), [1]);
        await owner.append(note('two'), note('three'));
        assert.deepEqual(await seqsOf(subject.store.read(taskId)), upTo(3));
      },
    },
    {
      title: 'an owner that was overtaken is FENCED and writes nothing',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        await expire(subject);
        const next = await takeOver(subject, taskId);
        const error = await refuses('FENCED', () => owner.append(note('too late')));
        assert.equal(error.taskId, taskId);
        await next.append(note('continues'));
        assert.deepEqual((await subject.store.read(taskId)).slice(1).map(dataOf), ['continues']);
      },
    },
    {
      title:
        'being overtaken comes before every other answer: a duplicate, a gap and a turn that has ended are FENCED too',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        const applied = owner.stamp(note('applied'));
        await owner.send(applied);
        await expire(subject);
        const next = await takeOver(subject, taskId);
        await refuses('FENCED', () => owner.send(applied));
        await refuses('FENCED', () => owner.send([owner.stampAt(9, note('gap'))]));
        await next.append(done);
        await refuses('FENCED', () => owner.append(note('after the end')));
      },
    },
    {
      title: 'a lease that was given back, or an epoch under another name, appends nothing',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        const stranger = new Owner(subject.store, { ...owner.lease, owner: 'stranger' });
        await refuses('FENCED', () => stranger.append(note('not mine')));
        await subject.store.release(owner.lease);
        await refuses('FENCED', () => owner.append(note('given back')));
        assert.deepEqual(await seqsOf(subject.store.read(taskId)), [1]);
      },
    },
    {
      title: 'a lease that ran out but that nobody took still appends',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        await expire(subject);
        await owner.append(note('late, but nobody else came'));
        assert.deepEqual(await seqsOf(subject.store.read(taskId)), upTo(2));
      },
    },
    {
      title: 'epochs in the journal never go back over many take-overs',
      async run(subject) {
        const taskId = await begin(subject);
        for (const turn of upTo(6)) {
          const store = turn % 2 ? subject.store : subject.peer;
          const owner = await Owner.take(subject, taskId, { store, owner: `owner-${turn % 2}` });
          await owner.append(note(turn));
          await expire(subject);
        }
        const epochs = (await subject.store.read(taskId)).map((record) => record.epoch);
        assert.deepEqual(
          epochs,
          epochs.toSorted((a, b) => a - b),
        );
        assert.equal(new Set(epochs).size, 7);
      },
    },
    {
      title: 'after the end an append, a lease and a command are refused as TERMINAL',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        await owner.append(note('last words'), done);
        await refuses('TERMINAL', () => owner.append(note('after the end')));
        await refuses('TERMINAL', () => takeOver(subject, taskId));
        await refuses('TERMINAL', () => subject.peer.post(taskId, { id: 'c1', type: 'cancel' }));
        await subject.store.release(owner.lease);
        await refuses('TERMINAL', () => takeOver(subject, taskId));
        assert.deepEqual(await seqsOf(subject.store.read(taskId)), upTo(3));
      },
    },
    {
      title: 'the append that ended the turn, sent again, answers as before',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        const end = owner.stamp(note('last words'), done);
        await owner.send(end);
        await owner.send(end);
        assert.deepEqual(await seqsOf(subject.store.read(taskId)), upTo(3));
      },
    },
    {
      title: 'where there is no task, an append says NOT_FOUND',
      async run(subject) {
        const lease = { taskId: subject.newTaskId(), owner: 'owner-a', epoch: 1, seq: 1, leaseMs: subject.leaseMs };
        await refuses('NOT_FOUND', () => new Owner(subject.store, lease).append(note('nowhere')));
      },
    },
    {
      title: 'a record of an unknown type is refused, at the append or at every read',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        const unknown: JournalRecord = JSON.parse(
          JSON.stringify({ ...owner.stampAt(2, note('?')), type: 'later.thing' }),
        );
        const attempt = await settled(() => owner.send([unknown]));
        if (attempt.status === 'rejected') {
          await refusedWith('POISON', attempt);
          await owner.append(note('nothing was written'));
        } else {
          await refusesToRead(() => subject.store.read(taskId));
          await refusesToRead(() => subject.store.load(taskId));
        }
      },
    },
    {
      title: 'a record of an unknown type in the journal is refused by read and load',
      needs: 'plantUnknownRecord',
      async run(subject) {
        const { taskId } = await beginHeld(subject);
        await subject.plantUnknownRecord?.(taskId);
        await refusesToRead(() => subject.store.read(taskId));
        await refusesToRead(() => subject.store.load(taskId));
      },
    },
    {
      title: 'a record of 1 MB and any text come back as they were',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        const payloads = [
          'x'.repeat(1024 * 1024),
          'ä€😀\u0000\u2028\u2029"\\\n\r\t{}',
          { nested: [{ empty: {}, list: [], nothing: null, no: false, zero: 0, small: 1e-9, big: 2 ** 53 }] },
          '',
        ];
        for (const payload of payloads) await owner.append(note(payload));
        const read = await subject.peer.read(taskId);
        assert.deepEqual(read.slice(1).map(dataOf), payloads);
        assert.equal(read[1]?.at, startedAt + 2);
      },
    },
  ],
};

function dataOf(record: JournalRecord): unknown {
  return 'data' in record ? record.data : undefined;
}

async function settled(action: () => Promise<void>): Promise<PromiseSettledResult<void>> {
  const [result] = await Promise.allSettled([action()]);
  return result;
}

function refusedWith(code: 'REWOUND' | 'POISON', attempt: PromiseSettledResult<void>): Promise<AgentLoopError> {
  return refuses(code, () => (attempt.status === 'rejected' ? Promise.reject(attempt.reason) : undefined));
}

/** A newer version may have written the record (`SCHEMA`) or nobody this library knows (`POISON`): a store cannot tell. */
async function refusesToRead(action: () => unknown): Promise<void> {
  try {
    await action();
  } catch (error) {
    assert(AgentLoopError.isInstance(error), 'expected an AgentLoopError');
    assert(error.code === 'POISON' || error.code === 'SCHEMA', `expected POISON or SCHEMA, got ${error.code}`);
    return;
  }
  assert.fail('a record of an unknown type was read');
}
