import { onAbort } from './abort-scope.ts';

/** The part of a `Clock` that waits use. */
interface Scheduler {
  schedule(ms: number, callback: () => void, options?: { readonly watchdog?: boolean }): () => void;
}

/** Runs `callback` once after `ms`, unless the returned function is called first. For a wait that is set more than once, see `Timer`. */
export function after(ms: number, clock: Scheduler, callback: () => void): () => void {
  return clock.schedule(ms, callback);
}

/** At most one callback that waits: `set` replaces the one before. Does nothing after `close`. */
export class Timer {
  readonly #clock: Scheduler;
  #cancel: (() => void) | undefined;
  #isClosed = false;

  constructor(clock: Scheduler) {
    this.#clock = clock;
  }

  get isSet(): boolean {
    return this.#cancel !== undefined;
  }

  set(ms: number, callback: () => void, options?: { readonly watchdog?: boolean }): void {
    this.stop();
    if (this.#isClosed) return;
    const due = () => {
      this.#cancel = undefined;
      callback();
    };
    this.#cancel = this.#clock.schedule(ms, due, options);
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }

  close(): void {
    this.#isClosed = true;
    this.stop();
  }
}

/** Resolves after `ms`, and at once where the signal is aborted. */
export function pause(ms: number, clock: Scheduler, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const over = () => {
      stop();
      leave?.();
      resolve();
    };
    const stop = clock.schedule(ms, over);
    const leave = signal && onAbort(signal, over);
  });
}

/** Pauses between attempts: `firstMs`, then twice the one before, `lastMs` at most. */
export class Backoff {
  readonly #firstMs: number;
  readonly #lastMs: number;
  #nextMs: number;

  constructor(firstMs: number, lastMs: number) {
    this.#firstMs = firstMs;
    this.#lastMs = lastMs;
    this.#nextMs = firstMs;
  }

  /** The next pause is the shortest again. */
  reset(): void {
    this.#nextMs = this.#firstMs;
  }

  next(): number {
    const ms = this.#nextMs;
    this.#nextMs = Math.min(ms * 2, this.#lastMs);
    return ms;
  }

  /** Rejects with the reason of the signal once that aborts. */
  async pause(clock: Scheduler, signal: AbortSignal): Promise<void> {
    await pause(this.next(), clock, signal);
    signal.throwIfAborted();
  }
}

/** A function is called at once, unless the signal is aborted already; what it throws is a rejection. */
type Work<T> = PromiseLike<T> | (() => T | PromiseLike<T>);

interface TimeLimit<L> {
  /** Milliseconds; 0 or `Infinity`: for ever. */
  readonly ms: number;
  readonly clock: Scheduler;
  /** Ends the wait: it rejects with the reason. */
  readonly signal?: AbortSignal | undefined;
  /** Called after the limit. An error is what the wait rejects with, anything else its result. */
  readonly late: () => L;
}

/**
 * Waits for work until it settles, the limit is over or the signal is aborted. Then the timer and the listener are removed; work that is not
 * over is left to itself, and its result or error is dropped.
 */
export function within<T, L>(limit: TimeLimit<L>, work: Work<T>): Promise<T | Exclude<L, Error>> {
  const { ms, clock, signal, late } = limit;
  return new Promise((resolve, reject) => {
    const stops: (() => void)[] = [];
    const settle =
      <A>(how: (answer: A) => void) =>
      (answer: A) => {
        for (const stop of stops.splice(0)) stop();
        how(answer);
      };
    const [give, fail] = [settle(resolve), settle(reject)];
    const expire = () => {
      const answer = late();
      if (answer instanceof Error) fail(answer);
      else give(answer as Exclude<L, Error>);
    };
    if (signal?.aborted) {
      fail(signal.reason);
      if (typeof work === 'function') return;
    } else {
      if (signal) stops.push(onAbort(signal, () => fail(signal.reason)));
      if (ms > 0 && ms !== Number.POSITIVE_INFINITY) stops.push(clock.schedule(ms, expire));
    }
    new Promise<T>((given) => given(typeof work === 'function' ? work() : work)).then(give, fail);
  });
}

const noLimit = { ms: 0, clock: { schedule: () => () => {} }, late: () => new Error() };

/** Waits for work without a time limit. Rejects with the reason once the signal is aborted. */
export function unlessAborted<T>(signal: AbortSignal | undefined, work: Work<T>): Promise<T> {
  return within({ ...noLimit, signal }, work);
}

/**
 * Resolves once work has settled, however that is, and after `ms` at the latest. The timer keeps the process alive meanwhile: Node.js ends a
 * process that only awaits what does not, such as an idle connection of a pool that is closed.
 */
export function settled(ms: number, clock: Scheduler, work: Promise<unknown> | undefined): Promise<void> {
  const over = () => {};
  return within({ ms: Math.max(ms, 1), clock, late: over }, Promise.resolve(work)).then(over, over);
}
