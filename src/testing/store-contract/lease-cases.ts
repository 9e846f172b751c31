import assert from 'node:assert/strict';
import { refuses } from '../contract/define-contract.ts';
import { assertRetryTime } from './child-cases.ts';
import {
  begin,
  beginHeld,
  type ContractGroup,
  done,
  expire,
  note,
  Owner,
  seqsOf,
  takeOver,
} from './journal-fixture.ts';

export const leaseCases: ContractGroup = {
  name: 'lease',
  cases: [
    {
      title: 'acquire answers with the owner, an epoch above 0, the last seq and the length asked for',
      async run(subject) {
        const taskId = await begin(subject);
        const lease = await subject.store.acquire(taskId, 'owner-a', subject.leaseMs);
        assert(lease.epoch > 0, `the epoch is ${lease.epoch}`);
        const { owner, seq, leaseMs } = lease;
        assert.deepEqual(
          { taskId: lease.taskId, owner, seq, leaseMs },
          { taskId, owner: 'owner-a', seq: 1, leaseMs: subject.leaseMs },
        );
      },
    },
    {
      title:
        'H-31 acquire says when an owner prolonged its lease last that never gave it back, and null for one that did',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        assert.equal(owner.lease.abandonedAt ?? null, null);
        await owner.append(note('one'));
        await expire(subject);
        const second = await takeOver(subject, taskId);
        const { abandonedAt: left } = second.lease;
        if (left === undefined) return;
        assert(left !== null, 'abandonedAt is null');
        await subject.store.release(second.lease);
        const third = await takeOver(subject, taskId);
        assert.equal(third.lease.abandonedAt, null);
        await subject.store.release(third.lease, left);
        const fourth = await takeOver(subject, taskId);
        assert.equal(fourth.lease.abandonedAt, left);
        assert.equal(await subject.store.breakLease(taskId), true);
        const fifth = await takeOver(subject, taskId);
        assert(Number(fifth.lease.abandonedAt) >= left, `abandonedAt is ${fifth.lease.abandonedAt} after ${left}`);
      },
    },
    {
      title: 'while a lease lasts, another owner is BUSY and told that a retry may help',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        const error = await refuses('BUSY', () => takeOver(subject, taskId));
        assert.equal(error.retryable, true);
        assertRetryTime(error.retryAfterMs, subject.leaseMs);
        assert.equal(error.taskId, taskId);
        await owner.append(note('still the owner'));
      },
    },
    {
      title: 'of several owners at the same time exactly one gets the lease',
      async run(subject) {
        const taskId = await begin(subject);
        const attempts = await Promise.allSettled(
          ['a', 'b', 'c', 'd', 'e', 'f'].map(async (name, index) =>
            (index % 2 ? subject.store : subject.peer).acquire(taskId, name, subject.leaseMs),
          ),
        );
        assert.equal(attempts.filter(({ status }) => status === 'fulfilled').length, 1);
        for (const attempt of attempts) {
          if (attempt.status === 'rejected') await refuses('BUSY', () => Promise.reject(attempt.reason));
        }
      },
    },
    {
      title: 'a lease that ran out is taken over with a higher epoch and the seq of the journal then',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        await owner.append(note('one'), note('two'));
        await expire(subject);
        const { lease } = await takeOver(subject, taskId);
        assert(lease.epoch > owner.lease.epoch, `epoch ${lease.epoch} does not follow ${owner.lease.epoch}`);
        assert.equal(lease.seq, 3);
      },
    },
    {
      title: 'a lease given back is free at once, with a higher epoch',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        await subject.store.release(owner.lease);
        const next = await takeOver(subject, taskId);
        assert(next.lease.epoch > owner.lease.epoch, `epoch ${next.lease.epoch} does not follow ${owner.lease.epoch}`);
        await next.append(note('mine now'));
      },
    },
    {
      title: 'giving back a lease that is no longer held does nothing',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        await expire(subject);
        const next = await takeOver(subject, taskId);
        await subject.store.release(owner.lease);
        await refuses('BUSY', () => subject.store.acquire(taskId, 'owner-c', subject.leaseMs));
        await next.append(note('still held'));
        await subject.store.release(next.lease);
        await subject.store.release(next.lease);
      },
    },
    {
      title: 'renew prolongs a lease by its own length from now',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        await subject.advance(subject.leaseMs * 0.6);
        await subject.store.renew(owner.lease);
        await subject.advance(subject.leaseMs * 0.6);
        await refuses('BUSY', () => takeOver(subject, taskId));
        await expire(subject);
        await takeOver(subject, taskId);
      },
    },
    {
      title: 'an append prolongs the lease too',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        await subject.advance(subject.leaseMs * 0.6);
        await owner.append(note('heartbeat'));
        await subject.advance(subject.leaseMs * 0.6);
        await refuses('BUSY', () => takeOver(subject, taskId));
      },
    },
    {
      title: 'an owner with shorter leases does not take over a longer one early',
      async run(subject) {
        const taskId = await begin(subject);
        await Owner.take(subject, taskId, { leaseMs: subject.leaseMs * 3 });
        await expire(subject);
        await refuses('BUSY', () => takeOver(subject, taskId));
        await subject.advance(subject.leaseMs * 2);
        await takeOver(subject, taskId);
      },
    },
    {
      title: 'a lease that ran out but that nobody took can be renewed, and holds again',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        await expire(subject);
        await subject.store.renew(owner.lease);
        await refuses('BUSY', () => takeOver(subject, taskId));
        await owner.append(note('still mine'));
      },
    },
    {
      title: 'renewing a lease that was taken over or given back is FENCED',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        await expire(subject);
        const next = await takeOver(subject, taskId);
        await refuses('FENCED', () => subject.store.renew(owner.lease));
        await subject.peer.release(next.lease);
        await refuses('FENCED', () => subject.peer.renew(next.lease));
      },
    },
    {
      title: 'H-16 a lease whose owner is gone ends within its length, also where the clock of the owner was ahead',
      async run(subject) {
        const taskId = await begin(subject);
        const ahead = await subject.peerAhead(3_600_000);
        const gone = await Owner.take(subject, taskId, { store: ahead });
        const error = await refuses('BUSY', () => takeOver(subject, taskId));
        assertRetryTime(error.retryAfterMs, subject.leaseMs);
        await expire(subject);
        const next = await takeOver(subject, taskId);
        await refuses('FENCED', () => gone.append(note('late')));
        await next.append(note('mine now'));
      },
    },
    {
      title: 'H-16 an owner whose clock is ahead keeps its lease as long as it renews it',
      async run(subject) {
        const taskId = await begin(subject);
        const ahead = await subject.peerAhead(3_600_000);
        const owner = await Owner.take(subject, taskId, { store: ahead });
        await refuses('BUSY', () => takeOver(subject, taskId));
        await subject.advance(subject.leaseMs * 0.6);
        await ahead.renew(owner.lease);
        await subject.advance(subject.leaseMs * 0.6);
        await refuses('BUSY', () => takeOver(subject, taskId));
        await owner.append(note('still mine'));
      },
    },
    {
      title: 'H-16 breaking a lease frees the task at once, with a higher epoch, and its owner is FENCED',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        await owner.append(note('one'));
        assert.equal(await subject.peer.breakLease(taskId), true);
        await refuses('FENCED', () => owner.append(note('late')));
        await refuses('FENCED', () => subject.store.renew(owner.lease));
        const next = await takeOver(subject, taskId);
        assert(next.lease.epoch > owner.lease.epoch, `epoch ${next.lease.epoch} does not follow ${owner.lease.epoch}`);
        assert.equal(next.lease.seq, 2);
        await subject.store.release(owner.lease);
        await next.append(note('mine now'));
      },
    },
    {
      title: 'H-16 breaking a lease fences its owner before anybody else takes the task, also once the lease ran out',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        await expire(subject);
        assert.equal(await subject.peer.breakLease(taskId), true);
        await refuses('FENCED', () => owner.append(note('late')));
        assert.deepEqual(await seqsOf(subject.store.read(taskId)), [1]);
      },
    },
    {
      title: 'H-16 there is no lease to break where nobody owns the task, and where the turn has ended',
      async run(subject) {
        const taskId = await begin(subject);
        assert.equal(await subject.store.breakLease(taskId), false);
        const owner = await Owner.take(subject, taskId);
        await owner.append(done);
        assert.equal(await subject.store.breakLease(taskId), false);
        await refuses('NOT_FOUND', () => subject.store.breakLease(subject.newTaskId()));
      },
    },
    {
      title: 'leases of one task say nothing of another',
      async run(subject) {
        const first = await beginHeld(subject);
        const second = await beginHeld(subject);
        await first.owner.append(note('in the first'));
        await second.owner.append(note('in the second'));
        await subject.store.release(first.owner.lease);
        await refuses('BUSY', () => takeOver(subject, second.taskId));
      },
    },
    {
      title: 'where there is no task, acquire and renew say NOT_FOUND and release does nothing',
      async run({ store, newTaskId, leaseMs }) {
        const taskId = newTaskId();
        const lease = { taskId, owner: 'owner-a', epoch: 1, seq: 1, leaseMs };
        const error = await refuses('NOT_FOUND', () => store.acquire(taskId, 'owner-a', leaseMs));
        assert.equal(error.taskId, taskId);
        await refuses('NOT_FOUND', () => store.renew(lease));
        await store.release(lease);
      },
    },
  ],
};
