import type { Clock } from './clock.ts';

/**
 * What a run knows of its right to the turn. A lease counts from the moment the store was asked for it, not from the answer, so a
 * process that was stopped, or waited long for the store, is not sure of it any more: somebody else may own the turn by now.
 */
export class LeaseHold {
  readonly #clock: Clock;
  readonly #leaseMs: number;
  #until: number;
  #renew: () => void = () => {};
  #waiting: (() => void)[] = [];

  /** `askedAt`: when the lease was asked for. */
  constructor(clock: Clock, leaseMs: number, askedAt: number) {
    this.#clock = clock;
    this.#leaseMs = leaseMs;
    this.#until = askedAt + leaseMs;
  }

  /** Whether nobody else can own the turn at this moment. */
  get isSure(): boolean {
    return this.#clock.now() < this.#until;
  }

  /** Whether somebody waits for the next renewal. */
  get isAwaited(): boolean {
    return this.#waiting.length > 0;
  }

  /** Says how a renewal is made out of turn. */
  onDemand(renew: () => void): void {
    this.#renew = renew;
  }

  /** Has the lease renewed, and calls back once it was; where that took long, the hold is not sure again. */
  afterRenewal(callback: () => void): void {
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
