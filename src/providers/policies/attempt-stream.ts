import { context as activeContext } from '@opentelemetry/api';
import { concat, defer, filter, from, lastValueFrom, map, Observable, type Observer, of, Subscriber } from 'rxjs';
import {
  AgentLoopError,
  type LLMCallParams,
  type LLMChunk,
  type LLMProvider,
  type LLMResponse,
  messageOf,
  type SilenceLimit,
  systemClock,
} from '../../core/contracts/index.ts';
import { CallParams, ReportedUsage, responseFlaw } from '../../core/model-call/index.ts';
import { AbortScope, DirectSubscriber } from '../../core/streams/index.ts';
import { type AttemptSpan, startAttempt } from '../../observability/spans/call-spans.ts';
import { headersOf, readFailure } from '../read-failure.ts';
import { policyNames } from './policy-order.ts';

/** Makes a model call: cold, `done` last and once, every error an `AgentLoopError`. */
export type StreamCall = (params: LLMCallParams) => Observable<LLMChunk>;

/**
 * The calls of a provider in the one form that policies compose: `call` becomes a stream of its answer alone. Each request gets its
 * `llm.call` span, unless the provider does that itself (`tracesAttempts`). Completes
 * behind `done`; an answer of a wrong shape, and an end without one, are `PROVIDER_PROTOCOL`. Unsubscribing leaves the request: what
 * streams is unsubscribed, `call` is given a signal that is aborted. A request that is silent for longer than the loop's `modelSilenceMs`
 * fails with `PROVIDER_TIMEOUT`. Everything that a policy wraps has that form.
 */
export function attemptStream(provider: LLMProvider): StreamCall {
  if (policyNames(provider).length > 0 && provider.stream) return provider.stream.bind(provider);
  return (params) =>
    new Observable((subscriber) => {
      const attempt = new Attempt(provider, params);
      // In one subscriber: every token passes here.
      const chunks = new DirectSubscriber<LLMChunk>({
        next(chunk) {
          try {
            attempt.take(chunk);
          } catch (flaw) {
            return subscriber.error(attempt.fail(flaw));
          }
          subscriber.next(chunk);
          if (chunk.type === 'done') subscriber.complete();
        },
        error: (thrown) => subscriber.error(attempt.fail(thrown)),
        complete: () => subscriber.error(attempt.fail(noAnswer())),
      });
      subscriber.add(() => {
        chunks.unsubscribe();
        attempt.leave();
      });
      attempt.request(chunks);
      if (subscriber.closed) return;
      attempt.limit((error) => {
        // The provider reports the usage of a request that is left.
        chunks.unsubscribe();
        subscriber.error(attempt.fail(error));
      });
    });
}

/** One request and what is known of it. */
class Attempt {
  readonly #provider: LLMProvider;
  readonly #params: LLMCallParams;
  readonly #span: AttemptSpan | undefined;
  readonly #reported = new ReportedUsage();
  readonly #silence: SilenceLimit | undefined;
  #ended = false;

