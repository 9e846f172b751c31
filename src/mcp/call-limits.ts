export interface CallLimitOptions {
  /** Without progress. Milliseconds. */
  readonly idleMs: number;
  /** In all. Milliseconds. */
  readonly totalMs: number;
  /** Called once, with the limit that was reached, in milliseconds. */
  readonly onReached: (limitMs: number) => void;
}

/** The two limits of one call. Both stand still while it is paused. */
export class CallLimits {
  readonly #options: CallLimitOptions;
  #timer: NodeJS.Timeout | undefined;
  #spentMs = 0;
  #since = 0;
  #pauses = 0;
  #stopped = false;

  constructor(options: CallLimitOptions) {
    this.#options = options;
    this.#arm();
  }

  /** Progress: restarts the idle time of the call. */
  renew(): void {
    if (this.#stopped || this.#pauses > 0) return;
    this.#disarm();
    this.#arm();
  }

  /** Until `resume` was called as often. */
  pause(): void {
    this.#pauses++;
    if (this.#pauses === 1) this.#disarm();
  }

  resume(): void {
    this.#pauses--;
    if (this.#pauses === 0 && !this.#stopped) this.#arm();
  }

  stop(): void {
    this.#disarm();
    this.#stopped = true;
  }

  #arm(): void {
    const { idleMs, totalMs, onReached } = this.#options;
    const leftMs = Math.max(0, totalMs - this.#spentMs);
    const limitMs = leftMs < idleMs ? totalMs : idleMs;
    this.#since = performance.now();
    this.#timer = setTimeout(
      () => {
        this.stop();
        onReached(limitMs);
      },
      Math.min(idleMs, leftMs),
    );
  }

  #disarm(): void {
    if (this.#timer === undefined) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#spentMs += performance.now() - this.#since;
  }
}
