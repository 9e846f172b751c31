import assert from 'node:assert/strict';
import type { Under } from '../../core/contracts/index.ts';
import { journalSchema } from '../../core/journal/index.ts';
import { refuses } from '../contract/define-contract.ts';
import {
  begin,
  type ContractGroup,
  callsOfChildren,
  done,
  expire,
  note,
  Owner,
  type StoreUnderTest,
  startRecord,
} from './journal-fixture.ts';

export const childCases: ContractGroup = {
  name: 'child turns',
  cases: [
    {
      title: 'T-02 a newer owner of the parent turn gets the lease at once, and the owner before is FENCED',
      async run(subject) {
        const { taskId, owner, under } = await beginChild(subject, 5);
        await owner.append(note('by the owner before'));
        const next = await takeUnder(subject, taskId, { ...under, epoch: 6 });
        assert(next.lease.epoch > owner.lease.epoch, `epoch ${next.lease.epoch} does not follow ${owner.lease.epoch}`);
        assert.equal(next.lease.seq, 2);
        await refuses('FENCED', () => owner.append(note('too late')));
        await refuses('FENCED', () => subject.store.renew(owner.lease));
        await subject.store.release(owner.lease);
        await next.append(note('by the owner now'));
        assert.equal((await subject.store.read(taskId)).length, 3);
        const last = await takeUnder(subject, taskId, { ...under, epoch: 9 });
        await refuses('FENCED', () => next.append(note('too late as well')));
        await last.append(note('by the last owner'));
      },
    },
    {
      title: 'T-02 an older owner of the parent turn is FENCED, also once the lease expired or was released',
      async run(subject) {
        const { taskId, owner, under } = await beginChild(subject, 5);
        const older = { ...under, epoch: 4 };
        const error = await refuses('FENCED', () => takeUnder(subject, taskId, older));
        assert.equal(error.taskId, taskId);
        await owner.append(note('still the owner'));
        await expire(subject);
        await refuses('FENCED', () => takeUnder(subject, taskId, older));
        await subject.store.release(owner.lease);
        await refuses('FENCED', () => takeUnder(subject, taskId, older));
        const next = await takeUnder(subject, taskId, { ...under, epoch: 6 });
        await refuses('FENCED', () => takeUnder(subject, taskId, under));
        await next.append(note('kept'));
      },
    },
    {
      title: 'T-02 an owner of the parent turn with the same epoch is BUSY until the lease ends',
      async run(subject) {
        const { taskId, owner, under } = await beginChild(subject, 5);
        const error = await refuses('BUSY', () => takeUnder(subject, taskId, under));
        assertRetryTime(error.retryAfterMs, subject.leaseMs);
        await owner.append(note('still the owner'));
        await expire(subject);
        const next = await takeUnder(subject, taskId, under);
        await subject.peer.release(next.lease);
        await Owner.take(subject, taskId, { under });
      },
    },
    {
      title: 'T-02 without a lease of the same parent turn the lease of the child turn decides',
      async run(subject) {
        const { taskId, owner, under } = await beginChild(subject, 5);
        const other = { taskId: subject.newTaskId(), epoch: 99 };
        await refuses('BUSY', () => takeUnder(subject, taskId, other));
        await refuses('BUSY', () => takeUnder(subject, taskId, undefined));
        await owner.append(note('still the owner'));
        await subject.store.release(owner.lease);
        const visitor = await takeUnder(subject, taskId, undefined);
        await refuses('FENCED', () => Owner.take(subject, taskId, { under: { ...under, epoch: 4 } }));
        await refuses('BUSY', () => Owner.take(subject, taskId, { under }));
        await subject.peer.release(visitor.lease);
        await takeUnder(subject, taskId, { ...other, epoch: 1 });
      },
    },
    {
      title: 'T-02 a lease that was taken without one of the parent turn blocks an owner that presents one',
      async run(subject) {
        const taskId = await begin(subject);
        const owner = await Owner.take(subject, taskId);
        const under = { taskId: subject.newTaskId(), epoch: 5 };
        await refuses('BUSY', () => takeUnder(subject, taskId, under));
        await subject.store.release(owner.lease);
        await takeUnder(subject, taskId, under);
      },
    },
    {
      title: 'T-02 NOT_FOUND, SCHEMA and TERMINAL come before what the lease of the parent turn says',
      async run(subject) {
        const { store, leaseMs } = subject;
        const { taskId, owner, under } = await beginChild(subject, 5);
        await owner.append(done);
        for (const epoch of [4, 5, 6]) {
          await refuses('TERMINAL', () => takeUnder(subject, taskId, { ...under, epoch }));
        }
        await refuses('NOT_FOUND', () => store.acquire(subject.newTaskId(), 'owner-a', leaseMs, under));
        const later = await begin(subject, { schema: journalSchema + 1 }).catch(() => undefined);
        if (later) await refuses('SCHEMA', () => store.acquire(later, 'owner-a', leaseMs, under));
      },
    },
    {
      title: 'a deleted task takes the child turns with it that its records link to, and theirs',
      async run(subject) {
        const [root, child, other, grandchild, missing] = newIds(subject, 5);
        assert(root && child && other && grandchild && missing);
        await create(subject, root);
        await create(subject, child, root);
        await create(subject, other, root);
        await create(subject, grandchild, child);
        const stranger = await begin(subject);
        await link(subject, root, [child, missing, other]);
        await link(subject, child, [grandchild]);
        const below = await Owner.take(subject, grandchild);
        await below.append(note('runs'));
        await subject.peer.delete(root);
        for (const gone of [root, child, other, grandchild]) {
          assert.equal(await subject.peer.load(gone), null, `${gone} is still there`);
        }
        await refuses('NOT_FOUND', () => below.append(note('to nobody')));
        assert.notEqual(await subject.store.load(stranger), null);
        await subject.peer.delete(root);
      },
    },
    {
      title: 'a deleted task leaves turns alone that its records link to but that are not its child turns',
      async run(subject) {
        const [root, fork, child] = newIds(subject, 3);
        assert(root && fork && child);
        await create(subject, root);
        await create(subject, fork);
        await create(subject, child, root);
        const alone = await begin(subject);
        await link(subject, root, [child]);
        // As a copy of the journal does.
        await link(subject, fork, [child, alone, root, fork]);
        await subject.peer.delete(fork);
        assert.equal(await subject.store.load(fork), null);
        for (const kept of [root, child, alone]) {
          assert.notEqual(await subject.store.load(kept), null, `${kept} is gone`);
        }
        await subject.peer.delete(child);
        await subject.peer.delete(root);
        assert.equal(await subject.store.load(root), null);
      },
    },
    {
      title: 'a task whose journal has a record of an unknown type is deleted with its child turns',
      needs: 'plantUnknownRecord',
      async run(subject) {
        const [root, child] = newIds(subject, 2);
        assert(root && child);
        await create(subject, root);
        await create(subject, child, root);
        await link(subject, root, [child]);
        await subject.plantUnknownRecord?.(root);
        await subject.peer.delete(root);
        assert.equal(await subject.peer.load(root), null);
        assert.equal(await subject.peer.load(child), null);
      },
    },
  ],
};