  constructor(provider: LLMProvider, params: LLMCallParams) {
    this.#provider = provider;
    if (provider.tracesAttempts !== true)
      this.#span = startAttempt(params, { info: provider.info, isStreamed: isStreaming(provider) });
    const noteUsage: LLMCallParams['noteUsage'] = (usage) => {
      this.#reported.add(usage);
      params.noteUsage?.(usage);
    };
    const span = this.#span;
    // With a span of its own, the request's notes are also on that span.
    const note: LLMCallParams['note'] = (given) => {
      span?.noted(given);
      params.note?.(given);
    };
    const silence = params.silence?.another();
    this.#silence = silence;
    this.#params = CallParams.changed(params, {
      ...(span ? { traceContext: span.traceContext, note } : {}),
      noteUsage,
      ...(silence && { silence }),
    });
  }

  /** Made in the context of its span, so that what instruments the provider's HTTP client nests below. */
  request(to: Subscriber<LLMChunk>): void {
    const span = this.#span;
    if (span) activeContext.with(span.traceContext, () => this.#subscribe(to));
    else this.#subscribe(to);
  }

  #subscribe(to: Subscriber<LLMChunk>): void {
    try {
      from(sourceOf(this.#provider, this.#params)).subscribe(to);
    } catch (thrown) {
      to.error(thrown);
    }
  }

  /** Calls `onSilence` where the model is silent for longer than the loop allows. */
  limit(onSilence: (error: AgentLoopError) => void): void {
    this.#silence?.start(onSilence);
  }

  take(chunk: LLMChunk): void {
    this.#silence?.heard();
    if (chunk.type === 'done') {
      const flaw = responseFlaw(chunk.response);
      if (flaw) throw flaw;
      this.#ended = true;
      this.#span?.done(chunk.response);
      return;
    }
    if (chunk.type === 'attempt') return;
    this.#span?.streamed();
  }

  fail(thrown: unknown): AgentLoopError {
    const error = providerFailure(thrown);
    this.#ended = true;
    this.#span?.fail(error, this.#reported.sum);
    return error;
  }

  /** The request is over: answered, failed, or left before its end. */
  leave(): void {
    this.#silence?.end();
    if (this.#ended) return;
    this.#span?.cancel(this.#reported.sum);
  }
}

function isStreaming({ stream, capabilities }: LLMProvider): boolean {
  return stream !== undefined && capabilities?.streaming !== false;
}

/** The chunks of one request; one of a provider that does not stream is its answer alone. Leaving it aborts its signal. */
export function sourceOf(provider: LLMProvider, params: LLMCallParams): Observable<LLMChunk> {
  if (provider.stream && isStreaming(provider)) return provider.stream(params);
  return new Observable((subscriber) => {
    const scope = CallParams.scopeOf(params)?.child() ?? new AbortScope();
    let answered = false;
    const answer = (response: LLMResponse): void => {
      answered = true;
      subscriber.next({ type: 'done', response });
      subscriber.complete();
    };
    const fail = (error: unknown): void => {
      answered = true;
      subscriber.error(error);
    };
    subscriber.add(() => {
      if (answered) scope.release();
      else scope.abort(new AgentLoopError('CANCELED', 'The model call was cancelled before its end.'));
    });
    provider.call(CallParams.changed(params, {}, scope)).then(answer, fail);
  });
}

/** The response in the last chunk of a call. */
export function responseOf(chunks: Observable<LLMChunk>): Promise<LLMResponse> {
  const responses = chunks.pipe(
    filter((chunk) => chunk.type === 'done'),
    map(({ response }) => response),
  );
  return lastValueFrom(responses);
}

/** Whatever a provider throws as an error with a code: by its HTTP status and body, where it carries them as the SDKs of vendors do. */
function providerFailure(thrown: unknown): AgentLoopError {
  if (AgentLoopError.isInstance(thrown)) return thrown;
  const message = `The model provider failed: ${messageOf(thrown)}`;
  const status = statusOf(thrown);
  if (status === undefined) return new AgentLoopError('PROVIDER_FAILED', message, { cause: thrown });
  const { error, headers } = bodyOf(thrown);
  const body = error ?? messageOf(thrown);
  const { code, retryable, reason, retryAfterMs, details } = readFailure({
    body,
    status,
    headers,
    now: systemClock.now(),
  });
  return new AgentLoopError(code, message, { cause: thrown, status, retryable, reason, retryAfterMs, details });
}

/** The body and the headers of an error of a vendor's SDK. */
function bodyOf(thrown: unknown): { readonly error?: unknown; readonly headers: Headers | undefined } {
  if (typeof thrown !== 'object' || thrown === null) return { headers: undefined };
  const error: unknown = 'error' in thrown ? thrown.error : undefined;
  return { error, headers: 'headers' in thrown ? headersOf(thrown.headers) : undefined };
}

function statusOf(thrown: unknown): number | undefined {
  if (typeof thrown !== 'object' || thrown === null) return undefined;
  const status: unknown = 'status' in thrown ? thrown.status : 'statusCode' in thrown ? thrown.statusCode : undefined;
  return typeof status === 'number' && status >= 400 && status < 600 ? status : undefined;
}

function noAnswer(): AgentLoopError {
  return new AgentLoopError(
    'PROVIDER_PROTOCOL',
    'The model provider completed its stream without a "done" chunk; emit { type: "done", response } last.',
  );
}

/** What the attempt that failed streamed is void, for the reason of its error's code. */
export function voidAttempt({ code }: AgentLoopError): LLMChunk {
  return { type: 'attempt', state: 'void', reason: code };
}

export function beginAttempt(): LLMChunk {
  return { type: 'attempt', state: 'begin' };
}

/** Makes another attempt at once. */
export function nextAttempt(failed: AgentLoopError, attempt: () => Observable<LLMChunk>): Observable<LLMChunk> {
  return concat(of(voidAttempt(failed), beginAttempt()), defer(attempt));
}

/**
 * Hands chunks over without the guard that RxJS puts between. An error is handed over once the source is torn down, so that a request that
 * is left has ended by then.
 */
export class LeavingSubscriber<T> extends Subscriber<T> {
  readonly #observer: Observer<T>;

  constructor(observer: Observer<T>) {
    super();
    this.#observer = observer;
  }

  override next(value: T): void {
    if (!this.closed && !this.isStopped) this.#observer.next(value);
  }

  protected override _error(error: unknown): void {
    this.unsubscribe();
    this.#observer.error(error);
  }

  protected override _complete(): void {
    try {
      this.#observer.complete();
    } finally {
      this.unsubscribe();
    }
  }
}
