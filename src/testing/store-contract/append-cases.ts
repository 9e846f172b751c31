import assert from 'node:assert/strict';
import { AgentLoopError } from '../../core/contracts/index.ts';
import type { JournalRecord } from '../../core/journal/index.ts';
import type { ContractGroup } from './contract-case.ts';
import { refuses } from './expectations.ts';
import { begin, beginHeld, done, expire, note, Owner, seqsOf, startedAt, takeOver, upTo } from './journal-fixture.ts';

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
