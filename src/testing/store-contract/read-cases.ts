import assert from 'node:assert/strict';
import { foldRecords, toPersisted } from '../../core/journal/index.ts';
import type { ContractGroup } from './contract-case.ts';
import { refuses } from './expectations.ts';
import { begin, beginHeld, note, Owner, seqsOf, startRecord, upTo, wholeTurn } from './journal-fixture.ts';

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
