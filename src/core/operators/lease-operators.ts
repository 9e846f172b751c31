import type { Lease, TaskStateStore } from '../../stores/interfaces.ts';
import type { Clock } from '../clock.ts';
import { AgentLoopError } from '../errors.ts';
import type { Signal } from '../signals.ts';
import { type FusibleOperator, operate } from './operate.ts';

export interface LeaseDeps {
  readonly store: TaskStateStore;
  readonly lease: Lease;
  readonly clock: Clock;
}

/**
 * Renews the lease every third of its length while the turn runs. A renewal that fails because the store does not answer ends
 * nothing; one that fails for good (`FENCED`, `NOT_FOUND`) errors the stream: somebody else owns the turn, or it is gone.
 */
export function keepLease({ store, lease, clock }: LeaseDeps): FusibleOperator<Signal, Signal> {
  return operate((to) => {
    let cancel: () => void;
    const fail = (error: unknown) => {
      if (AgentLoopError.isInstance(error) && error.retryable) arm();
      else to.error(error);
    };
    const renew = () => {
      try {
        const answer = store.renew(lease);
        if (answer instanceof Promise) answer.then(arm, fail);
        else arm();
      } catch (error) {
        fail(error);
      }
    };
    const arm = () => {
      if (!to.closed) cancel = clock.schedule(lease.leaseMs / 3, renew);
    };
    arm();
    to.add(() => cancel());
    return {};
  });
}

/**
 * Gives the lease back when the turn is over, and completes behind that. A store that cannot take it back delays that by the length
 * of the lease at most: by then it has run out by itself. Where the stream errors or is left, the lease is given back without waiting.
 */
export function releaseLease({ store, lease, clock }: LeaseDeps): FusibleOperator<Signal, Signal> {
  return operate((to) => {
    let released = false;
    const release = async () => {
      if (released) return;
      released = true;
      await store.release(lease);
    };
    const ignore = () => {};
    to.add(() => release().catch(ignore));
    return {
      complete() {
        const complete = () => to.complete();
        to.add(clock.schedule(lease.leaseMs, complete));
        void release().catch(ignore).then(complete);
      },
    };
  });
}
