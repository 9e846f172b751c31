import { catchError, defer, from, map, mergeMap, type Observable, of, tap } from 'rxjs';
import { callListener } from '../../call-listener.ts';
import {
  AgentLoopError,
  type Clock,
  type LLMChunk,
  type LLMProvider,
  type LLMResponse,
  type MaybePromise,
  noUsage,
  systemClock,
} from '../../core/contracts/index.ts';
import { within } from '../../core/streams/index.ts';
import {
  aClock,
  aFunction,
  aName,
  assertGiven,
  assertOptions,
  milliseconds,
  wrongOption,
} from '../../options/option-rules.ts';
import { aCacheStore, type CacheStore } from '../../stores/cache/cache-store.ts';
import { definePolicy, type ProviderPolicy } from './provider-policy.ts';
import { isResponse, keyOf, requestOf } from './request-key.ts';

/** Options of `cacheResponses`: where answers are kept, how long, and for whom. */
export interface CacheResponsesOptions {
  /** Where answers are kept. */
  readonly store: CacheStore;
  /** How long an answer may be given. Milliseconds; default 3,600,000, an hour. */
  readonly ttlMs?: number | undefined;
  /**
   * Keeps answers apart that requests alone do not: of tenants, of settings that only the provider knows. Required where the provider does
   * not say which model it asks (`info.model`).
   */
  readonly namespace?: string | undefined;
  /** How long the store may take to find an answer; the call is made without it then. Milliseconds; default 2,000. */
  readonly timeoutMs?: number | undefined;
  /** Replaced by tests. Default: the system's. */
  readonly clock?: Clock | undefined;
  /** Receives errors of the store; the call continues without it. Default: none. */
  readonly onError?: ((error: unknown) => void) | undefined;
}

/**
 * Gives the answer of an equal request again, without a request: equal in messages, tools and settings, asked of the same model at the
 * same address, whatever the turn. Only whole answers are kept, not those that a limit or a filter cut short. What is given again comes
 * in one piece, with a usage of 0, since it took nothing.
 *
 * Keys are `llm:` and a SHA-256 of the whole request, worked out at each call, so that a store shared with others tells nobody what was
 * asked; the answers in it are as they were given. A store that fails, or returns an invalid answer, is ignored. Put it outside of what
 * limits and retries: it waits for nothing. Errors: `INVALID_CONFIG`, naming the option.
 */
export function cacheResponses(options: CacheResponsesOptions): ProviderPolicy {
  assertOptions('cacheResponses', options, {
    store: aCacheStore,
    ttlMs: milliseconds(1),
    namespace: aName,
    timeoutMs: milliseconds(1),
    clock: aClock,
    onError: aFunction,
  });
  assertGiven('cacheResponses', 'store', options.store, 'give a CacheStore, such as new InMemoryCacheStore()');
  return definePolicy('cacheResponses', (stream, provider) => {
    const scope = scopeOf(provider, options.namespace);
    const answers = new CachedAnswers(options);
    return (params) =>
      defer(() => {
        const key = `llm:${keyOf({ ...scope, request: requestOf(params) })}`;
        const ask = (): Observable<LLMChunk> => stream(params).pipe(tap((chunk) => answers.keep(key, chunk)));
        return answers.find(key).pipe(mergeMap((found) => (found ? of(found) : ask())));
      });
  });
}

/** Whose answers they are. */
function scopeOf({ info }: LLMProvider, namespace: string | undefined): object {
  if (info?.model === undefined && namespace === undefined) {
    throw wrongOption(
      'cacheResponses',
      'the provider does not say which model it asks (info.model): give a namespace, so that answers of different models are kept apart',
    );
  }
  const { providerName, model, serverAddress, serverPort } = info ?? {};
  return { providerName, model, serverAddress, serverPort, namespace };
}

class CachedAnswers {
  readonly #options: CacheResponsesOptions;

  constructor(options: CacheResponsesOptions) {
    this.#options = options;
  }

  /** The answer kept under a key, as its one chunk; undefined where there is none. Never errors. */
  find(key: string): Observable<LLMChunk | undefined> {
    return defer(() => observed(this.#get(key))).pipe(
      map((value): LLMChunk | undefined => (isResponse(value) ? { type: 'done', response: unused(value) } : undefined)),
      catchError((error: unknown) => {
        this.#report(error);
        return of(undefined);
      }),
    );
  }

  #get(key: string): MaybePromise<unknown> {
    const { store, timeoutMs: ms = 2_000, clock = systemClock } = this.#options;
    const answer = store.get(key);
    const late = () =>
      new AgentLoopError('UNAVAILABLE', `The store of cacheResponses did not answer within ${ms} ms (timeoutMs).`);
    return answer instanceof Promise ? within({ ms, clock, late }, answer) : answer;
  }

  /** Keeps a whole answer. Nobody waits for the store. */
  keep(key: string, chunk: LLMChunk): void {
    if (chunk.type !== 'done' || !isWhole(chunk.response)) return;
    const { store, ttlMs = 3_600_000 } = this.#options;
    Promise.resolve()
      .then(() => store.set(key, chunk.response, { ttlMs }))
      .catch((error: unknown) => this.#report(error));
  }

  /** What the listener throws must not end the call. */
  #report(error: unknown): void {
    const { onError } = this.#options;
    if (onError) callListener(onError, error, { fields: { option: 'onError of cacheResponses' } });
  }
}

function observed<T>(value: MaybePromise<T>): Observable<T> {
  return value instanceof Promise ? from(value) : of(value);
}

function isWhole({ finishReason }: LLMResponse): boolean {
  return finishReason === undefined || finishReason === 'stop' || finishReason === 'tool_calls';
}

/** Without usage it would count as one whose vendor does not tell what it took. */
function unused(response: LLMResponse): LLMResponse {
  return { ...response, usage: noUsage };
}
