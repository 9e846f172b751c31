export interface BackoffOptions {
  readonly initialDelayMs: number;
  readonly maxDelayMs: number;
  /** From 0 to 1. */
  readonly random: () => number;
}

/**
 * The pause before a retry, the first being 1: anything from nothing up to a limit that doubles each time, so that callers that failed
 * together do not come back together. Source: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015 (full jitter).
 */
export function backoffMs(retry: number, { initialDelayMs, maxDelayMs, random }: BackoffOptions): number {
  if (initialDelayMs === 0) return 0;
  return random() * Math.min(maxDelayMs, initialDelayMs * 2 ** (retry - 1));
}
