import type { Clock } from '../../core/contracts/index.ts';
import { type RateLimits, RateWindow } from './rate-window.ts';

/** Called when a request may be sent, with how to say what tokens it took in the end. */
type Admit = (correct: (tokens: number) => void) => void;

interface Waiting {
  readonly tokens: number;
  readonly admit: Admit;
}

/** Requests that wait for their minute, in the order in which they came. One timer, and only while somebody waits. */
export class RateQueue {
  readonly #window: RateWindow;
  readonly #clock: Clock;
  readonly #waiting = new Set<Waiting>();
  #stopTimer: (() => void) | undefined;

  constructor(limits: RateLimits, clock: Clock) {
    this.#window = new RateWindow(limits);
    this.#clock = clock;
  }

  /** Gives how to leave the queue. */
  enter(tokens: number, admit: Admit): () => void {
    const waiting = { tokens, admit };
    this.#waiting.add(waiting);
    if (this.#waiting.size === 1) this.#admitAll();
    return () => {
      if (this.#waiting.delete(waiting)) this.#admitAll();
    };
  }

  /** Admits from the front until somebody has to wait. Who is admitted may come back here, by leaving or by a correction. */
  #admitAll(): void {
    for (const waiting of this.#waiting) {
      const now = this.#clock.now();
      const waitMs = this.#window.waitMs(now, waiting.tokens);
      if (waitMs > 0) return this.#wakeIn(waitMs);
      this.#waiting.delete(waiting);
      const taken = this.#window.take(now, waiting.tokens);
      waiting.admit((tokens) => {
        taken.tokens = tokens;
        this.#admitAll();
      });
    }
    this.#stopTimer?.();
  }

  #wakeIn(ms: number): void {
    this.#stopTimer?.();
    this.#stopTimer = this.#clock.schedule(ms, () => this.#admitAll());
  }
}
