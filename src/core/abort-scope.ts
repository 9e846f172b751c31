/**
 * A node of the cancellation tree: turn → model call, turn → each tool. Aborting one aborts all below it, synchronously.
 * An `AbortSignal` costs microseconds, so it is made only when somebody reads it; the engine itself listens with `onAbort`.
 */
export class AbortScope {
  #aborted = false;
  #reason: unknown;
  #controller: AbortController | undefined;
  #listeners: Set<() => void> | undefined;
  #unlink: (() => void) | undefined;

  get aborted(): boolean {
    return this.#aborted;
  }

  get reason(): unknown {
    return this.#reason;
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#aborted) this.#controller.abort(this.#reason);
    }
    return this.#controller.signal;
  }

  /** Aborts this scope and all below it. Only the first call counts. */
  abort(reason: unknown): void {
    if (this.#aborted) return;
    this.#aborted = true;
    this.#reason = reason;
    this.release();
    this.#controller?.abort(reason);
    const listeners = this.#listeners;
    this.#listeners = undefined;
    if (listeners) for (const listener of listeners) listener();
  }

  /** Calls `listener` once on abort, never where the scope is aborted already. Returns how to stop listening. */
  onAbort(listener: () => void): () => void {
    if (this.#aborted) return noop;
    this.#listeners ??= new Set();
    this.#listeners.add(listener);
    return () => this.#listeners?.delete(listener);
  }

  /** A scope that is aborted with this one. `release` it when its work is over. */
  child(): AbortScope {
    const child = new AbortScope();
    if (this.#aborted) child.abort(this.#reason);
    else child.#unlink = this.onAbort(() => child.abort(this.#reason));
    return child;
  }

  /** Aborts this scope when `signal` does. */
  follow(signal: AbortSignal): void {
    if (signal.aborted) return this.abort(signal.reason);
    const listener = () => this.abort(signal.reason);
    signal.addEventListener('abort', listener, { once: true });
    this.#unlink = () => signal.removeEventListener('abort', listener);
  }

  /** Lets go of what this scope listens to. It can still be aborted by hand. */
  release(): void {
    this.#unlink?.();
    this.#unlink = undefined;
  }
}

function noop(): void {}
