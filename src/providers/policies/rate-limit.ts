import { defer, Observable, tap } from 'rxjs';
import { type Clock, type LLMCallParams, systemClock } from '../../core/contracts/index.ts';
import { estimatePromptTokens } from '../../core/model-call/index.ts';
import { measureWait } from '../../observability/spans/instruments.ts';
import { limitWait } from './limit-wait.ts';
import { aClock, assertOptions, someCount, someMs, wrongOption } from './policy-options.ts';
import { definePolicy, type ProviderPolicy } from './provider-policy.ts';
import { type RateLimits, RateWindow } from './rate-window.ts';

export interface RateLimitOptions {
  /** Default no limit. */
  readonly requestsPerMinute?: number | undefined;
  /** Of prompts and answers together. Default no limit. */
  readonly tokensPerMinute?: number | undefined;
  /** How long a request may wait for its minute; it then fails with `PROVIDER_TIMEOUT`. Milliseconds; default 600,000. */
  readonly maxWaitMs?: number | undefined;
  /** Replaced by tests. Default: the system's. */
  readonly clock?: Clock | undefined;
}

/**
 * Lets so many requests, and so many tokens, be sent in any minute; the others wait, first come, first served. At least one limit has to
 * be given. The limits belong to what this gives: all turns, and all providers that the same policy is put around, share them.
 *
 * A request's tokens are guessed before it is sent (by the rule of `estimateTokens`, and `maxTokens` where it is set) and corrected by the usage
 * of its answer. A request larger than the whole limit waits for a minute of its own. Unsubscribing gives a place in the queue back; a
 * request that was sent counts, whatever became of it. Memory: the requests of one minute, and those that wait.
 * Errors: `INVALID_CONFIG`, naming the option.
 */
export function rateLimit(options: RateLimitOptions): ProviderPolicy {
  assertOptions('rateLimit', options, {
    requestsPerMinute: someCount,
    tokensPerMinute: someCount,
    maxWaitMs: someMs,
    clock: aClock,
  });
  const { requestsPerMinute, tokensPerMinute, maxWaitMs = 600_000, clock = systemClock } = options;
  if (requestsPerMinute === undefined && tokensPerMinute === undefined) {
    throw wrongOption('rateLimit', 'no limit is given; set requestsPerMinute or tokensPerMinute');
  }
  const unlimited = Number.POSITIVE_INFINITY;
  const limits = { requests: requestsPerMinute ?? unlimited, tokens: tokensPerMinute ?? unlimited };
  const queue = new RateQueue(limits, clock);
  const guess = tokensPerMinute === undefined ? () => 0 : expectedTokens;
  return definePolicy(
    'rateLimit',
    (stream) => (params) =>
      new Observable((subscriber) => {
        const waited = measureWait('rateLimit');
        const cancelWait = limitWait('rateLimit', { ms: maxWaitMs, clock }, subscriber);
        return queue.enter(guess(params), (correct) => {
          waited?.();
          cancelWait();
          const answer = defer(() => stream(params)).pipe(
            tap((chunk) => {
              const usage = chunk.type === 'done' ? chunk.response.usage : undefined;
              if (usage !== undefined) correct(usage.totalTokens);
            }),
          );
          answer.subscribe(subscriber);
        });
      }),
  );
}

function expectedTokens(params: LLMCallParams): number {
  return estimatePromptTokens(params) + (params.maxTokens ?? 0);
}

/** Called when a request may be sent, with how to say what tokens it took in the end. */
type Admit = (correct: (tokens: number) => void) => void;

interface Waiting {
  readonly tokens: number;
  readonly admit: Admit;
}

/** Requests that wait for their minute, in the order in which they came. One timer, and only while somebody waits. */
class RateQueue {
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
