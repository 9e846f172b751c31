import assert from 'node:assert/strict';
import type { TaskQuery, TaskSummary } from '../../core/contracts/index.ts';
import { eventually } from '../contract/define-contract.ts';
import {
  begin,
  type ContractGroup,
  done,
  expire,
  note,
  Owner,
  type StoreUnderTest,
  startedAt,
  suspended,
  upTo,
} from './journal-fixture.ts';

export const listCases: ContractGroup = {
  name: 'list and check',
  cases: [
    {
      title: 'list says of a task what its journal says',
      async run(subject) {
        const contextId = subject.newTaskId();
        const taskId = await begin(subject, { contextId });
        const created = new Date(startedAt).toISOString();
        const fresh = { taskId, contextId, agentId: 'contract-agent', createdAt: created };
        await lists(subject, { contextId }, [
          { ...fresh, state: 'submitted', seq: 1, updatedAt: created, statusAt: created, held: false },
        ]);
        const owner = await Owner.take(subject, taskId);
        await owner.append(note('two'), note('three'));
        const updatedAt = new Date(startedAt + 3).toISOString();
        await lists(subject, { contextId }, [
          { ...fresh, state: 'working', seq: 3, updatedAt, statusAt: created, held: true },
        ]);
        await owner.append(done);
        const ended = new Date(startedAt + 4).toISOString();
        await lists(subject, { contextId }, [
          { ...fresh, state: 'completed', seq: 4, updatedAt: ended, statusAt: ended, held: true },
        ]);
      },
    },
    {
      title: 'a store that counts bytes counts those of records and of commands, each once',
      async run(subject) {
        const contextId = subject.newTaskId();
        const taskId = await begin(subject, { contextId });
        const bytesOf = async () => (await subject.peer.list({ contextId }))[0]?.bytes;
        const first = await bytesOf();
        if (first === undefined) return;
        const journal = async () =>
          (await subject.store.read(taskId)).reduce((sum, record) => sum + JSON.stringify(record).length, 0);
        assert(Math.abs(first - (await journal())) < 100, `${first} bytes of a journal of ${await journal()}`);
        const owner = await Owner.take(subject, taskId);
        await owner.append(note('x'.repeat(10_000)), note('y'.repeat(300_000)));
        const second = (await bytesOf()) ?? 0;
        assert(Math.abs(second - (await journal())) < 200, `${second} bytes of a journal of ${await journal()}`);
        const command = { id: 'c', type: 'cancel', reason: 'z'.repeat(5_000) } as const;
        await subject.store.post(taskId, command);
        await subject.store.post(taskId, command);
        const third = (await bytesOf()) ?? 0;
        assert(Math.abs(third - second - JSON.stringify(command).length) < 100, `${third - second} bytes of a command`);
        await owner.append(done);
        assert(((await bytesOf()) ?? 0) > third);
      },
    },
    {
      title: 'the task created last comes first, whatever was written since',
      async run(subject) {
        const contextId = subject.newTaskId();
        const taskIds = await beginMany(subject, contextId, 5);
        const oldest = await Owner.take(subject, taskIds[0] ?? '');
        await oldest.append(note('the oldest is written last'));
        await listsIds(subject, { contextId }, taskIds.toReversed());
      },
    },
    {
      title: 'list filters by state and by context, and by both',
      async run(subject) {
        const [contextId, other] = [subject.newTaskId(), subject.newTaskId()];
        const [waits, works, ends] = await beginMany(subject, contextId, 3);
        const [elsewhere] = await beginMany(subject, other, 1);
        assert(waits && works && ends && elsewhere);
        await (await Owner.take(subject, works)).append(note('working'));
        await (await Owner.take(subject, ends)).append(done);
        await listsIds(subject, { contextId, state: 'submitted' }, [waits]);
        await listsIds(subject, { contextId, state: 'working' }, [works]);
        await listsIds(subject, { contextId, state: 'completed' }, [ends]);
        await listsIds(subject, { contextId, state: 'failed' }, []);
        await listsIds(subject, { contextId: other }, [elsewhere]);
        await listsIds(subject, { contextId: subject.newTaskId() }, []);
        await eventually(subject.deadlineMs, async () => {
          const completed = await subject.peer.list({ state: 'completed' });
          assert(completed.some(({ taskId }) => taskId === ends));
          assert(completed.every(({ state }) => state === 'completed'));
        });
      },
    },
    {
      title: 'list gives the tasks of a group, most recent status first, in pages after a position',
      async run(subject) {
        const group = subject.newTaskId();
        const oldest = await begin(subject, { contextId: `${group}:a`, at: startedAt });
        const middle = await begin(subject, { contextId: `${group}:b`, at: startedAt + 1_000 });
        const newest = await begin(subject, { contextId: `${group}:a`, at: startedAt + 2_000 });
        await begin(subject, { contextId: `${group}x:a`, at: startedAt + 3_000 });
        await begin(subject, { contextId: group, at: startedAt + 4_000 });
        await listsIds(subject, { byStatus: { group } }, [newest, middle, oldest]);
        const owner = await Owner.take(subject, middle);
        await owner.append(note('the status is as it was'));
        await listsIds(subject, { byStatus: { group } }, [newest, middle, oldest]);
        const last = await Owner.take(subject, oldest);
        await last.send(last.stamp(done).map((record) => ({ ...record, at: startedAt + 5_000 })));
        await listsIds(subject, { byStatus: { group } }, [oldest, newest, middle]);
        await listsIds(subject, { byStatus: { group }, limit: 2 }, [oldest, newest]);
        const [first] = await subject.peer.list({ byStatus: { group }, limit: 1 });
        assert(first);
        await listsIds(subject, { byStatus: { group, after: first } }, [newest, middle]);
        const since = new Date(startedAt + 2_000).toISOString();
        await listsIds(subject, { byStatus: { group, since } }, [oldest, newest]);
        await listsIds(subject, { byStatus: { group }, contextId: `${group}:a` }, [oldest, newest]);
        await listsIds(subject, { byStatus: { group }, state: 'completed' }, [oldest]);
        await subject.store.delete(newest);
        await listsIds(subject, { byStatus: { group } }, [oldest, middle]);
      },
    },
    {
      title: 'tasks of a group with the same status time are sorted by id, descending, also over pages',
      async run(subject) {
        const contextId = `${subject.newTaskId()}:c`;
        const group = contextId.slice(0, -2);
        const taskIds: string[] = [];
        for (const _ of upTo(120)) taskIds.push(await begin(subject, { contextId, at: startedAt }));
        const sorted = taskIds.sort().reverse();
        await listsIds(subject, { byStatus: { group }, limit: 500 }, sorted);
        const statusAt = new Date(startedAt).toISOString();
        const after = { statusAt, taskId: sorted[104] ?? '' };
        await listsIds(subject, { byStatus: { group, after }, limit: 10 }, sorted.slice(105, 115));
      },
    },
    {
      title: 'list gives 50 unless told how many',
      async run(subject) {
        const contextId = subject.newTaskId();
        const newestFirst = (await beginMany(subject, contextId, 53)).toReversed();
        await listsIds(subject, { contextId }, newestFirst.slice(0, 50));
        await listsIds(subject, { contextId, limit: 3 }, newestFirst.slice(0, 3));
        await listsIds(subject, { contextId, limit: 500 }, newestFirst);
      },
    },
    {
      title: 'V-21 list continues after a task, in pages, also of a state and a context that it is not of',
      async run(subject) {
        const [contextId, other] = [subject.newTaskId(), subject.newTaskId()];
        const taskIds: string[] = [];
        // Two of each time.
        for (const number of upTo(7)) taskIds.push(await begin(subject, { contextId, at: startedAt + (number >> 1) }));
        const elsewhere = await begin(subject, { contextId: other, at: startedAt + 10_000 });
        await eventually(subject.deadlineMs, async () => assert.equal((await ids(subject, { contextId })).length, 7));
        const all = await ids(subject, { contextId });
        for (const [index, taskId] of all.entries()) {
          await listsIds(subject, { contextId, afterTaskId: taskId }, all.slice(index + 1));
          await listsIds(subject, { contextId, afterTaskId: taskId, limit: 2 }, all.slice(index + 1, index + 3));
        }
        await listsIds(subject, { contextId, afterTaskId: elsewhere, roots: true }, all);
        await listsIds(subject, { contextId: other, afterTaskId: all[0] ?? '' }, []);
        const works = all[3] ?? '';
        await (await Owner.take(subject, works)).append(note('working'));
        const submitted = all.filter((taskId) => taskId !== works);
        await listsIds(subject, { contextId, state: 'submitted', afterTaskId: works }, submitted.slice(3));
        await eventually(subject.deadlineMs, async () => {
          const found = await ids(subject, { state: 'submitted', afterTaskId: works, limit: 1_000 });
          assert.deepEqual(
            found.filter((taskId) => all.includes(taskId)),
            submitted.slice(3),
          );
        });
        await subject.store.delete(works);
        await eventually(subject.deadlineMs, async () => {
          await assert.rejects(async () => subject.peer.list({ afterTaskId: works }), { code: 'NOT_FOUND' });
        });
      },
    },
    {
      title: 'T-08 list says of a child turn which turn is its parent',
      async run(subject) {
        const contextId = subject.newTaskId();
        const root = await begin(subject, { contextId });
        const child = await begin(subject, { contextId, parent: root, at: startedAt + 1_000 });
        await listsParents(subject, { contextId }, [
          [child, root],
          [root, undefined],
        ]);
        await (await Owner.take(subject, child)).append(note('works'));
        await listsParents(subject, { contextId, state: 'working' }, [[child, root]]);
      },
    },
    {
      title: 'T-08 list of roots leaves child turns out, also of a state, a context and a group',
      async run(subject) {
        const group = subject.newTaskId();
        const contextId = `${group}:c`;
        const [first, second] = await beginMany(subject, contextId, 2);
        assert(first && second);
        const child = await begin(subject, { contextId, parent: first, at: startedAt + 60_000 });
        const works = await begin(subject, { contextId, parent: child, at: startedAt + 61_000 });
        await (await Owner.take(subject, works)).append(note('works'));
        await (await Owner.take(subject, first)).append(note('works too'));
        await listsIds(subject, { contextId }, [works, child, second, first]);
        await listsIds(subject, { contextId, roots: false }, [works, child, second, first]);
        await listsIds(subject, { contextId, roots: true }, [second, first]);
        await listsIds(subject, { contextId, roots: true, limit: 1 }, [second]);
        await listsIds(subject, { contextId, roots: true, state: 'working' }, [first]);
        await listsIds(subject, { byStatus: { group }, roots: true }, [second, first]);
        await listsIds(subject, { byStatus: { group }, roots: true, limit: 1 }, [second]);
        await listsIds(subject, { byStatus: { group }, roots: true, state: 'submitted' }, [second]);
        await eventually(subject.deadlineMs, async () => {
          const ids = (await subject.peer.list({ roots: true, limit: 1_000 })).map(({ taskId }) => taskId);
          assert(ids.includes(first) && ids.includes(second), 'a root is missing');
          assert(!ids.includes(child) && !ids.includes(works), 'a child turn is listed');
        });
        await subject.store.delete(child);
        await listsIds(subject, { contextId }, [works, second, first]);
      },
    },
    {
      title: 'T-08 list gives the child turns of a turn, however many other tasks of its context are newer',
      async run(subject) {
        const contextId = subject.newTaskId();
        const [root, other] = await beginMany(subject, contextId, 2);
        assert(root && other);
        const first = await begin(subject, { contextId, parent: root });
        const second = await begin(subject, { contextId: `${contextId}-2`, parent: root, at: startedAt + 1_000 });
        const below = await begin(subject, { contextId, parent: first, at: startedAt + 2_000 });
        const newer = upTo(1_000).map((number) => begin(subject, { contextId, at: startedAt + 3_000 + number }));
        await Promise.all([...newer, begin(subject, { contextId, parent: other, at: startedAt + 5_000 })]);
        await listsIds(subject, { parentTaskId: root }, [second, first]);
        await listsIds(subject, { parentTaskId: root, limit: 1 }, [second]);
        await listsIds(subject, { parentTaskId: root, contextId }, [first]);
        await listsIds(subject, { parentTaskId: root, roots: true }, []);
        await listsIds(subject, { parentTaskId: first }, [below]);
        await listsIds(subject, { parentTaskId: below }, []);
        await (await Owner.take(subject, first)).append(suspended);
        await listsIds(subject, { parentTaskId: root, state: 'input-required' }, [first]);
        await listsIds(subject, { parentTaskId: root, runnable: true }, [second]);
        await subject.store.delete(second);
        await listsIds(subject, { parentTaskId: root }, [first]);
      },
    },
    {
      title: 'T-08 a page of roots is full, however many child turns there are between them',
      async run(subject) {
        const group = subject.newTaskId();
        const contextId = `${group}:c`;
        const [older, newer] = await beginMany(subject, contextId, 2);
        assert(older && newer);
        for (const number of upTo(130)) {
          await begin(subject, { contextId, parent: newer, at: startedAt + 1_000 + number });
        }
        await listsIds(subject, { contextId, roots: true, limit: 2 }, [newer, older]);
        await listsIds(subject, { byStatus: { group }, roots: true, limit: 2 }, [newer, older]);
        await listsIds(subject, { contextId, roots: true, state: 'submitted', limit: 2 }, [newer, older]);
      },
    },
    {
      title: 'held says whether a lease lasts: after acquire, not after release, not once it ran out',
      async run(subject) {
        const contextId = subject.newTaskId();
        const taskId = await begin(subject, { contextId });
        const first = await Owner.take(subject, taskId);
        await isHeld(subject, contextId, true);
        await subject.store.release(first.lease);
        await isHeld(subject, contextId, false);
        await Owner.take(subject, taskId);
        await isHeld(subject, contextId, true);
        await expire(subject);
        await isHeld(subject, contextId, false);
      },
    },
    {
      title: 'describe says of one task what its journal says, in every state, and null where there is none',
      async run(subject) {
        const contextId = subject.newTaskId();
        const taskId = await begin(subject, { contextId });
        const describes = (expected: Partial<TaskSummary>) =>
          eventually(subject.deadlineMs, async () => {
            const described = await subject.peer.describe(taskId);
            assert.deepEqual({ ...described, ...expected }, described);
          });
        await describes({ taskId, contextId, state: 'submitted', seq: 1, held: false });
        const owner = await Owner.take(subject, taskId);
        await owner.append(note('two'));
        await describes({ state: 'working', seq: 2, held: true });
        await owner.append(suspended);
        await subject.store.release(owner.lease);
        await describes({ state: 'input-required', seq: 3, held: false });
        await (await Owner.take(subject, taskId)).append(done);
        await describes({ state: 'completed', seq: 4 });
        assert.equal(await subject.peer.describe(subject.newTaskId()), null);
        await subject.store.delete(taskId);
        await eventually(subject.deadlineMs, async () => assert.equal(await subject.peer.describe(taskId), null));
      },
    },
    {
      title: 'a deleted task is not listed',
      async run(subject) {
        const contextId = subject.newTaskId();
        const [stays, goes] = await beginMany(subject, contextId, 2);
        assert(stays && goes);
        await subject.store.delete(goes);
        await listsIds(subject, { contextId }, [stays]);
      },
    },
    {
      title: 'check tells whether the store keeps its promise, in sentences',
      async run({ store }) {
        const { ok, warnings } = await store.check();
        assert.equal(ok, true, `the store under test is not fit: ${warnings.join(' ')}`);
        for (const warning of warnings) assert.match(warning, /^\S.*\.$/);
      },
    },
  ],
};

