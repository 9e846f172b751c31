/** Time as the engine sees it: the seam that tests replace. */
export interface Clock {
  /** Milliseconds since 1970. */
  now(): number;
  /** Runs `callback` once after `ms` milliseconds unless the returned function is called first. */
  schedule(ms: number, callback: () => void): () => void;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  schedule(ms, callback) {
    const timer = setTimeout(callback, ms);
    return () => clearTimeout(timer);
  },
};
