import type { Clock } from '../contracts/clock.ts';
import { AgentLoopError } from '../contracts/errors.ts';
import type { Lease, TaskStateStore } from '../contracts/store.ts';
import type { Signal } from '../journal/signals.ts';
import { type FusibleOperator, operate } from '../streams/operate.ts';
import { giveBack } from './give-back.ts';
import type { LeaseHold } from './lease-hold.ts';

export interface LeaseDeps {
  readonly store: TaskStateStore;
  readonly lease: Lease;
  readonly clock: Clock;
}

export interface KeepLeaseDeps extends LeaseDeps {
  readonly hold: LeaseHold;
  /** How long what waits for a renewal waits, in milliseconds. */
  readonly storeDeadlineMs: number;
}

/**
 * Renews the lease every third of its length while the turn runs, and at once where a tool waits for it. A renewal that fails because
 * the store does not answer ends nothing, unless something waits for it for `storeDeadlineMs`: then the stream errors with
 * `UNAVAILABLE`. One that fails for good (`FENCED`, `NOT_FOUND`) errors the stream: somebody else owns the turn, or it is gone.
 */
export function keepLease(deps: KeepLeaseDeps): FusibleOperator<Signal, Signal> {
  return operate((to) => {
    const { store, lease, clock, hold, storeDeadlineMs } = deps;
    let cancel = () => {};
    let cancelDeadline: (() => void) | undefined;
    let renewing = false;
    const arm = () => {
      renewing = false;
      if (!to.closed) cancel = clock.schedule(lease.leaseMs / 3, renew);
    };
    const fail = (error: unknown) => {
      if (AgentLoopError.isInstance(error) && error.retryable) arm();
      else to.error(error);
    };
    const succeed = (askedAt: number) => {
      arm();
      cancelDeadline?.();
      cancelDeadline = undefined;
      if (!to.closed) hold.prolong(askedAt);
    };
    const renew = () => {
      cancel();
      renewing = true;
      const askedAt = clock.now();
      try {
        const answer = store.renew(lease);
        if (answer instanceof Promise) answer.then(() => succeed(askedAt), fail);
        else succeed(askedAt);
      } catch (error) {
        fail(error);
      }
    };
    hold.onDemand(() => {
      cancelDeadline ??= clock.schedule(storeDeadlineMs, () => to.error(unrenewed(storeDeadlineMs)));
      if (!renewing) renew();
    });
    arm();
    to.add(() => {
      cancel();
      cancelDeadline?.();
    });
    return {};
  });
}

function unrenewed(ms: number): AgentLoopError {
  return new AgentLoopError(
    'UNAVAILABLE',
    `The lease ran out, and the store did not renew it within ${ms} ms (storeDeadlineMs); the task can be resumed once it is back.`,
    { retryable: true },
  );
}

/**
 * Releases the lease when the turn is over, and completes after that. A store that cannot release it delays that by the length
 * of the lease at most: by then it has run out by itself. Where the stream errors or is left, the lease is given back without waiting.
 */
export function releaseLease({ store, lease, clock }: LeaseDeps): FusibleOperator<Signal, Signal> {
  return operate((to) => {
    let released = false;
    let hasRun = false;
    const release = async () => {
      if (released) return;
      released = true;
      await giveBack(store, hasRun ? { ...lease, abandonedAt: null } : lease);
    };
    to.add(release);
    return {
      // A run that has recorded something is the last one from then on, and was not lost.
      ...(lease.abandonedAt != null && {
        next(signal: Signal) {
          if (signal.type === 'commit') hasRun = true;
          to.next(signal);
        },
      }),
      complete() {
        const complete = () => to.complete();
        to.add(clock.schedule(lease.leaseMs, complete));
        void release().then(complete);
      },
    };
  });
}
