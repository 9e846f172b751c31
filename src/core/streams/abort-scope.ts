/** Listens for an abort without allocating a closure. */
export interface AbortListener {
  onAbort(): void;
}

/** In place of a reason, which may be any value. */
const unaborted = Symbol('unaborted');

/**
 * A node of the cancellation tree: turn → model call, turn → each tool. Aborting a scope aborts its descendants, synchronously.
 * Creating an `AbortSignal` costs microseconds, so `signal` creates it on first access; the engine itself listens with `onAbort`, and
 * its listeners are called before those of the signal. For the same reason a child subscribes to its parent only when it gets a listener; until
 * then it reads the parent's state.
 */
export class AbortScope {
  #reason: unknown = unaborted;
  #controller: AbortController | undefined;
  /** Callbacks, and child scopes that have listeners: a child scope is stored itself, without a closure. */
  #listeners: Listener[] | undefined;
  #parent: AbortScope | undefined;
  /** Whether this scope is subscribed to its parent. */
  #linked = false;
  /** The signal that this scope stands for. */
  #shared: AbortSignal | undefined;
  /** Removes the listeners from the followed signals, or from the shared one. */
  #unfollow: (() => void) | undefined;

  get aborted(): boolean {
    for (let scope: AbortScope | undefined = this; scope; scope = scope.#parent)
      if (scope.#reason !== unaborted || scope.#shared?.aborted) return true;
    return false;
  }

  get reason(): unknown {
    if (this.#reason !== unaborted) return this.#reason;
    return this.#shared ? this.#shared.reason : this.#parent?.reason;
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

  /** Returns the one scope of a signal, so that the signal has one listener however many turns and calls share it, and none without them. */
  static of(signal: AbortSignal): AbortScope {
    const known = scopes.get(signal);
    if (known) return known;
    const scope = new AbortScope();
    scope.#shared = signal;
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
    if (index < 0) return;
    this.#listeners?.splice(index, 1);
    if (this.#shared && this.#listeners?.length === 0) this.release();
  }

  /** Creates a scope that aborts with this one. Call its `release` when its work is over. */
  child(): AbortScope {
    const child = new AbortScope();
    child.#parent = this;
    return child;
  }

  /** Aborts this scope when `signal` does, also beside other signals. */
  follow(signal: AbortSignal): void {
    if (signal.aborted) return this.abort(signal.reason);
    const before = this.#unfollow;
    const leave = AbortScope.of(signal).onAbort(() => this.abort(signal.reason));
    this.#unfollow = before
      ? () => {
          before();
          leave();
        }
      : leave;
  }

  /** Unsubscribes from the parent and the followed signals. `abort` still works. */
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
    const shared = this.#shared;
    if (shared && !this.#unfollow) {
      const heard = () => this.#end(shared.reason);
      shared.addEventListener('abort', heard, { once: true });
      this.#unfollow = () => shared.removeEventListener('abort', heard);
    }
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
    if (this.#reason !== unaborted) return;
    this.#reason = reason;
    this.release();
    const listeners = this.#listeners;
    try {
      // One listener may remove another.
      for (let listener = listeners?.shift(); listener; listener = listeners?.shift()) {
        if (typeof listener === 'function') listener();
        else if (listener instanceof AbortScope) listener.#end(reason);
        else listener.onAbort();
      }
    } finally {
      this.#controller?.abort(reason);
    }
  }
}

type Listener = (() => void) | AbortListener | AbortScope;

const scopes = new WeakMap<AbortSignal, AbortScope>();

/**
 * Calls `listener` once a signal is aborted; never if it is already. Returns a function that removes the listener: call it when the work is over, since
 * an application may share one signal among all that it runs. Node.js warns of more than ten listeners, so all of them are one.
 */
export function onAbort(signal: AbortSignal, listener: () => void): () => void {
  return AbortScope.of(signal).onAbort(listener);
}

function noop(): void {}
