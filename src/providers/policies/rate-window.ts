/** What may be taken within any minute. */
export interface RateLimits {
  readonly requests: number;
  readonly tokens: number;
}

/** A request that was made. Its tokens are a guess until its usage is known. */
export interface TakenRequest {
  /** Milliseconds of the clock. */
  readonly at: number;
  tokens: number;
}

const windowMs = 60_000;

/**
 * The requests of the last minute. Exact: there is no minute, wherever it begins, with more requests than the limit. Memory: the
 * requests of one minute.
 */
export class RateWindow {
  readonly #limits: RateLimits;
  #taken: TakenRequest[] = [];

  constructor(limits: RateLimits) {
    this.#limits = limits;
  }

  /**
   * How long a request of so many tokens has to wait, in milliseconds; 0: not at all. One that is larger than the limit itself waits for
   * a minute of its own.
   */
  waitMs(now: number, tokens: number): number {
    this.#forget(now);
    const { requests, tokens: mostTokens } = this.#limits;
    let left = this.#taken.length;
    let sum = this.#taken.reduce((total, request) => total + request.tokens, 0);
    let wait = 0;
    for (const request of this.#taken) {
      if (left < requests && sum + tokens <= mostTokens) return wait;
      left -= 1;
      sum -= request.tokens;
      wait = request.at + windowMs - now;
    }
    return wait;
  }

  take(now: number, tokens: number): TakenRequest {
    const request = { at: now, tokens };
    this.#taken.push(request);
    return request;
  }

  #forget(now: number): void {
    const first = this.#taken.findIndex(({ at }) => at + windowMs > now);
    if (first !== 0) this.#taken = first === -1 ? [] : this.#taken.slice(first);
  }
}
