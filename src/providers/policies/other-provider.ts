import { catchError, defer, Observable, type Subscriber, Subscription, throwError } from 'rxjs';
import {
  type AgentLoopError,
  type Clock,
  type ErrorCode,
  errorCodes,
  type LLMChunk,
  type LLMProvider,
  systemClock,
} from '../../core/contracts/index.ts';
import { after } from '../../core/streams/index.ts';
import {
  aClock,
  anything,
  assertGiven,
  assertOptions,
  milliseconds,
  type OptionRule,
  wrongOption,
} from '../../options/option-rules.ts';
import { attemptStream, nextAttempt, type StreamCall } from './attempt-stream.ts';
import { assertOrder, policyNames } from './policy-order.ts';
import { assertProvider, definePolicy, type ProviderPolicy } from './provider-policy.ts';

/** Options of `fallback`: who is asked next, and after which failures. */
export interface FallbackOptions {
  /** Asked in this order once the provider before has failed. */
  readonly to: LLMProvider | readonly LLMProvider[];
  /** The codes of the failures that another provider may mend. Default: all that begin with `PROVIDER_`, and `CONTEXT_OVERFLOW`. */
  readonly on?: readonly ErrorCode[] | undefined;
}

const codesKind: OptionRule = {
  fits: (value) => Array.isArray(value) && value.every((code) => errorCodes.includes(code)),
  must: 'be a list of error codes, such as PROVIDER_SERVER',
};

/**
 * Asks another provider where one has failed, also where it broke off in the middle of its answer: what it streamed is void then. Each
 * call begins with the first provider again. All are asked the same, but for a `model` and `providerOptions` of the call, which are the
 * first's; so the tools, and the history with the calls in it, have to suit them all. The capabilities and the information that show are
 * those of the first. Where all fail, the last error passes. Errors: `INVALID_CONFIG`, naming the option.
 */
export function fallback(options: FallbackOptions): ProviderPolicy {
  assertOptions('fallback', options, { to: anything, on: codesKind });
  assertGiven('fallback', 'to', options.to, 'give the provider that is asked instead, or several');
  const others = [options.to].flat();
  if (others.length === 0) throw wrongOption('fallback', 'to is an empty list; give at least one provider');
  for (const other of others) {
    assertProvider('fallback', other);
    assertOrder(['fallback', ...policyNames(other)]);
  }
  const on: ReadonlySet<ErrorCode> = new Set(options.on ?? defaultCodes);
  return definePolicy('fallback', (stream) =>
    others.map(otherProvider).reduce((before, next) => askNext(before, next, on), stream),
  );
}

/** A prompt that is too long for one model may fit into the context window of another. */
const defaultCodes = errorCodes.filter((code) => code.startsWith('PROVIDER_') || code === 'CONTEXT_OVERFLOW');

/** Asks `next` where `before` fails. */
function askNext(before: StreamCall, next: StreamCall, on: ReadonlySet<ErrorCode>): StreamCall {
  return (params) =>
    before(params).pipe(
      catchError((error: AgentLoopError) =>
        on.has(error.code) ? nextAttempt(error, () => next(params)) : throwError(() => error),
      ),
    );
}

/** Options of `hedge`: when the second request is made, and to whom. */
export interface HedgeOptions {
  /** How long the first request may stay silent before the second is made. Milliseconds. */
  readonly delayMs: number;
  /** Takes the second request, without the `model` and `providerOptions` of the call, if it has any. Default: the same provider. */
  readonly to?: LLMProvider | undefined;
  /** Replaced by tests. Default: the system's. */
  readonly clock?: Clock | undefined;
}

/**
 * Makes a second request where the first has given nothing for `delayMs`. The one that gives something first answers; the other is left
 * at once, its connection closed. A request that fails while the other is under way leaves the answer to it; a first one that fails
 * before the second was made is a failure, which is for `retry`. What the loser took is counted, as a guess, in `usage.discarded`. A
 * provider without `stream` gives something only with its whole answer. Errors: `INVALID_CONFIG`, naming the option.
 */
export function hedge(options: HedgeOptions): ProviderPolicy {
  assertOptions('hedge', options, { delayMs: milliseconds(0), to: anything, clock: aClock });
  assertGiven('hedge', 'delayMs', options.delayMs, 'give the silence, in milliseconds, that is worth a second request');
  const { delayMs, to, clock = systemClock } = options;
  if (to !== undefined) {
    assertProvider('hedge', to);
    assertOrder(['hedge', ...policyNames(to)]);
  }
  return definePolicy('hedge', (stream) => {
    const second = to === undefined ? stream : otherProvider(to);
    return (params) =>
      new Observable((subscriber) => {
        const race = new Race(subscriber);
        subscriber.add(after(delayMs, clock, () => race.enter(defer(() => second(params)))));
        race.enter(defer(() => stream(params)));
      });
  });
}

/** Streams of which the first to give something is passed on. */
class Race {
  readonly #to: Subscriber<LLMChunk>;
  readonly #racers = new Set<Subscription>();
  #winner: Subscription | undefined;

  constructor(to: Subscriber<LLMChunk>) {
    this.#to = to;
  }

  enter(source: Observable<LLMChunk>): void {
    if (this.#winner !== undefined || this.#to.closed) return;
    const racer = new Subscription();
    this.#racers.add(racer);
    this.#to.add(racer);
    racer.add(
      source.subscribe({
        next: (chunk) => this.#take(racer, chunk),
        error: (error: unknown) => this.#fail(racer, error),
        complete: () => this.#winner === racer && this.#to.complete(),
      }),
    );
  }

  /** Attempts within a racer show once it leads: before, nothing of it was shown that could be void. */
  #take(racer: Subscription, chunk: LLMChunk): void {
    if (this.#winner === undefined && chunk.type !== 'attempt') this.#decide(racer);
    if (this.#winner === racer) this.#to.next(chunk);
  }

  #decide(winner: Subscription): void {
    this.#winner = winner;
    for (const racer of this.#racers) if (racer !== winner) racer.unsubscribe();
  }

  #fail(racer: Subscription, error: unknown): void {
    this.#racers.delete(racer);
    if (this.#racers.size === 0 || this.#winner === racer) this.#to.error(error);
  }
}

/**
 * The calls of a provider that stands in for another. What a call sets in the words of the other, its model and the vendor's options, is
 * left out: this one has a model of its own.
 */
function otherProvider(provider: LLMProvider): StreamCall {
  const stream = attemptStream(provider);
  return ({ model: _, providerOptions: _options, ...params }) => stream(params);
}
