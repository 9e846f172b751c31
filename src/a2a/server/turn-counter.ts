import type { Caller } from './caller.ts';

/**
 * Counts the turns of each caller that this process runs or has queued, and the requests that may start one. A request and its turn
 * count as one, until both are over.
 */
export class TurnCounter {
  readonly #most: number;
  readonly #counts = new Map<string, number>();
  /** How many of a request and its turns are not over. */
  readonly #holders = new WeakMap<Caller, number>();

  constructor(most: number) {
    this.#most = most;
  }

  /** Counts a request until its connection is closed. False where the caller has as many turns as it may. */
  enter(caller: Caller): boolean {
    const { countedAs, connection } = caller;
    if ((this.#counts.get(countedAs) ?? 0) >= this.#most) return false;
    if (connection.closed.aborted) return true;
    this.#hold(caller);
    connection.closed.addEventListener('abort', () => this.#leave(caller), { once: true });
    return true;
  }

  /** Has a turn that the request started or resumed count until it is over. */
  started(caller: Caller, settled: Promise<unknown>): void {
    this.#hold(caller);
    const leave = () => this.#leave(caller);
    settled.then(leave, leave);
  }

  #hold(caller: Caller): void {
    const holders = this.#holders.get(caller) ?? 0;
    this.#holders.set(caller, holders + 1);
    if (holders === 0) this.#counts.set(caller.countedAs, (this.#counts.get(caller.countedAs) ?? 0) + 1);
  }

  #leave(caller: Caller): void {
    const holders = (this.#holders.get(caller) ?? 1) - 1;
    this.#holders.set(caller, holders);
    if (holders > 0) return;
    const left = (this.#counts.get(caller.countedAs) ?? 1) - 1;
    if (left === 0) this.#counts.delete(caller.countedAs);
    else this.#counts.set(caller.countedAs, left);
  }
}
