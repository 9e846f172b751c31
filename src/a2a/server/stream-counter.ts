/** Counts the open streams of each caller. */
export class StreamCounter {
  readonly #most: number;
  readonly #open = new Map<string, number>();

  constructor(most: number) {
    this.#most = most;
  }

  /** Counts one more until `closed` is aborted. False where the caller has as many as it may. */
  enter(caller: string, closed: AbortSignal): boolean {
    const count = this.#open.get(caller) ?? 0;
    if (count >= this.#most) return false;
    if (closed.aborted) return true;
    this.#open.set(caller, count + 1);
    closed.addEventListener('abort', () => this.#leave(caller), { once: true });
    return true;
  }

  #leave(caller: string): void {
    const left = (this.#open.get(caller) ?? 1) - 1;
    if (left === 0) this.#open.delete(caller);
    else this.#open.set(caller, left);
  }
}
