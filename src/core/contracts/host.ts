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

/** Where the engine writes what an operator of a service wants to know: ids, codes, numbers and errors; no prompts, answers, arguments or results. */
export interface Logger {
  /** What helps to find a fault; of no interest while all goes well. */
  debug(message: string, fields?: Readonly<Record<string, unknown>>): void;
  /** What happens in the course of things: a turn was resumed, a worker drains. */
  info(message: string, fields?: Readonly<Record<string, unknown>>): void;
  /** What went wrong and was handled: a retry, a store that answers slowly. */
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void;
  /** What went wrong and was not handled, such as a hook that threw. */
  error(message: string, fields?: Readonly<Record<string, unknown>>): void;
}

/**
 * The same logger for code that it must not disturb: what it throws is dropped. Messages and fields may hold what clients, models and
 * tools said, so control characters and line breaks in them are escaped.
 */
export function guardedLogger(logger: Logger): Logger {
  const guarded =
    (level: keyof Logger): Logger[keyof Logger] =>
    (message, fields) => {
      try {
        logger[level](logText(message), fields && logFields(fields));
      } catch {
        // There is nobody left to tell.
      }
    };
  return { debug: guarded('debug'), info: guarded('info'), warn: guarded('warn'), error: guarded('error') };
}

/**
 * What ends a line or steers a terminal: control characters, the separators of lines and paragraphs, and what turns the direction of
 * text. A line break before a frame of a stack is kept: it forges no line of a log.
 */
const unsafe =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: escaping them is the purpose.
  /\n(?! {2,}at )|[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

const short: ReadonlyMap<string, string> = new Map([
  ['\n', '\\n'],
  ['\r', '\\r'],
  ['\t', '\\t'],
]);

/** The same without line breaks of stacks: what a name must not have. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: finding them is the purpose.
export const unsafeInLogs = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/;

/** The text for a log or a terminal: what is unsafe there is written as in JSON, `\n` or `\u001b`. */
export function logText(text: string): string {
  return text.replace(unsafe, (found) => short.get(found) ?? `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** A field of a log: its texts as `logText` writes them, also in arrays and plain objects. */
function logValue(value: unknown): unknown {
  if (typeof value === 'string') return logText(value);
  if (Array.isArray(value)) return value.map(logValue);
  if (typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype)
    return logFields(value);
  return value;
}

function logFields(fields: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [logText(name), logValue(value)]));
}
