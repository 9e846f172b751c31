/** Time as the engine sees it: the seam that tests replace. */
export interface Clock {
  /** Milliseconds since 1970. */
  now(): number;
  /** Milliseconds since any moment, by a clock that nobody sets: time limits are measured by it. Default: `now()`. */
  elapsed?(): number;
  /**
   * Runs `callback` once after `ms` milliseconds unless the returned function is called first. A `watchdog` only looks whether something has
   * fallen silent, and comes again as long as it has not: no pause, and no limit of a single wait. `whenPending` of a fake clock ignores it.
   */
  schedule(ms: number, callback: () => void, options?: { readonly watchdog?: boolean }): () => void;
}

/** A callback that waits for its time. */
class Appointment {
  #timer: NodeJS.Timeout | undefined;
  readonly #ms: number;
  #callback: (() => void) | undefined;

  constructor(ms: number, callback: () => void) {
    this.#ms = ms;
    this.#callback = callback;
  }

  get canceled(): boolean {
    return this.#callback === undefined;
  }

  arm(): void {
    if (this.#callback) this.#timer = setTimeout(this.#callback, this.#ms);
  }

  cancel(): void {
    this.#callback = undefined;
    clearTimeout(this.#timer);
    // What is called off is let go of at once: where all work is done in microtasks, the event loop may not come round for long.
    while (unarmed.at(-1)?.canceled) unarmed.pop();
  }
}

let unarmed: Appointment[] = [];
let arming = false;

function armAll(): void {
  const appointments = unarmed;
  unarmed = [];
  arming = false;
  for (const appointment of appointments) appointment.arm();
}

/**
 * The system's time. Most of what a turn schedules are limits that are called off at once, and a timer costs ten times what all else
 * of it does, so timers are set together when the event loop comes round: a callback may be late by that.
 */
export const systemClock: Clock = {
  now: () => Date.now(),
  elapsed: () => performance.now(),
  schedule(ms, callback) {
    const appointment = new Appointment(ms, callback);
    unarmed.push(appointment);
    if (!arming) setImmediate(armAll);
    arming = true;
    return () => appointment.cancel();
  },
};

interface TimeLimit {
  /** How long to wait. Milliseconds; 0: for ever. */
  readonly ms: number;
  readonly clock: Clock;
  /** What to reject with where the answer takes longer. */
  readonly late: () => Error;
}

/** Asks somebody, and waits for the answer, but not longer than the limit; an answer that comes later is dropped. Rejects with what `ask` throws. */
export function inTime<T>(ask: () => T | PromiseLike<T>, { ms, clock, late }: TimeLimit): Promise<T> {
  return new Promise((resolve, reject) => {
    let cancel = () => {};
    const settle =
      <A>(how: (answer: A) => void) =>
      (answer: A) => {
        cancel();
        how(answer);
      };
    if (ms > 0) cancel = clock.schedule(ms, () => reject(late()));
    new Promise<T>((given) => given(ask())).then(settle(resolve), settle(reject));
  });
}
