/** Listens for an abort without allocating a closure. */
export interface AbortListener {
  onAbort(): void;
}

/**
 * A node of the cancellation tree: turn → model call, turn → each tool. Aborting a scope aborts its descendants, synchronously.
 * Creating an `AbortSignal` costs microseconds, so `signal` creates it on first access; the engine itself listens with `onAbort`. For
 * the same reason a child subscribes to its parent only when it gets a listener; until then it reads the parent's state.
 */
export class AbortScope {
  #aborted = false;
  #reason: unknown;
  #controller: AbortController | undefined;
  /** Callbacks, and child scopes that have listeners: a child scope is stored itself, without a closure. */
  #listeners: Listener[] | undefined;
  #parent: AbortScope | undefined;
  /** Whether this scope is subscribed to its parent. */
  #linked = false;
  /** Removes the listener from the followed signal. */
  #unfollow: (() => void) | undefined;

  get aborted(): boolean {
    for (let scope: AbortScope | undefined = this; scope; scope = scope.#parent) if (scope.#aborted) return true;
    return false;
  }

  get reason(): unknown {
    return this.#aborted ? this.#reason : this.#parent?.reason;
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.aborted) this.#controller.abort(this.reason);
      else this.#link();
    }
    return this.#controller.signal;
  }

  /** Aborts this scope and its descendants. Only the first call counts. */
  abort(reason: unknown): void {
    this.#end(this.#parent?.aborted ? this.#parent.reason : reason);
  }

  /** Returns the one scope that follows a signal shared by many turns, so the signal has a single listener. */
  static of(signal: AbortSignal): AbortScope {
    const known = scopes.get(signal);
    if (known) return known;
    const scope = new AbortScope();
    scope.follow(signal);
    scopes.set(signal, scope);
    return scope;
  }

  /** Calls `listener` once on abort; never if the scope is already aborted. Returns a function that removes the listener. */
  onAbort(listener: () => void): () => void {
    if (this.aborted) return noop;
    this.#listen(listener);
    return () => this.forget(listener);
  }

  /** Adds a listener until `forget`. Returns false, and adds nothing, if the scope is already aborted. */
  listen(listener: AbortListener): boolean {
    if (this.aborted) return false;
    this.#listen(listener);
    return true;
  }

  forget(listener: Listener): void {
    const index = this.#listeners?.indexOf(listener) ?? -1;
    if (index >= 0) this.#listeners?.splice(index, 1);
  }

  /** Creates a scope that aborts with this one. Call its `release` when its work is over. */
  child(): AbortScope {
    const child = new AbortScope();
    child.#parent = this;
    return child;
  }

  /** Aborts this scope when `signal` does. */
  follow(signal: AbortSignal): void {
    if (signal.aborted) return this.abort(signal.reason);
    this.#unfollow = listenTo(signal, () => this.abort(signal.reason));
  }

  /** Unsubscribes from the parent and the followed signal. `abort` still works. */
  release(): void {
    const parent = this.#parent;
    this.#parent = undefined;
    if (parent && this.#linked) parent.forget(this);
    this.#linked = false;
    this.#unfollow?.();
    this.#unfollow = undefined;
    if (parent?.aborted) this.#end(parent.reason);
  }

  #listen(listener: Listener): void {
    if (this.#parent && !this.#linked) this.#link();
    if (this.#listeners === undefined) this.#listeners = [listener];
    else this.#listeners.push(listener);
  }

  #link(): void {
    const parent = this.#parent;
    if (!parent || this.#linked || parent.aborted) return;
    this.#linked = true;
    parent.#listen(this);
  }

  #end(reason: unknown): void {
    if (this.#aborted) return;
    this.#aborted = true;
    this.#reason = reason;
    this.release();
    this.#controller?.abort(reason);
    const listeners = this.#listeners;
    this.#listeners = undefined;
    if (!listeners) return;
    for (const listener of listeners) {
      if (typeof listener === 'function') listener();
      else if (listener instanceof AbortScope) listener.#end(reason);
      else listener.onAbort();
    }
  }
}

type Listener = (() => void) | AbortListener | AbortScope;

const scopes = new WeakMap<AbortSignal, AbortScope>();

/** Returns a function that removes the listener. */
function listenTo(signal: AbortSignal, listener: () => void): () => void {
  signal.addEventListener('abort', listener, { once: true });
  return () => signal.removeEventListener('abort', listener);
}

function noop(): void {}
