import type { Clock } from '../contracts/clock.ts';

export interface TimeLimit {
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
