import { type Clock, systemClock } from 'millrace';

/** The system clock, until a test moves it: what is due by then happens at once. */
export class MovableClock implements Clock {
  #aheadMs = 0;
  readonly #due = new Set<{ readonly at: number; readonly run: () => void }>();

  now(): number {
    return systemClock.now() + this.#aheadMs;
  }

  schedule(ms: number, callback: () => void): () => void {
    const over = () => {
      cancel();
      this.#due.delete(entry);
    };
    const run = () => {
      over();
      callback();
    };
    const entry = { at: this.now() + ms, run };
    const cancel = systemClock.schedule(ms, run);
    this.#due.add(entry);
    return over;
  }

  advance(ms: number): void {
    this.#aheadMs += ms;
    const now = this.now();
    for (const { at, run } of [...this.#due]) if (at <= now) run();
  }
}
