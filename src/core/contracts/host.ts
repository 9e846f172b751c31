/** The engine's source of time, replaced in tests. */
export interface Clock {
  /** Milliseconds since 1970. */
  now(): number;
  /** Milliseconds since any moment, by a monotonic clock: time limits and leases are measured with it. Default: `now()`. */
  elapsed?(): number;
  /**
   * Runs `callback` once after `ms` milliseconds unless the returned function is called first. A `watchdog` is a periodic check for silence
   * that reschedules itself; it is neither a pause nor the limit of a single wait. `whenPending` of a fake clock ignores it.
   */
  schedule(ms: number, callback: () => void, options?: { readonly watchdog?: boolean }): () => void;
}

/** A scheduled callback. */
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
    // Cancelled callbacks are freed at once: while all work runs in microtasks, the event loop may not turn for long.
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
 * The system's time. Most callbacks of a turn are limits that are cancelled at once, and creating a timer costs ten times as much as the rest
 * of `schedule`; timers are therefore created together on the next turn of the event loop, and a callback may be late by that.
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

/** The system's time for what a process need not stay alive for: Node.js exits although a callback waits. */
export const backgroundClock: Clock = {
  now: () => Date.now(),
  elapsed: () => performance.now(),
  schedule(ms, callback) {
    const timer: NodeJS.Timeout | number = setTimeout(callback, ms);
    if (typeof timer === 'object') timer.unref();
    return () => clearTimeout(timer);
  },
};

/** The engine's log for operators of a service: ids, codes, numbers and errors; no prompts, answers, arguments or results. */
export interface Logger {
  /** Details for debugging. */
  debug(message: string, fields?: Readonly<Record<string, unknown>>): void;
  /** Normal operation: a turn was resumed, a worker drains. */
  info(message: string, fields?: Readonly<Record<string, unknown>>): void;
  /** Problems that were handled: a retry, a slow store. */
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void;
  /** Problems that were not handled, such as a hook that threw. */
  error(message: string, fields?: Readonly<Record<string, unknown>>): void;
}

/** For a configuration without a logger. */
export const silentLogger: Logger = { debug() {}, info() {}, warn() {}, error() {} };
