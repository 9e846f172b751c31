import { defer, Observable, type Subscriber, Subscription } from 'rxjs';
import { type Clock, type LLMChunk, type LLMProvider, systemClock } from '../../core/contracts/index.ts';
import { otherProvider } from './other-provider.ts';
import { policyNames } from './policy-names.ts';
import { aClock, anyMs, anything, assertGiven, assertOptions } from './policy-options.ts';
import { assertOrder } from './policy-order.ts';
import { assertProvider, definePolicy, type ProviderPolicy } from './provider-policy.ts';

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
  assertOptions('hedge', options, { delayMs: anyMs, to: anything, clock: aClock });
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
        subscriber.add(clock.schedule(delayMs, () => race.enter(defer(() => second(params)))));
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
