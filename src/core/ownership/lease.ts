import { AgentLoopError, type Clock, type Lease, type TaskStateStore } from '../contracts/index.ts';
import type { Signal } from '../journal/index.ts';
import { type FusibleOperator, type Sink, Stage, staged } from '../streams/index.ts';

/**
 * What a run knows of its right to the turn. A lease counts from the moment the store was asked for it, not from the answer, so a
 * process that was stopped, or waited long for the store, is not sure of it any more: somebody else may own the turn by now.
 */
export class LeaseHold {
  readonly #clock: Clock;
  readonly #leaseMs: number;
  /** Of the parent turn: the right to a child turn follows from it. */
  readonly #above: LeaseHold | undefined;
  #until: number;
  #renew: () => void = () => {};
  #waiting: (() => void)[] = [];

  /** `askedAt`: when the lease was asked for. */
  constructor(clock: Clock, leaseMs: number, askedAt: number, above?: LeaseHold) {
    this.#clock = clock;
    this.#above = above;
    this.#leaseMs = leaseMs;
    this.#until = askedAt + leaseMs;
  }

  /** Whether nobody else can own the turn, or a turn above it, at this moment. */
  get isSure(): boolean {
    return this.#clock.now() < this.#until && this.#above?.isSure !== false;
  }

  /** Whether somebody waits for the next renewal. */
  get isAwaited(): boolean {
    return this.#waiting.length > 0;
  }

  /** Says how a renewal is made out of turn. */
  onDemand(renew: () => void): void {
    this.#renew = renew;
  }

  /** Has the lease renewed, that of the parent turn first, and calls back once it was; where that took long, the hold is not sure again. */
  afterRenewal(callback: () => void): void {
    const above = this.#above;
    if (above && !above.isSure)
      return above.afterRenewal(() => (this.isSure ? callback() : this.afterRenewal(callback)));
    this.#waiting.push(callback);
    this.#renew();
  }

  /** A renewal that was asked for at that time has succeeded. */
  prolong(askedAt: number): void {
    this.#until = askedAt + this.#leaseMs;
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
  /** How long what waits for a renewal waits, in milliseconds. */
  readonly storeDeadlineMs: number;
}

/**
 * Renews the lease every third of its length while the turn runs, and at once where a tool waits for it. A renewal that fails because
 * the store does not answer ends nothing, unless something waits for it for `storeDeadlineMs`: then the stream errors with
 * `UNAVAILABLE`. One that fails for good (`FENCED`, `NOT_FOUND`) errors the stream: somebody else owns the turn, or it is gone.
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
    if (!this.to.closed) this.#cancel = clock.schedule(lease.leaseMs / 3, () => this.#renew());
  }

  #renew(): void {
    const { clock, store, lease } = this.#deps;
    this.#cancel?.();
    this.#renewing = true;
    const askedAt = clock.now();
    const fail = (error: unknown) => this.#failedToRenew(error);
    try {
      const answer = store.renew(lease);
      if (answer instanceof Promise) answer.then(() => this.#renewed(askedAt), fail);
      else this.#renewed(askedAt);
    } catch (error) {
      fail(error);
    }
  }

  #renewed(askedAt: number): void {
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
    this.#cancelDeadline ??= clock.schedule(storeDeadlineMs, () => this.to.error(unrenewed(storeDeadlineMs)));
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
 * Releases the lease when the turn is over, and completes after that. A store that cannot release it delays that by the length
 * of the lease at most: by then it has run out by itself. Where the stream errors or is left, the lease is given back without waiting.
 */
export function releaseLease(deps: LeaseDeps): FusibleOperator<Signal, Signal> {
  return staged((to) => new LeaseRelease(deps, to));
}

class LeaseRelease extends Stage<Signal> {
  readonly #deps: LeaseDeps;
  #hasRun = false;
  #released = false;

  constructor(deps: LeaseDeps, to: Sink<Signal>) {
    // Only of a lease that an owner was lost with before does it matter whether something is recorded under it.
    super(to, deps.lease.abandonedAt != null);
    this.#deps = deps;
  }

  protected override take(signal: Signal): void {
    if (signal.type === 'commit') this.#hasRun = true;
    this.to.next(signal);
  }

  protected override completed(): void {
    const { clock, lease } = this.#deps;
    const complete = () => this.to.complete();
    const released = this.#release();
    // On a cancel the hooks that hear of it after the loop end their spans before that of the turn ends.
    if (!released) return queueMicrotask(complete);
    this.to.add(clock.schedule(lease.leaseMs, complete));
    void released.then(complete);
  }

  protected override finalize(): void {
    void this.#release();
  }

  /** A run that has recorded something is the last one from then on, and was not lost. */
  #release(): Promise<void> | undefined {
    if (this.#released) return undefined;
    this.#released = true;
    const { store, lease } = this.#deps;
    return release(store, this.#hasRun ? { ...lease, abandonedAt: null } : lease);
  }
}

/**
 * Gives back a lease of a turn that was not run under it, so that the next owner need not wait: that one still learns of an owner before that
 * was lost. Where it fails, the lease runs out by itself.
 */
export async function releaseUnused(store: Pick<TaskStateStore, 'release'>, lease: Lease): Promise<void> {
  await release(store, lease);
}

/** At once where the store answers at once. */
function release(store: Pick<TaskStateStore, 'release'>, lease: Lease): Promise<void> | undefined {
  try {
    const { abandonedAt } = lease;
    const answer = abandonedAt == null ? store.release(lease) : store.release(lease, abandonedAt);
    return answer instanceof Promise ? answer.catch(() => {}) : undefined;
  } catch {
    return undefined;
  }
}
