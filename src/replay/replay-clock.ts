import type { Clock } from '../core/contracts/index.ts';

/** A clock that stands still. What is scheduled runs only when the recording says that it did. */
export interface ReplayClock extends Clock {
  /** Runs what was scheduled last for this many milliseconds. */
  elapse(ms: number): void;
}

export function replayClock(startAt: number): ReplayClock {
  const waiting = new Map<() => void, number>();
  return {
    now: () => startAt,
    schedule(ms, callback) {
      const run = () => callback();
      waiting.set(run, ms);
      return () => waiting.delete(run);
    },
    elapse(ms) {
      const last = [...waiting].findLast(([, after]) => after === ms);
      if (!last) return;
      waiting.delete(last[0]);
      last[0]();
    },
  };
}
