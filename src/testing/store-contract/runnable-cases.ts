import assert from 'node:assert/strict';
import type { TaskQuery } from '../../core/contracts/index.ts';
import { eventually } from '../contract/define-contract.ts';
import {
  backoff,
  begin,
  type ContractGroup,
  done,
  expire,
  llmStart,
  note,
  Owner,
  type StoreUnderTest,
  startedAt,
  suspended,
  takeOver,
} from './journal-fixture.ts';
import { listsEach, listsIds } from './list-cases.ts';

export const runnableCases: ContractGroup = {
  name: 'runnable tasks',
  cases: [
    {
      title: 'H-22 runnable tasks are those that were created, answered or given back, and those whose lease ran out',
      async run(subject) {
        const contextId = subject.newTaskId();
        const held = async () => {
          const taskId = await begin(subject, { contextId });
          return { taskId, owner: await Owner.take(subject, taskId) };
        };
        const created = await begin(subject, { contextId });
        const [givenBack, waiting, answered, ended, broken] = [
          await held(),
          await held(),
          await held(),
          await held(),
          await held(),
        ];
        await givenBack.owner.append(note('one'));
        await subject.store.release(givenBack.owner.lease);
        for (const { taskId, owner } of [waiting, answered]) {
          await owner.append(suspended);
          await subject.store.release(owner.lease);
          const visitor = await Owner.take(subject, taskId);
          if (taskId === answered.taskId) await visitor.append({ type: 'turn.resumed' });
          await subject.store.release(visitor.lease);
        }
        await ended.owner.append(done);
        await subject.store.release(ended.owner.lease);
        await subject.store.breakLease(broken.taskId);
        const free = [created, givenBack.taskId, answered.taskId, broken.taskId];
        await listsRunnable(subject, { contextId }, free);
        const lost = await held();
        await lost.owner.append(note('the last'));
        await expire(subject);
        await listsRunnable(subject, { contextId }, [...free, lost.taskId]);
        await listsRunnable(subject, { contextId, state: 'submitted' }, [created, broken.taskId]);
        await takeOver(subject, created);
        await subject.store.delete(broken.taskId);
        await listsRunnable(subject, { contextId }, [givenBack.taskId, answered.taskId, lost.taskId]);
        assert.equal((await subject.peer.list({ contextId, runnable: true, limit: 2 })).length, 2);
      },
    },
    {
      title: 'H-22 runnable tasks are found among all, and child turns are left out where roots are asked for',
      async run(subject) {
        const parent = await begin(subject);
        const child = await begin(subject, { parent });
        const among = async (roots: boolean) =>
          (await subject.peer.list({ runnable: true, roots, limit: 100_000 }))
            .map(({ taskId }) => taskId)
            .filter((taskId) => taskId === parent || taskId === child)
            .sort();
        await eventually(subject.deadlineMs, async () => assert.deepEqual(await among(false), [parent, child].sort()));
        assert.deepEqual(await among(true), [parent]);
      },
    },
    {
      title: 'F-14 runnable tasks that are due leave out turns that back off until later',
      async run(subject) {
        const contextId = subject.newTaskId();
        // Beyond every clock, so that the query decides and not the time of the test.
        const far = 4_000_000_000_000;
        const backsOff = async (until: number) => {
          const taskId = await begin(subject, { contextId });
          const owner = await Owner.take(subject, taskId);
          await owner.append(llmStart(1));
          await owner.append(backoff(until));
          return { taskId, owner };
        };
        const created = await begin(subject, { contextId });
        const [past, soon, late, called] = [
          await backsOff(startedAt + 1),
          await backsOff(far),
          await backsOff(far + 1_000),
          await backsOff(far),
        ];
        await called.owner.append(llmStart(1, 2));
        for (const { owner } of [past, soon, late, called]) await subject.store.release(owner.lease);
        const atOnce = [created, called.taskId];
        await listsRunnable(subject, { contextId }, [...atOnce, past.taskId, soon.taskId, late.taskId]);
        await listsRunnable(subject, { contextId, dueBy: startedAt }, atOnce);
        await listsRunnable(subject, { contextId, dueBy: far - 1 }, [...atOnce, past.taskId]);
        await listsRunnable(subject, { contextId, dueBy: far }, [...atOnce, past.taskId, soon.taskId]);
        const next = await takeOver(subject, soon.taskId);
        await listsRunnable(subject, { contextId, dueBy: far }, [...atOnce, past.taskId]);
        await subject.store.release(next.lease);
        const lost = await backsOff(far);
        await expire(subject);
        await listsRunnable(subject, { contextId, dueBy: far - 1 }, [...atOnce, past.taskId]);
        await listsRunnable(subject, { contextId, dueBy: far }, [...atOnce, past.taskId, soon.taskId, lost.taskId]);
        await (await takeOver(subject, soon.taskId)).append(done);
        await subject.store.delete(late.taskId);
        await subject.store.breakLease(lost.taskId);
        await listsRunnable(subject, { contextId }, [...atOnce, past.taskId, lost.taskId]);
        await listsRunnable(subject, { contextId, dueBy: far - 1 }, [...atOnce, past.taskId]);
      },
    },
    {
      title: 'F-14 list says until when a turn backs off',
      async run(subject) {
        const contextId = subject.newTaskId();
        const taskId = await begin(subject, { contextId });
        const owner = await Owner.take(subject, taskId);
        await listsEach(subject, { contextId }, ({ dueAt }) => dueAt, [undefined]);
        await owner.append(backoff(startedAt));
        await owner.append(note('the time stays'));
        const dueAt = new Date(startedAt).toISOString();
        await listsEach(subject, { contextId }, (task) => task.dueAt, [dueAt]);
        assert.equal((await subject.peer.describe(taskId))?.dueAt, dueAt);
        await owner.append(llmStart(1));
        await listsEach(subject, { contextId }, (task) => task.dueAt, [undefined]);
      },
    },
    {
      title: 'list filters by agent, before it counts',
      async run(subject) {
        const contextId = subject.newTaskId();
        const [agentId, other] = [subject.newTaskId(), subject.newTaskId()];
        const first = await begin(subject, { contextId, agentId });
        const second = await begin(subject, { contextId, agentId, at: startedAt + 1_000 });
        const third = await begin(subject, { contextId, agentId: other, at: startedAt + 2_000 });
        await listsIds(subject, { agentId }, [second, first]);
        await listsIds(subject, { contextId, agentId, limit: 1 }, [second]);
        await listsIds(subject, { contextId, agentId, state: 'submitted' }, [second, first]);
        await listsRunnable(subject, { agentId: other }, [third]);
        await listsRunnable(subject, { agentId, limit: 2 }, [second, first]);
        await listsIds(subject, { contextId, agentId: subject.newTaskId() }, []);
      },
    },
  ],
};

/** In the order of the store. */
function listsRunnable(subject: StoreUnderTest, query: TaskQuery, expected: readonly string[]): Promise<void> {
  return eventually(subject.deadlineMs, async () => {
    const summaries = await subject.peer.list({ ...query, runnable: true });
    assert.deepEqual(summaries.map(({ taskId }) => taskId).sort(), [...expected].sort());
  });
}
