import { RecentMap } from '../../core/journal/index.ts';

/** How many requests one caller may make. */
export interface RateLimit {
  readonly requests: number;
  /** Milliseconds. */
  readonly perMs: number;
}

/** The most callers that are remembered; who has not asked for longest is forgotten first. */
const mostCallers = 10_000;

interface Bucket {
  /** Requests that may be made now. */
  tokens: number;
  filledAt: number;
}

/**
 * Counts requests by caller, as a bucket that fills evenly: `requests` at once, then one each `perMs / requests`. Counts those of
 * this process. Memory: 10,000 callers.
 */
export class RateLimiter {
  readonly #limit: RateLimit;
  readonly #now: () => number;
  readonly #buckets = new RecentMap<string, Bucket>(mostCallers);

  constructor(limit: RateLimit, now: () => number) {
    this.#limit = limit;
    this.#now = now;
  }

  /** Takes a request of this caller: 0 where it may be made, else the milliseconds until one may. */
  take(caller: string): number {
    const { requests, perMs } = this.#limit;
    const bucket = this.#filled(caller);
    if (bucket.tokens < 1) return Math.max(1, Math.ceil(((1 - bucket.tokens) * perMs) / requests));
    bucket.tokens -= 1;
    return 0;
  }

  #filled(caller: string): Bucket {
    const { requests, perMs } = this.#limit;
    const now = this.#now();
    const bucket = this.#buckets.get(caller) ?? { tokens: requests, filledAt: now };
    bucket.tokens = Math.min(requests, bucket.tokens + ((now - bucket.filledAt) * requests) / perMs);
    bucket.filledAt = now;
    this.#buckets.set(caller, bucket);
    return bucket;
  }
}
