import type { Clock } from '../contracts/clock.ts';

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
