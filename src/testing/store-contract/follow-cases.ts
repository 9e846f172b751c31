import assert from 'node:assert/strict';
import type { FollowSignal } from '../../core/contracts/index.ts';
import { foldRecords, toPersisted } from '../../core/journal/index.ts';
import { failsWith, type Reading, refuses, watch } from '../contract/define-contract.ts';
import { openResources } from '../ledger.ts';
import {
  begin,
  beginHeld,
  type ContractGroup,
  done,
  expire,
  note,
  Owner,
  type StoreUnderTest,
  seqsOf,
  startRecord,
  takeOver,
  upTo,
  wholeTurn,
} from './journal-fixture.ts';

export const readCases: ContractGroup = {
  name: 'read and load',
  cases: [
    {
      title: 'read gives the records from a seq on',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        await owner.append(note('two'), note('three'), note('four'));
        const { store } = subject;
        assert.deepEqual(await seqsOf(store.read(taskId, { from: 1 })), upTo(4));
        assert.deepEqual(await seqsOf(store.read(taskId, { from: 3 })), [3, 4]);
        assert.deepEqual(await seqsOf(store.read(taskId, { from: 4 })), [4]);
        assert.deepEqual(await seqsOf(store.read(taskId, { from: 5 })), []);
        assert.deepEqual(await seqsOf(store.read(taskId, { from: 99 })), []);
      },
    },
    {
      title: 'what was read does not change when the journal grows',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        const before = await subject.store.read(taskId);
        await owner.append(note('later'));
        assert.deepEqual(await seqsOf(before), [1]);
      },
    },
    {
      title: 'where there is no task, read says NOT_FOUND and load gives null',
      async run({ store, newTaskId }) {
        const taskId = newTaskId();
        await refuses('NOT_FOUND', () => store.read(taskId));
        assert.equal(await store.load(taskId), null);
      },
    },
    {
      title: 'load is the fold of the records, after each append of a turn',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        for (const records of wholeTurn) {
          await owner.append(...records);
          const folded = toPersisted(foldRecords(await subject.peer.read(taskId)));
          assert.deepEqual(await subject.peer.load(taskId), folded);
        }
        const ended = await subject.store.load(taskId);
        assert.equal(ended?.status, 'completed');
        assert.equal(ended?.finalMessage, 'Two.');
        assert.deepEqual(ended?.usage, { promptTokens: 9, completionTokens: 5, totalTokens: 14 });
      },
    },
    {
      title: 'after the end the journal stays, until delete',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        for (const records of wholeTurn) await owner.append(...records);
        await subject.store.release(owner.lease);
        assert.deepEqual(await seqsOf(subject.peer.read(taskId)), upTo(8));
        await subject.store.delete(taskId);
        await refuses('NOT_FOUND', () => subject.peer.read(taskId));
        assert.equal(await subject.peer.load(taskId), null);
      },
    },
    {
      title: 'the owner of a deleted task gets NOT_FOUND at its next append',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        await subject.peer.delete(taskId);
        await refuses('NOT_FOUND', () => owner.append(note('nowhere')));
        await refuses('NOT_FOUND', () => subject.store.renew(owner.lease));
        await subject.store.release(owner.lease);
        assert.equal(await subject.store.load(taskId), null);
      },
    },
    {
      title: 'deleting what is not there does nothing',
      async run(subject) {
        await subject.store.delete(subject.newTaskId());
        const taskId = await begin(subject);
        await subject.store.delete(taskId);
        await subject.store.delete(taskId);
      },
    },
    {
      title: 'a deleted task can be created again, and its old owner cannot write into the new one',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        await owner.append(note('old'));
        await subject.store.delete(taskId);
        assert.equal((await subject.store.create(taskId, startRecord(taskId))).created, true);
        await refuses('FENCED', () => owner.append(note('old again')));
        const next = await Owner.take(subject, taskId);
        await refuses('FENCED', () => owner.append(note('under the same name')));
        await next.append(note('new'));
        assert.deepEqual(await seqsOf(subject.store.read(taskId)), upTo(2));
      },
    },
  ],
};

