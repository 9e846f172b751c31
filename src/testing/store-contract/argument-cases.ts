import assert from 'node:assert/strict';
import type { Lease, TaskStateStore } from '../../core/contracts/index.ts';
import type { JournalRecord, Stamped, TurnStarted } from '../../core/journal/index.ts';
import {
  notNumber,
  notOptions,
  notText,
  refusesWrongArguments,
  type WrongArguments,
} from '../contract/wrong-arguments.ts';
import type { ContractGroup } from './contract-case.ts';
import { beginHeld, startRecord } from './journal-fixture.ts';

export const argumentCases: ContractGroup = {
  name: 'arguments',
  cases: [
    {
      title: 'H-07 arguments of another type are refused as INVALID_INPUT, and change nothing',
      async run(subject) {
        const { store } = subject;
        const { taskId, owner } = await beginHeld(subject);
        const { lease } = owner;
        const before = await store.read(taskId);
        const calls = wrongCalls({ taskId, lease, record: before[0], started: startRecord(subject.newTaskId()) });
        await refusesWrongArguments(store, calls, subject.deadlineMs);
        assert.deepEqual(await store.read(taskId), before);
        await store.renew(lease);
      },
    },
  ],
};

interface Given {
  readonly taskId: string;
  readonly lease: Lease;
  readonly record: JournalRecord | undefined;
  readonly started: Stamped<TurnStarted>;
}

/** For each method what it must refuse. */
function wrongCalls({ taskId, lease, record, started }: Given): WrongArguments<TaskStateStore> {
  const badLeases = [null, 'x', { ...lease, taskId: 7 }, { ...lease, owner: null }, { ...lease, epoch: '1' }];
  const status = { status: 'working', barrier: true };
  return {
    create: [...notText.map((id) => [id, started]), ['t1'], ['t1', null], ['t1', 'started'], ['t1', { type: 'x' }]],
    acquire: [
      ...notText.flatMap((bad) => [
        [bad, 'o', 1_000],
        [taskId, bad, 1_000],
      ]),
      ...notNumber.map((bad) => [taskId, 'o', bad]),
      [taskId, 'o', 1_000, 'parent'],
      [taskId, 'o', 1_000, { taskId: 'parent' }],
    ],
    append: [
      ...badLeases.map((bad) => [bad, [record], status]),
      [lease, record, status],
      [lease, [null], status],
      [lease, [{ ...record, seq: '2' }], status],
      [lease, [record]],
      [lease, [record], 'working'],
    ],
    renew: badLeases.map((bad) => [bad]),
    release: badLeases.map((bad) => [bad]),
    breakLease: notText.map((bad) => [bad]),
    commands: notText.map((bad) => [bad]),
    post: [...notText.map((bad) => [bad, { id: 'c', type: 'cancel' }]), [taskId], [taskId, 'cancel'], [taskId, {}]],
    read: [...notText.map((bad) => [bad]), ...notOptions.map((bad) => [taskId, bad]), [taskId, { from: '1' }]],
    follow: [...notText.map((bad) => [bad]), ...notOptions.map((bad) => [taskId, bad]), [taskId, { from: '1' }]],
    load: notText.map((bad) => [bad]),
    describe: notText.map((bad) => [bad]),
    list: [
      ...notOptions.map((bad) => [bad]),
      [{ contextId: 7 }],
      [{ limit: '5' }],
      [{ roots: 'yes' }],
      [{ parentTaskId: 7 }],
      [{ byStatus: 'group' }],
      [{ byStatus: { group: 7 } }],
      [{ byStatus: {} }],
      [{ byStatus: { group: 'g', after: 't1' } }],
      [{ byStatus: { group: 'g', behind: 't1' } }],
    ],
    delete: notText.map((bad) => [bad]),
  };
}
