/** Hears of an abort without a closure of its own. */
export interface AbortListener {
  onAbort(): void;
}

/**
 * A node of the cancellation tree: turn → model call, turn → each tool. Aborting one aborts all below it, synchronously.
 * An `AbortSignal` costs microseconds, so it is made only when somebody reads it; the engine itself listens with `onAbort`. For the
 * same reason a child listens to its parent only once somebody listens to the child; until then it asks the parent.
 */
export class AbortScope {
  #aborted = false;
  #reason: unknown;
  #controller: AbortController | undefined;
  /** Callbacks, and children that somebody listens to: those without a closure each. */
  #listeners: Listener[] | undefined;
  #parent: AbortScope | undefined;
  /** Whether the parent knows this scope. */
  #linked = false;
  /** How to stop listening to a signal. */
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

  /** Aborts this scope and all below it. Only the first call counts. */
  abort(reason: unknown): void {
    this.#end(this.#parent?.aborted ? this.#parent.reason : reason);
  }

  /** The one scope that is aborted with a signal which many turns share: however many listen, the signal has one listener. */
  static of(signal: AbortSignal): AbortScope {
    const known = scopes.get(signal);
    if (known) return known;
    const scope = new AbortScope();
    scope.follow(signal);
    scopes.set(signal, scope);
    return scope;
  }

  /** Calls `listener` once on abort, never where the scope is aborted already. Returns how to stop listening. */
  onAbort(listener: () => void): () => void {
    if (this.aborted) return noop;
    this.#listen(listener);
    return () => this.forget(listener);
  }

  /** As `onAbort`, until `forget`. False where the scope is aborted already. */
  listen(listener: AbortListener): boolean {
    if (this.aborted) return false;
    this.#listen(listener);
    return true;
  }

  forget(listener: Listener): void {
    const index = this.#listeners?.indexOf(listener) ?? -1;
    if (index >= 0) this.#listeners?.splice(index, 1);
  }

  /** A scope that is aborted with this one. `release` it when its work is over. */
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

  /** Lets go of what this scope listens to. It can still be aborted by hand. */
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

/** Returns how to stop listening. */
function listenTo(signal: AbortSignal, listener: () => void): () => void {
  signal.addEventListener('abort', listener, { once: true });
  return () => signal.removeEventListener('abort', listener);
}

function noop(): void {}
