/** Time as the engine sees it: the seam that tests replace. */
export interface Clock {
  /** Milliseconds since 1970. */
  now(): number;
  /** Runs `callback` once after `ms` milliseconds unless the returned function is called first. */
  schedule(ms: number, callback: () => void): () => void;
}

/** A callback that waits for its time. */
class Appointment {
  #timer: NodeJS.Timeout | undefined;
  #canceled = false;
  readonly #ms: number;
  readonly #callback: () => void;

  constructor(ms: number, callback: () => void) {
    this.#ms = ms;
    this.#callback = callback;
  }

  arm(): void {
    if (!this.#canceled) this.#timer = setTimeout(this.#callback, this.#ms);
  }

  cancel(): void {
    this.#canceled = true;
    clearTimeout(this.#timer);
  }
}

let unarmed: Appointment[] = [];

function armAll(): void {
  const appointments = unarmed;
  unarmed = [];
  for (const appointment of appointments) appointment.arm();
}

/**
 * The system's time. Most of what a turn schedules are limits that are called off at once, and a timer costs ten times what all else
 * of it does, so timers are set together when the event loop comes round: a callback may be late by that.
 */
export const systemClock: Clock = {
  now: () => Date.now(),
  schedule(ms, callback) {
    const appointment = new Appointment(ms, callback);
    if (unarmed.length === 0) setImmediate(armAll);
    unarmed.push(appointment);
    return () => appointment.cancel();
  },
};
