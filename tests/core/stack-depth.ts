/** Looks how deep the stack is, in every 97th call. */
export class StackDepths {
  #calls = 0;
  #least = Number.POSITIVE_INFINITY;
  #most = 0;

  look(): void {
    if (this.#calls++ % 97 !== 0) return;
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = Number.POSITIVE_INFINITY;
    const depth = new Error('here').stack?.split('\n').length ?? 0;
    Error.stackTraceLimit = stackTraceLimit;
    this.#least = Math.min(this.#least, depth);
    this.#most = Math.max(this.#most, depth);
  }

  /** By how many frames it was deeper in some call than in another. */
  get spread(): number {
    return this.#most - this.#least;
  }
}
