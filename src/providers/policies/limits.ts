import pLimit from 'p-limit';
import { defer, Observable, type Subscriber, tap } from 'rxjs';
import { AgentLoopError, type Clock, type LLMCallParams, systemClock } from '../../core/contracts/index.ts';
import { estimatePromptTokens } from '../../core/model-call/index.ts';
import { after, Timer } from '../../core/streams/index.ts';
import { measureWait } from '../../observability/spans/instruments.ts';
import {
  aClock,
  assertGiven,
  assertOptions,
  milliseconds,
  wholeNumber,
  wrongOption,
} from '../../options/option-rules.ts';
import { definePolicy, type ProviderPolicy } from './provider-policy.ts';

/** Options of `limitConcurrency`. */
export interface LimitConcurrencyOptions {
  /** Calls under way at a time. */
  readonly max: number;
  /** How long a call may wait for its turn; it then fails with `PROVIDER_TIMEOUT`. Milliseconds; default 600,000. */
  readonly maxWaitMs?: number | undefined;
  /** Replaced by tests. Default: the system's. */
  readonly clock?: Clock | undefined;
}

/**
 * Lets so many calls be under way at a time; the others wait, first come, first served. The limit belongs to what this gives: all turns,
 * and all providers that the same policy is put around, share it. A call keeps its place until its answer is complete, it failed or it
 * was left. A call that is left while it waits is never made. Memory: a few hundred bytes for each call that waits, without a limit.
 * Errors: `INVALID_CONFIG`, naming the option.
 */
export function limitConcurrency(options: LimitConcurrencyOptions): ProviderPolicy {
  assertOptions('limitConcurrency', options, { max: wholeNumber(1), maxWaitMs: milliseconds(1), clock: aClock });
  assertGiven('limitConcurrency', 'max', options.max, 'give the number of calls that may be under way at a time');
  const { max, maxWaitMs = 600_000, clock = systemClock } = options;
  const limit = pLimit(max);
  return definePolicy(
    'limitConcurrency',
    (stream) => (params) =>
      new Observable((subscriber) => {
        const over = new Promise<void>((resolve) => subscriber.add(resolve));
        const waited = measureWait('limitConcurrency');
        const cancelWait = limitWait('limitConcurrency', { ms: maxWaitMs, clock }, subscriber);
        void limit(() => {
          waited?.();
          cancelWait();
          if (!subscriber.closed) defer(() => stream(params)).subscribe(subscriber);
          return over;
        });
      }),
  );
}

/** Options of `rateLimit`. */
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
    requestsPerMinute: wholeNumber(1),
    tokensPerMinute: wholeNumber(1),
    maxWaitMs: milliseconds(1),
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
  readonly #timer: Timer;
  readonly #waiting = new Set<Waiting>();

  constructor(limits: RateLimits, clock: Clock) {
    this.#window = new RateWindow(limits);
    this.#clock = clock;
    this.#timer = new Timer(clock);
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
      if (waitMs > 0) return this.#timer.set(waitMs, () => this.#admitAll());
      this.#waiting.delete(waiting);
      const taken = this.#window.take(now, waiting.tokens);
      waiting.admit((tokens) => {
        taken.tokens = tokens;
        this.#admitAll();
      });
    }
    this.#timer.stop();
  }
}

/** What may be taken within any minute. */
interface RateLimits {
  readonly requests: number;
  readonly tokens: number;
}

/** A request that was made. Its tokens are a guess until its usage is known. */
interface TakenRequest {
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

/** Ends a call that waits too long in a policy. Gives how to say that it waits no longer. */
function limitWait(
  policy: string,
  { ms, clock }: { readonly ms: number; readonly clock: Clock },
  subscriber: Subscriber<unknown>,
): () => void {
  const message = `The model call waited in ${policy} for ${ms} ms (maxWaitMs) and was not made.`;
  const late = () => subscriber.error(new AgentLoopError('PROVIDER_TIMEOUT', message, { retryable: true }));
  const cancel = after(ms, clock, late);
  subscriber.add(cancel);
  return cancel;
}