type Following = Reading<FollowSignal>;

export const followCases: ContractGroup = {
  name: 'follow',
  cases: [
    {
      title: 'gives the records so far, then each new one, and completes after the terminal one',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        await owner.append(note('before'));
        const follower = follow(subject, taskId);
        await reaches(follower, 2);
        await owner.append(note('live'));
        await reaches(follower, 3);
        await owner.append(note('last'), done);
        await completes(follower);
        assert.deepEqual(seqs(follower), upTo(5));
        assert.deepEqual(records(follower), await subject.store.read(taskId));
      },
    },
    {
      title: 'begins at the seq asked for, also at one that is still to come',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        await owner.append(note('two'), note('three'));
        const from3 = follow(subject, taskId, 3);
        const from4 = follow(subject, taskId, 4);
        const from6 = follow(subject, taskId, 6);
        for (const number of [4, 5, 6]) await owner.append(note(number));
        await owner.append(done);
        await Promise.all([from3, from4, from6].map(completes));
        assert.deepEqual(seqs(from3), [3, 4, 5, 6, 7]);
        assert.deepEqual(seqs(from4), [4, 5, 6, 7]);
        assert.deepEqual(seqs(from6), [6, 7]);
      },
    },
    {
      title: 'of a turn that has ended gives the records and completes, also from beyond the end',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        for (const batch of wholeTurn) await owner.append(...batch);
        const whole = follow(subject, taskId);
        const beyond = follow(subject, taskId, 99);
        await Promise.all([whole, beyond].map(completes));
        assert.deepEqual(seqs(whole), upTo(8));
        assert.deepEqual(beyond.values, []);
      },
    },
    {
      title: 'readers that join while another writes miss nothing and see nothing twice',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        const readers: { readonly from: number; readonly follower: Following }[] = [];
        for (const number of upTo(60)) {
          const sent = owner.append(note(number), note(number));
          const from = [1, number, 2 * number][number % 3] ?? 1;
          if (number % 4 === 0) readers.push({ from, follower: follow(subject, taskId, from) });
          await sent;
        }
        await owner.append(done);
        await Promise.all(readers.map(({ follower }) => completes(follower)));
        for (const { from, follower } of readers) assert.deepEqual(seqs(follower), upTo(122).slice(from - 1));
      },
    },
    {
      title: 'continues across a takeover, in order and with the new epoch',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        const follower = follow(subject, taskId);
        await owner.append(note('a'));
        await expire(subject);
        const next = await takeOver(subject, taskId);
        await owner.append(note('too late')).catch(() => undefined);
        await next.append(note('b'), done);
        await completes(follower);
        assert.deepEqual(seqs(follower), upTo(4));
        assert.deepEqual(
          records(follower).map((record) => record.epoch),
          [0, owner.lease.epoch, next.lease.epoch, next.lease.epoch],
        );
      },
    },
    {
      title: 'an append sent again, or refused, shows nothing',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        const follower = follow(subject, taskId);
        const first = owner.stamp(note('once'));
        await owner.send(first);
        await owner.send(first);
        await owner.send([owner.stampAt(9, note('gap'))]).catch(() => undefined);
        await owner.append(done);
        await completes(follower);
        assert.deepEqual(seqs(follower), upTo(3));
      },
    },
    {
      title: 'a reader may write from inside its handler, and every reader sees one order',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        const writes: Promise<void>[] = [];
        const writer = watch(subject.store.follow(taskId), {
          deadlineMs: subject.deadlineMs,
          onValue: (signal) => {
            if (signal.type !== 'record') return;
            const { seq } = signal.record;
            if (seq <= 10 && seq % 2 === 0) writes.push(owner.append(note('reply'), note('reply')));
            if (seq === 11) writes.push(owner.append(done));
          },
        });
        const other = follow(subject, taskId);
        await owner.append(note('first'));
        await Promise.all([writer, other].map(completes));
        await Promise.all(writes);
        assert.deepEqual(seqs(writer), upTo(13));
        assert.deepEqual(seqs(other), upTo(13));
      },
    },
    {
      title: 'a subscriber that unsubscribes inside its handler gets nothing more, and the others continue',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        const leaver: Following = watch(subject.store.follow(taskId), {
          deadlineMs: subject.deadlineMs,
          onValue: (signal) => {
            if (signal.type === 'record' && signal.record.seq === 3) leaver.stop();
          },
        });
        const other = follow(subject, taskId);
        await reaches(other, 1);
        await owner.append(note('two'));
        await owner.append(note('three'), note('four'));
        await owner.append(done);
        await completes(other);
        await leaver.until('three records', () => leaver.values.length === 3);
        assert.deepEqual(seqs(leaver), upTo(3));
        assert.deepEqual(seqs(other), upTo(5));
      },
    },
    {
      title: 'nothing happens before a subscription, and each subscription starts at its own seq again',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        const source = subject.peer.follow(taskId, { from: 2 });
        await owner.append(note('two'));
        const first = watch(source, subject);
        await reaches(first, 1);
        await owner.append(note('three'), done);
        const second = watch(source, subject);
        await Promise.all([first, second].map(completes));
        assert.deepEqual(seqs(first), [2, 3, 4]);
        assert.deepEqual(seqs(second), [2, 3, 4]);
      },
    },
    {
      title: 'a reader that left keeps nothing open',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        const visit = async (): Promise<void> => {
          const readers = [
            follow(subject, taskId),
            follow(subject, taskId, 2),
            watch(subject.store.commands(taskId), subject),
          ];
          await readers[0]?.until('the first record', ({ values }) => values.length > 0);
          for (const reader of readers) reader.stop();
        };
        await visit();
        const ledger = openResources();
        for (const _ of upTo(5)) await visit();
        assert.deepEqual(await ledger.settle({ withinMs: subject.deadlineMs }), {});
        await owner.append(note('nobody follows this'));
      },
    },
    {
      title: 'where there is no task, errors with NOT_FOUND',
      async run(subject) {
        const follower = follow(subject, subject.newTaskId());
        await failsWith('NOT_FOUND', follower);
        assert.deepEqual(follower.values, []);
      },
    },
    {
      title: 'when the task is deleted, errors with NOT_FOUND after what it has shown',
      async run(subject) {
        const taskId = await begin(subject);
        const follower = follow(subject, taskId);
        await reaches(follower, 1);
        await subject.store.delete(taskId);
        await failsWith('NOT_FOUND', follower);
        assert.deepEqual(seqs(follower), [1]);
      },
    },
    {
      title: 'a long journal arrives whole',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        for (const _ of upTo(40)) await owner.append(...upTo(50).map(note));
        const follower = follow(subject, taskId);
        await owner.append(done);
        await completes(follower);
        assert.deepEqual(seqs(follower), upTo(2002));
      },
    },
    {
      title: 'a reader of one task sees nothing of another',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        const other = await Owner.take(subject, await begin(subject));
        const follower = follow(subject, taskId);
        await other.append(note('elsewhere'), done);
        await owner.append(note('here'), done);
        await completes(follower);
        assert.deepEqual(records(follower), await subject.store.read(taskId));
      },
    },
  ],
};

function follow(subject: StoreUnderTest, taskId: string, from?: number): Following {
  return watch(subject.peer.follow(taskId, from === undefined ? {} : { from }), subject);
}

function records(follower: Following) {
  return follower.values.flatMap((signal) => (signal.type === 'record' ? [signal.record] : []));
}

function seqs(follower: Following): readonly number[] {
  return records(follower).map((record) => record.seq);
}

function reaches(follower: Following, count: number): Promise<void> {
  return follower.until(`${count} records`, () => records(follower).length >= count);
}

function completes(follower: Following): Promise<void> {
  return follower.until('the stream to complete', ({ completed }) => completed);
}
