import type { Clock } from '../contracts/clock.ts';

/** Who has to be over by a time. */
export interface Limited {
  /** Its time is over. */
  expire(): void;
}

/** Time limits of calls that run side by side, on one timer: that of the earliest. Most calls end in time, and cancel nothing. */
export class Deadlines {
  readonly #clock: Clock;
  readonly #open = new Map<Limited, number>();
  /** When the timer fires, by `#now`. */
  #armedFor = Number.POSITIVE_INFINITY;
  #cancel: (() => void) | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** `ms`: how long it may take from now on. */
  set(limited: Limited, ms: number): void {
    const at = this.#now() + ms;
    this.#open.set(limited, at);
    if (at < this.#armedFor) this.#arm(at, ms);
  }

  delete(limited: Limited): void {
    this.#open.delete(limited);
  }

  /** Expires nobody any more. */
  stop(): void {
    this.#open.clear();
    this.#cancel?.();
    this.#cancel = undefined;
    this.#armedFor = Number.POSITIVE_INFINITY;
  }

  /** A system clock that is set while calls run does not change what is left to them. */
  #now(): number {
    return this.#clock.elapsed?.() ?? this.#clock.now();
  }

  #arm(at: number, ms: number): void {
    this.#cancel?.();
    this.#armedFor = at;
    this.#cancel = this.#clock.schedule(ms, () => this.#fire());
  }

  #fire(): void {
    // The timer has waited, also where the clock was set back meanwhile.
    const now = Math.max(this.#now(), this.#armedFor);
    this.#armedFor = Number.POSITIVE_INFINITY;
    for (const [limited, at] of [...this.#open]) {
      if (at > now || !this.#open.delete(limited)) continue;
      limited.expire();
    }
    let next = Number.POSITIVE_INFINITY;
    for (const at of this.#open.values()) next = Math.min(next, at);
    if (next < this.#armedFor) this.#arm(next, Math.max(0, next - this.#now()));
  }
}
