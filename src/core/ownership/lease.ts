import { AgentLoopError, type Clock, type Lease, type TaskStateStore } from '../contracts/index.ts';
import type { Signal } from '../journal/index.ts';
import { after, type FusibleOperator, type Sink, Stage, staged } from '../streams/index.ts';

/** A moment on both clocks: setting the system clock changes only `now`, and `elapsed` may stand still while the machine is suspended. */
export interface Moment {
  readonly now: number;
  readonly elapsed: number;
}

export function momentOf(clock: Clock): Moment {
  const now = clock.now();
  return { now, elapsed: clock.elapsed?.() ?? now };
}

/**
 * The lease of a run as this process sees it, valid only if both clocks say so. It counts from the moment of the request to the store, not of the response: a
 * process that was stopped, or waited long for the store, can no longer rely on it, because another process may own the turn by now.
 */
export class LeaseHold {
  readonly #clock: Clock;
  readonly #leaseMs: number;
  /** Of the parent turn: a child turn may only run while the parent's lease is valid. */
  readonly #above: LeaseHold | undefined;
  #askedAt: Moment;
  #renew: () => void = () => {};
  #waiting: (() => void)[] = [];

  /** `askedAt`: when the lease was requested. */
  constructor(clock: Clock, leaseMs: number, askedAt: Moment, above?: LeaseHold) {
    this.#clock = clock;
    this.#above = above;
    this.#leaseMs = leaseMs;
    this.#askedAt = askedAt;
  }

  /** Whether the lease, and those of all ancestors, are certainly valid now. */
  get isSure(): boolean {
    const clock = this.#clock;
    const byNow = clock.now() - this.#askedAt.now;
    const byElapsed = clock.elapsed ? clock.elapsed() - this.#askedAt.elapsed : byNow;
    // Without `elapsed`, a system clock that was set back does not tell how much time has passed.
    return byNow >= 0 && Math.max(byNow, byElapsed) < this.#leaseMs && this.#above?.isSure !== false;
  }

  /** Whether a callback waits for the next renewal. */
  get isAwaited(): boolean {
    return this.#waiting.length > 0;
  }

  /** Sets the function that renews the lease at once. */
  onDemand(renew: () => void): void {
    this.#renew = renew;
  }

  /** Renews the lease, the parent turn's first, then calls back. If that took long, `isSure` may be false again. */
  afterRenewal(callback: () => void): void {
    const above = this.#above;
    if (above && !above.isSure)
      return above.afterRenewal(() => (this.isSure ? callback() : this.afterRenewal(callback)));
    this.#waiting.push(callback);
    this.#renew();
  }

  /** A renewal requested at `askedAt` has succeeded. */
  prolong(askedAt: Moment): void {
    this.#askedAt = askedAt;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const callback of waiting) callback();
  }
}

interface LeaseDeps {
  readonly store: TaskStateStore;
  readonly lease: Lease;
  readonly clock: Clock;
}

interface KeepLeaseDeps extends LeaseDeps {
  readonly hold: LeaseHold;
  /** How long a renewal that something waits for may take, in milliseconds. */
  readonly storeDeadlineMs: number;
}

/**
 * Renews the lease every third of its length while the turn runs, and at once if a tool waits for it. A retryable failure of a renewal is
 * retried, and errors the stream with `UNAVAILABLE` only if something has waited for the renewal for `storeDeadlineMs`. Any other failure
 * (`FENCED`: another owner has the turn; `NOT_FOUND`: it was deleted) errors the stream.
 */
export function keepLease(deps: KeepLeaseDeps): FusibleOperator<Signal, Signal> {
  return staged((to) => new LeaseRenewal(deps, to));
}

class LeaseRenewal extends Stage<Signal> {
  readonly #deps: KeepLeaseDeps;
  #cancel: (() => void) | undefined;
  #cancelDeadline: (() => void) | undefined;
  #renewing = false;

