/** Counts the open streams of each caller. */
export class StreamCounter {
  readonly #most: number;
  readonly #open = new Map<string, number>();

  constructor(most: number) {
    this.#most = most;
  }

  /** Streams that are open, of all callers. */
  get size(): number {
    let sum = 0;
    for (const count of this.#open.values()) sum += count;
    return sum;
  }

  /** Counts one more and gives what counts it off, or `undefined` where the caller has as many as it may. */
  enter(caller: string): (() => void) | undefined {
    const count = this.#open.get(caller) ?? 0;
    if (count >= this.#most) return undefined;
    this.#open.set(caller, count + 1);
    return () => {
      const left = (this.#open.get(caller) ?? 1) - 1;
      if (left === 0) this.#open.delete(caller);
      else this.#open.set(caller, left);
    };
  }
}
