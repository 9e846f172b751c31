import { Observable, type Subscriber, type Subscription } from 'rxjs';
import {
  type AgentLoopError,
  type Clock,
  type Defined,
  type LLMChunk,
  systemClock,
} from '../../core/contracts/index.ts';
import { after } from '../../core/streams/index.ts';
import {
  aClock,
  aFunction,
  assertOptions,
  milliseconds,
  type OptionRule,
  wholeNumber,
} from '../../options/option-rules.ts';
import { isTransient } from '../http-status.ts';
import { mostUnusableRetries, unusableAnswer } from '../read-failure.ts';
import { beginAttempt, LeavingSubscriber, voidAttempt } from './attempt-stream.ts';
import { definePolicy, type ProviderPolicy } from './provider-policy.ts';

/** Options of `retry`: how often, after which failures, and with which pauses. */
export interface RetryOptions {
  /** Requests after the first. Default 5. */
  readonly maxRetries?: number | undefined;
  /** The longest pause before the first retry; it doubles with each. Milliseconds; default 1,000. */
  readonly initialDelayMs?: number | undefined;
  /** The longest pause of all, also of those that the server asks for. Milliseconds; default 60,000. */
  readonly maxDelayMs?: number | undefined;
  /** HTTP statuses worth another try besides those of failures that pass by waiting. Default none. */
  readonly statusCodes?: readonly number[] | undefined;
  /** Gives the share of the longest pause that is waited, from 0 to 1. Default `Math.random`. */
  readonly random?: (() => number) | undefined;
  /** Replaced by tests. Default: the system's. */
  readonly clock?: Clock | undefined;
}

const statusCodesKind: OptionRule = {
  fits: (value) => Array.isArray(value) && value.every((code) => Number.isInteger(code) && code >= 400 && code <= 599),
  must: 'be a list of HTTP statuses from 400 to 599',
};

/**
 * Makes a failed request again, after a pause: up to `initialDelayMs`, doubling up to `maxDelayMs`, a random share of it each time. A
 * pause that the server asks for (`Retry-After`) is waited out exactly; one longer than `maxDelayMs` is not worth it, and the failure
 * passes at once.
 *
 * A request is made again where its error is `retryable`, or has an HTTP status of `statusCodes`; that is no status of a failure that usually
 * passes: an error that says of itself that it does not, such as an exhausted quota, counts more. An answer that nobody can use, such as a
 * malformed call, is asked for twice more at most. A failed attempt is void the moment it fails, also its text. After the last retry its
 * error passes as it came. Unsubscribing, and aborting the call's signal, end a pause at once. Tries are of each call; nothing is shared.
 * Errors: `INVALID_CONFIG`, naming the option.
 */
export function retry(options: RetryOptions = {}): ProviderPolicy {
  assertOptions('retry', options, {
    maxRetries: wholeNumber(0),
    initialDelayMs: milliseconds(0),
    maxDelayMs: milliseconds(0),
    statusCodes: statusCodesKind,
    random: aFunction,
    clock: aClock,
  });
  const settings: RetrySettings = {
    maxRetries: options.maxRetries ?? 5,
    initialDelayMs: options.initialDelayMs ?? 1_000,
    maxDelayMs: options.maxDelayMs ?? 60_000,
    statusCodes: new Set(options.statusCodes),
    random: options.random ?? Math.random,
    clock: options.clock ?? systemClock,
  };
  return definePolicy(
    'retry',
    (stream) => (params) =>
      new Observable((to) => {
        const attempts = new Attempts(settings, () => stream(params), to);
        to.add(attempts);
        attempts.start();
      }),
  );
}

interface RetrySettings extends Defined<Omit<RetryOptions, 'statusCodes'>> {
  readonly statusCodes: ReadonlySet<number>;
}

/** One attempt after the other, each subscribed once the one before is gone. The subscriber of the attempts has it as its teardown. */
class Attempts {
  readonly #settings: RetrySettings;
  readonly #request: () => Observable<LLMChunk>;
  readonly #to: Subscriber<LLMChunk>;
  #failures = 0;
  /** Those of them with an answer that could not be used. */
  #unusable = 0;
  #isDue = false;
  #isStarting = false;
  #attempt: Subscription | undefined;
  #endPause: (() => void) | undefined;

  constructor(settings: RetrySettings, request: () => Observable<LLMChunk>, to: Subscriber<LLMChunk>) {
    this.#settings = settings;
    this.#request = request;
    this.#to = to;
  }

  /** Attempts that follow at once are started by the first: many of them are no deeper than one. */
  start(): void {
    this.#isDue = true;
    if (this.#isStarting) return;
    this.#isStarting = true;
    while (this.#isDue) {
      this.#isDue = false;
      this.#begin();
    }
    this.#isStarting = false;
  }

  unsubscribe(): void {
    this.#attempt?.unsubscribe();
    this.#endPause?.();
  }

  next(chunk: LLMChunk): void {
    this.#to.next(chunk);
  }

  error(error: AgentLoopError): void {
    const isUnusable = error.reason === unusableAnswer;
    const isLast = this.#failures >= this.#settings.maxRetries || (isUnusable && this.#unusable >= mostUnusableRetries);
    const delayMs = isLast ? undefined : delayBeforeRetry(this.#settings, error, this.#failures + 1);
    this.#failures += 1;
    if (isUnusable) this.#unusable += 1;
    if (delayMs === undefined) return this.#to.error(error);
    this.#to.next(voidAttempt(error));
    if (this.#to.closed) return;
    this.#endPause = after(delayMs, this.#settings.clock, () => this.start());
  }

  complete(): void {
    this.#to.complete();
  }

  #begin(): void {
    if (this.#failures > 0) this.#to.next(beginAttempt());
    if (this.#to.closed) return;
    const attempt = new LeavingSubscriber<LLMChunk>(this);
    this.#attempt = attempt;
    this.#request().subscribe(attempt);
  }
}

/** Undefined where another try is not worth it. */
function delayBeforeRetry(settings: RetrySettings, error: AgentLoopError, retryNumber: number): number | undefined {
  if (!isWorthRetrying(settings.statusCodes, error)) return undefined;
  const { retryAfterMs } = error;
  if (retryAfterMs === undefined) return backoffMs(retryNumber, settings);
  return retryAfterMs <= settings.maxDelayMs ? retryAfterMs : undefined;
}

/** The error knows whether it passes by waiting. A status that usually does, in an error that does not, is a quota that is used up. */
function isWorthRetrying(statusCodes: ReadonlySet<number>, { code, status, retryable }: AgentLoopError): boolean {
  return retryable || (status !== undefined && statusCodes.has(status) && !isTransient(code, status));
}

interface BackoffOptions {
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
