import { defer, Observable, type Subscriber, takeUntil, tap } from 'rxjs';
import { AgentLoopError, type Clock, type LLMChunk, systemClock } from '../../core/contracts/index.ts';
import { after, Timer } from '../../core/streams/index.ts';
import { aClock, assertOptions, milliseconds, wrongOption } from '../../options/option-rules.ts';
import { definePolicy, type ProviderPolicy } from './provider-policy.ts';

/** Options of `timeout`. A request that takes longer fails with `PROVIDER_TIMEOUT`. */
export interface TimeoutOptions {
  /** From the request to the first piece of the answer. Milliseconds; default no limit. */
  readonly firstChunkMs?: number | undefined;
  /** From one piece of the answer to the next. Milliseconds; default no limit. */
  readonly betweenChunksMs?: number | undefined;
  /** From the request to the whole answer. Milliseconds; default no limit. */
  readonly totalMs?: number | undefined;
  /** Replaced by tests. Default: the system's. */
  readonly clock?: Clock | undefined;
}

/**
 * Leaves a request that takes too long, its connection closed: `PROVIDER_TIMEOUT`, which is worth a retry. At least one limit has to be
 * given. Text, reasoning and pieces of calls are pieces of the answer; a provider without `stream` gives its only one at the end. The
 * limits on chunks belong around single requests, inside of `retry` and whatever else waits; `totalMs` alone may stand anywhere and is
 * then a limit on all that stands inside. Errors: `INVALID_CONFIG`, naming the option.
 */
export function timeout(options: TimeoutOptions): ProviderPolicy {
  assertOptions('timeout', options, {
    firstChunkMs: milliseconds(1),
    betweenChunksMs: milliseconds(1),
    totalMs: milliseconds(1),
    clock: aClock,
  });
  const { firstChunkMs, betweenChunksMs, totalMs } = options;
  const limitsChunks = firstChunkMs !== undefined || betweenChunksMs !== undefined;
  if (!limitsChunks && totalMs === undefined) {
    throw wrongOption('timeout', 'no limit is given; set firstChunkMs, betweenChunksMs or totalMs');
  }
  return definePolicy(limitsChunks ? 'timeout' : 'deadline', (stream, { info }) => {
    const model = info?.model === undefined ? 'The model' : `The model ${info.model}`;
    return (params) =>
      defer(() => {
        const watch = new TimeWatch(options, model);
        return stream(params).pipe(
          tap((chunk) => watch.saw(chunk)),
          takeUntil(watch.expired()),
        );
      });
  });
}

/** The time limits of one request. One timer looks at the time of the last piece, instead of one for each. */
class TimeWatch {
  readonly #options: TimeoutOptions;
  readonly #model: string;
  readonly #clock: Clock;
  #lastAt: number;
  #begun = false;
  #expire: Subscriber<never> | undefined;
  readonly #silence: Timer;

  constructor(options: TimeoutOptions, model: string) {
    this.#options = options;
    this.#model = model;
    this.#clock = options.clock ?? systemClock;
    this.#silence = new Timer(this.#clock);
    this.#lastAt = this.#clock.now();
  }

  /** Errors when a limit is reached. Subscribed at the start of the request, and no longer than it lasts. */
  expired(): Observable<never> {
    return new Observable((subscriber) => {
      this.#expire = subscriber;
      const { totalMs, firstChunkMs } = this.#options;
      if (totalMs !== undefined) {
        const what = `did not answer within ${totalMs} ms (totalMs)`;
        subscriber.add(after(totalMs, this.#clock, () => this.#fail(what)));
      }
      if (firstChunkMs !== undefined) this.#watchSilence(firstChunkMs);
      subscriber.add(() => this.#silence.close());
    });
  }

  saw(chunk: LLMChunk): void {
    if (chunk.type === 'attempt' || chunk.type === 'done') return;
    this.#lastAt = this.#clock.now();
    if (this.#begun) return;
    this.#begun = true;
    this.#silence.stop();
    const { betweenChunksMs } = this.#options;
    if (betweenChunksMs !== undefined) this.#watchSilence(betweenChunksMs);
  }

  #watchSilence(ms: number): void {
    this.#silence.set(ms, () => this.#checkSilence());
  }

  #checkSilence(): void {
    const { firstChunkMs, betweenChunksMs } = this.#options;
    const limitMs = (this.#begun ? betweenChunksMs : firstChunkMs) ?? 0;
    const leftMs = limitMs - (this.#clock.now() - this.#lastAt);
    if (leftMs > 0) this.#watchSilence(leftMs);
    else if (this.#begun) this.#fail(`fell silent for ${limitMs} ms in the middle of its answer (betweenChunksMs)`);
    else this.#fail(`gave nothing within ${limitMs} ms (firstChunkMs)`);
  }

  #fail(what: string): void {
    const message = `${this.#model} ${what}: try again, or raise the limit.`;
    this.#expire?.error(new AgentLoopError('PROVIDER_TIMEOUT', message, { retryable: true }));
  }
}