  constructor(deps: KeepLeaseDeps, to: Sink<Signal>) {
    super(to);
    this.#deps = deps;
    deps.hold.onDemand(() => this.#demand());
    this.#arm();
  }

  protected override finalize(): void {
    this.#cancel?.();
    this.#cancelDeadline?.();
  }

  #arm(): void {
    const { clock, lease } = this.#deps;
    this.#renewing = false;
    if (!this.to.closed) this.#cancel = after(lease.leaseMs / 3, clock, () => this.#renew());
  }

  #renew(): void {
    const { clock, store, lease } = this.#deps;
    this.#cancel?.();
    this.#renewing = true;
    const askedAt = momentOf(clock);
    const fail = (error: unknown) => this.#failedToRenew(error);
    try {
      const answer = store.renew(lease);
      if (answer instanceof Promise) answer.then(() => this.#renewed(askedAt), fail);
      else this.#renewed(askedAt);
    } catch (error) {
      fail(error);
    }
  }

  #renewed(askedAt: Moment): void {
    this.#arm();
    this.#cancelDeadline?.();
    this.#cancelDeadline = undefined;
    if (!this.to.closed) this.#deps.hold.prolong(askedAt);
  }

  #failedToRenew(error: unknown): void {
    if (AgentLoopError.isInstance(error) && error.retryable) this.#arm();
    else this.to.error(error);
  }

  #demand(): void {
    const { clock, storeDeadlineMs } = this.#deps;
    this.#cancelDeadline ??= after(storeDeadlineMs, clock, () => this.to.error(unrenewed(storeDeadlineMs)));
    if (!this.#renewing) this.#renew();
  }
}

function unrenewed(ms: number): AgentLoopError {
  return new AgentLoopError(
    'UNAVAILABLE',
    `The lease ran out, and the store did not renew it within ${ms} ms (storeDeadlineMs); the task can be resumed once it is back.`,
    { retryable: true },
  );
}

/**
 * Releases the lease when the turn is over, then completes. A store that does not answer delays that by at most the length
 * of the lease: by then it has expired. On error and unsubscribe the release is sent without waiting for it.
 */
export function releaseLease(deps: LeaseDeps): FusibleOperator<Signal, Signal> {
  return staged((to) => new LeaseRelease(deps, to));
}

class LeaseRelease extends Stage<Signal> {
  readonly #deps: LeaseDeps;
  #hasRun = false;
  #released = false;

  constructor(deps: LeaseDeps, to: Sink<Signal>) {
    // Commits matter only if an earlier owner was lost: see `#release`.
    super(to, deps.lease.abandonedAt == null ? 'none' : 'records');
    this.#deps = deps;
  }

  protected override take(signal: Signal): Signal {
    if (signal.type === 'commit') this.#hasRun = true;
    return signal;
  }

  protected override completed(): void {
    const { clock, lease } = this.#deps;
    const complete = () => this.to.complete();
    const released = this.#release();
    // On a cancel, hooks that are notified after the loop end their spans before the turn's span ends.
    if (!released) return queueMicrotask(complete);
    this.to.add(after(lease.leaseMs, clock, complete));
    void released.then(complete);
  }

  protected override finalize(): void {
    if (!this.#released) void this.#release();
  }

  /** Once this run has recorded something, the next owner has no lost run to restore: `abandonedAt` is cleared. */
  #release(): Promise<void> | undefined {
    this.#released = true;
    const { store, lease } = this.#deps;
    return release(store, this.#hasRun ? { ...lease, abandonedAt: null } : lease);
  }
}

/**
 * Releases a lease under which nothing was run, so that the next owner need not wait. `abandonedAt` is kept, so the next owner still learns
 * of an earlier lost owner. If the release fails, the lease expires.
 */
export async function releaseUnused(store: Pick<TaskStateStore, 'release'>, lease: Lease): Promise<void> {
  await release(store, lease);
}

/** Returns `undefined` if the store answered synchronously. Never rejects. */
function release(store: Pick<TaskStateStore, 'release'>, lease: Lease): Promise<void> | undefined {
  try {
    const { abandonedAt } = lease;
    const answer = abandonedAt == null ? store.release(lease) : store.release(lease, abandonedAt);
    return answer instanceof Promise ? answer.catch(() => {}) : undefined;
  } catch {
    return undefined;
  }
}