async function ids(subject: StoreUnderTest, query: TaskQuery): Promise<readonly string[]> {
  return (await subject.peer.list(query)).map(({ taskId }) => taskId);
}

async function beginMany(subject: StoreUnderTest, contextId: string, count: number): Promise<readonly string[]> {
  const taskIds: string[] = [];
  for (const number of upTo(count)) taskIds.push(await begin(subject, { contextId, at: startedAt + number * 1000 }));
  return taskIds;
}

/** Not every store counts bytes. */
function lists(subject: StoreUnderTest, query: TaskQuery, expected: readonly TaskSummary[]): Promise<void> {
  return eventually(subject.deadlineMs, async () => {
    const summaries = await subject.peer.list(query);
    assert.deepEqual(
      summaries.map(({ bytes: _, ...summary }) => summary),
      expected,
    );
    for (const summary of summaries) assert.deepEqual(await subject.peer.describe(summary.taskId), summary);
  });
}

/** What `of` gives of each task, in the order of the store. */
export function listsEach<T>(
  subject: StoreUnderTest,
  query: TaskQuery,
  of: (task: TaskSummary) => T,
  expected: readonly T[],
): Promise<void> {
  return eventually(subject.deadlineMs, async () => {
    const found = (await subject.peer.list(query)).map((task) => of(task));
    assert.deepEqual(found, expected);
  });
}

export function listsIds(subject: StoreUnderTest, query: TaskQuery, expected: readonly string[]): Promise<void> {
  return listsEach(subject, query, ({ taskId }) => taskId, expected);
}

function isHeld(subject: StoreUnderTest, contextId: string, expected: boolean): Promise<void> {
  return listsEach(subject, { contextId }, ({ held }) => held, [expected]);
}

type Parents = readonly (readonly [taskId: string, parent: string | undefined])[];

function listsParents(subject: StoreUnderTest, query: TaskQuery, expected: Parents): Promise<void> {
  return listsEach(subject, query, ({ taskId, parentTaskId }): Parents[number] => [taskId, parentTaskId], expected);
}