/** A child turn that somebody holds under a lease of its parent turn with that epoch. */
async function beginChild(subject: StoreUnderTest, epoch: number) {
  const under: Under = { taskId: subject.newTaskId(), epoch };
  const taskId = await begin(subject, { parent: under.taskId });
  return { taskId, under, owner: await Owner.take(subject, taskId, { under }) };
}

/** The other owner, from the other instance. */
function takeUnder(subject: StoreUnderTest, taskId: string, under: Under | undefined): Promise<Owner> {
  return Owner.take(subject, taskId, { store: subject.peer, owner: 'owner-b', ...(under && { under }) });
}

function newIds(subject: StoreUnderTest, count: number): readonly string[] {
  return Array.from({ length: count }, () => subject.newTaskId());
}

async function create({ store }: StoreUnderTest, taskId: string, parent?: string): Promise<void> {
  await store.create(taskId, startRecord(taskId, parent === undefined ? {} : { parent }));
}

/** Writes the intents of child turns, and releases the lease. */
async function link(subject: StoreUnderTest, taskId: string, children: readonly string[]): Promise<void> {
  const owner = await Owner.take(subject, taskId);
  await owner.append(...callsOfChildren(children));
  await subject.store.release(owner.lease);
}

/** How long a caller waits before it asks again: as long as the lease lasts. */
export function assertRetryTime(retryAfterMs: number | undefined, leaseMs: number): void {
  assert(
    retryAfterMs !== undefined && retryAfterMs > 0 && retryAfterMs <= leaseMs,
    `retryAfterMs is ${retryAfterMs}, of a lease of ${leaseMs} ms`,
  );
}
