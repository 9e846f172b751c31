import { type Context, createContextKey, type Span } from '@opentelemetry/api';
import type { LLMCallParams, LLMProviderInfo, LLMResponse, Usage } from '../../core/contracts/index.ts';
import { finishLlmSpan, startLlmSpan, usageOnSpan } from './llm-span.ts';
import {
  cancelSpan,
  failSpan,
  isSilent,
  silentSpanBelow,
  type TracedSpan,
  type TurnTracing,
} from './tracing-options.ts';

const attemptsKey = createContextKey('millrace: tracing of the attempts of a model call');

export interface AttemptTracingOptions {
  readonly tracing: TurnTracing;
  readonly iteration: number;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/** What whoever makes the requests of one model call needs for their spans. Travels in the call's trace context. */
class AttemptTracing {
  readonly options: AttemptTracingOptions;

  constructor(options: AttemptTracingOptions) {
    this.options = options;
  }
}

/** No span for the model call itself: each request that is made in the context gets its own below `parent`, by {@link startAttempt}. */
export function leaveToAttempts(options: AttemptTracingOptions, parent: Context): TracedSpan {
  if (isSilent(options.tracing)) return silentSpanBelow(parent);
  return silentSpanBelow(parent.setValue(attemptsKey, new AttemptTracing(options)));
}

/** The context for what makes its own spans: a turn that starts below a hook is not one of that hook's requests. */
export function withoutAttempts(parent: Context): Context {
  return parent.getValue(attemptsKey) === undefined ? parent : parent.deleteValue(attemptsKey);
}

/** Starts the `llm.call` span of one request. Undefined where the call is not traced, or has a span already. */
export function startAttempt(params: LLMCallParams, info: LLMProviderInfo | undefined): AttemptSpan | undefined {
  const attempts = params.traceContext?.getValue(attemptsKey);
  if (params.traceContext === undefined || !(attempts instanceof AttemptTracing)) return undefined;
  const { tracing, iteration } = attempts.options;
  const parent = params.traceContext.deleteValue(attemptsKey);
  return new AttemptSpan(attempts.options, startLlmSpan(tracing, { iteration, params, info }, parent));
}

/** The span of one request. Ends once, with the first of `done`, `fail` and `cancel`. */
export class AttemptSpan {
  readonly traceContext: Context;
  readonly #span: Span;
  readonly #options: AttemptTracingOptions;
  readonly #startedAt: number;
  #firstChunkAt: number | undefined;
  #ended = false;

  constructor(options: AttemptTracingOptions, { span, traceContext }: TracedSpan) {
    this.#options = options;
    this.#span = span;
    this.traceContext = traceContext;
    this.#startedAt = options.now();
  }

  /** Something came. */
  streamed(): void {
    this.#firstChunkAt ??= this.#options.now();
  }

  done(response: LLMResponse): void {
    const waited =
      this.#firstChunkAt === undefined
        ? {}
        : { timeToFirstChunkSeconds: (this.#firstChunkAt - this.#startedAt) / 1_000 };
    this.#end((span) => finishLlmSpan(this.#options.tracing, span, { response, ...waited }));
  }

  /** `usage` is what it took all the same. */
  fail(error: unknown, usage?: Usage): void {
    this.#end((span) => {
      usageOnSpan(span, usage);
      failSpan(span, error);
    });
  }

  cancel(usage?: Usage): void {
    this.#end((span) => {
      usageOnSpan(span, usage);
      cancelSpan(span);
    });
  }

  #end(describe: (span: Span) => void): void {
    if (this.#ended) return;
    this.#ended = true;
    describe(this.#span);
    this.#span.end();
  }
}
