import {
  type Attributes,
  type Context,
  INVALID_SPAN_CONTEXT,
  INVALID_TRACEID,
  ProxyTracerProvider,
  type Span,
  type SpanOptions,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import { AgentLoopError, messageOf, nameOf } from '../../core/contracts/index.ts';
import { withoutSecrets } from '../../redaction.ts';
import { packageVersion } from '../../version.ts';
import { attribute } from '../attributes.ts';
import { nextIdBelow, withIds } from './chosen-ids.ts';
import { instruments, meteredTracer } from './instruments.ts';

/** What every span of a turn says of it. */
export interface TurnIds {
  readonly taskId: string;
  readonly contextId: string;
  readonly agentId: string;
  readonly userId?: string;
}

export interface TracingOptions {
  /** Default true. False: the turn makes no span and its parent's context reaches tools and model unchanged. */
  readonly enableTracing?: boolean | undefined;
  /** Default: what `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` says, else false. */
  readonly captureContent?: boolean | undefined;
  /** Default `'millrace'`. */
  readonly spanNames?: 'millrace' | 'semconv' | undefined;
  /** Applied to each captured text before it is cut, and to the messages of errors. Default: the text as it is. */
  readonly redact?: ((text: string) => string) | undefined;
}

/** What the span functions need of a turn; made once per turn. */
export interface TurnTracing {
  readonly tracer: Tracer;
  /** False where its spans are at most measured. */
  readonly isTraced: boolean;
  /** Whether none of its spans records anything, nor is measured. Asked before a span is described, which costs more than all else without an SDK. */
  readonly isSilent: boolean;
  readonly ids: TurnIds;
  readonly captureContent: boolean;
  readonly spanNames: 'millrace' | 'semconv';
  /** The attributes that all spans of the turn carry. */
  readonly base: Attributes;
  redact(text: string): string;
  /** Characters that one content attribute may have, before JSON escapes. */
  readonly maxContentLength: number;
}

/** A span, and the context in which it is the parent. */
export interface TracedSpan {
  readonly span: Span;
  /** The context in which the span is the parent. */
  readonly traceContext: Context;
}

/** Of spans whose turn has one of its own. */
const redactions = new WeakMap<Span, (text: string) => string>();
const contentLength = 16_384;
const noAttributes: Attributes = {};
const silentSpan = trace.wrapSpanContext(INVALID_SPAN_CONTEXT);
const silentTracer: Tracer = {
  startSpan: () => silentSpan,
  startActiveSpan() {
    throw new AgentLoopError(
      'INTERNAL',
      'spans of a turn are started with an explicit parent, never as the active one',
    );
  },
};

/**
 * The tracing of one turn. Where tracing is off, or no SDK is registered when the turn starts, its spans are one shared
 * span that records nothing. Where a meter provider is registered they are measured all the same.
 */
export function turnTracing(options: TracingOptions, ids: TurnIds): TurnTracing {
  const tracer = options.enableTracing === false ? undefined : registeredTracer();
  const measured = instruments();
  const isTraced = tracer !== undefined;
  const isOnlyMeasured = !isTraced && measured !== undefined;
  return {
    tracer: measured === undefined ? (tracer ?? silentTracer) : meteredTracer(tracer ?? silentTracer, measured),
    isTraced,
    isSilent: !isTraced && measured === undefined,
    ids,
    captureContent: !isOnlyMeasured && (options.captureContent ?? captureFromEnvironment()),
    spanNames: options.spanNames ?? 'millrace',
    base: isTraced || measured !== undefined ? baseAttributes(ids) : noAttributes,
    redact: options.redact === undefined ? unchanged : guarded(options.redact),
    maxContentLength: contentLength,
  };
}

interface ChildSpanOptions extends SpanOptions {
  /**
   * What the span is called among those below its parent, whatever `spanNames` says: its id follows from it. Null: the id is random. Default:
   * the name.
   */
  readonly key?: string | null;
  /** An id that was chosen before. */
  readonly spanId?: string | undefined;
}

/**
 * Starts a span below the span of `parent`. The returned context is `parent` itself where the span has no identity, because
 * setting a span copies the context's map.
 */
export function startChildSpan(
  tracing: TurnTracing,
  name: string,
  given: ChildSpanOptions,
  parent: Context,
): TracedSpan {
  if (tracing.isSilent) return silentSpanBelow(parent);
  const { key = name, spanId: chosen, ...options } = given;
  const described = { ...options, attributes: { ...tracing.base, ...options.attributes } };
  const spanId = chosen ?? (key === null ? undefined : nextIdBelow(parent, key));
  const start = () => tracing.tracer.startSpan(name, described, parent);
  const span = spanId === undefined ? start() : withIds({ spanId }, start);
  if (tracing.redact !== unchanged) redactions.set(span, tracing.redact);
  const traceContext = span.spanContext().traceId === INVALID_TRACEID ? parent : trace.setSpan(parent, span);
  return { span, traceContext };
}

const silentSpans = new WeakMap<Context, TracedSpan>();

/** A span that records nothing; one for all below the same context. */
export function silentSpanBelow(parent: Context): TracedSpan {
  const known = silentSpans.get(parent);
  if (known) return known;
  const silent = { span: silentSpan, traceContext: parent };
  silentSpans.set(parent, silent);
  return silent;
}

/** This engine's tracer, where an SDK is registered. */
export function registeredTracer(): Tracer | undefined {
  const provider = trace.getTracerProvider();
  return provider instanceof ProxyTracerProvider
    ? provider.getDelegateTracer('millrace', packageVersion)
    : provider.getTracer('millrace', packageVersion);
}

/**
 * Marks a span as failed: status ERROR with the message of the error, `error.type`: our code, else the error's name, and the exception, which is
 * the error that ours wraps, where it wraps one.
 */
export function failSpan(span: Span, error: unknown): void {
  const type = AgentLoopError.isInstance(error) ? error.code : nameOf(error);
  markFailed(span, { type, message: messageOf(error), thrown: error });
}

interface SpanFailure {
  readonly type: string;
  readonly message: string;
  /** Where something was thrown: the exception is described by it. */
  readonly thrown?: unknown;
}

/** The same for a failure that is data. Its texts go out through `redact` of the turn, and without what looks like a secret. */
export function markFailed(span: Span, { type, message, thrown }: SpanFailure): void {
  if (!span.isRecording()) return;
  const redact = redactions.get(span) ?? unchanged;
  const { type: name, ...exception } =
    thrown === undefined ? { type, message: cleanText(message, redact) } : exceptionOf(thrown, redact);
  span.recordException({ name, ...exception });
  span.setAttribute(attribute.errorType, type);
  span.setStatus({ code: SpanStatusCode.ERROR, message: cleanText(message, redact) });
}

/** What spans and logs say of something that was thrown. */
interface ExceptionText {
  /** The class of the error; the code of an error of ours that wraps no other. */
  readonly type: string;
  readonly message: string;
  /** With the stacks of its causes. Absent where no error was thrown. */
  readonly stack?: string;
}

/**
 * Describes what was thrown; where an error of ours wraps another, the other. The texts go through `redact`, and leave out what looks like a
 * secret.
 */
export function exceptionOf(thrown: unknown, redact: (text: string) => string): ExceptionText {
  const chain = causesOf(thrown);
  const isForeign = (error: unknown) => !AgentLoopError.isInstance(error);
  const first = Math.max(0, chain.some(isForeign) ? chain.findIndex(isForeign) : chain.length - 1);
  const origin = chain[first];
  const stacks = chain.slice(first).flatMap((error) => (error instanceof Error ? (error.stack ?? String(error)) : []));
  const message = cleanText(messageOf(origin), redact);
  if (stacks.length === 0) return { type: classOf(origin), message };
  return { type: classOf(origin), message, stack: cleanText(stacks.join('\nCaused by: '), redact) };
}

const maxCauses = 8;

/** What was thrown, then its cause, and so on. */
function causesOf(thrown: unknown): readonly unknown[] {
  const chain: unknown[] = [thrown];
  for (let error = thrown; error instanceof Error && error.cause !== undefined; error = error.cause) {
    if (chain.length === maxCauses || chain.includes(error.cause)) break;
    chain.push(error.cause);
  }
  return chain;
}

/** A class of the caller's that sets no name is named all the same. */
function classOf(error: unknown): string {
  if (AgentLoopError.isInstance(error)) return error.code;
  const name = nameOf(error);
  return name === 'Error' && error instanceof Error ? error.constructor.name || name : name;
}

function cleanText(text: string, redact: (text: string) => string): string {
  return String(withoutSecrets(text, redact));
}

/** Marks a span as cancelled, which is no error: its status stays UNSET. */
export function cancelSpan(span: Span): void {
  span.setAttribute(attribute.outcome, 'canceled');
}

function captureFromEnvironment(): boolean {
  const value = process.env['OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT']?.trim().toUpperCase();
  return value === 'TRUE' || value === 'SPAN_ONLY' || value === 'SPAN_AND_EVENT';
}

function baseAttributes(ids: TurnIds): Attributes {
  const attributes: Attributes = {
    [attribute.conversationId]: ids.contextId,
    [attribute.sessionId]: ids.contextId,
    [attribute.taskId]: ids.taskId,
    [attribute.agentId]: ids.agentId,
  };
  if (ids.userId !== undefined) attributes[attribute.userId] = ids.userId;
  return attributes;
}

function unchanged(text: string): string {
  return text;
}

/** A redaction that throws exports nothing of the text, and never disturbs the turn. */
function guarded(redact: (text: string) => string): (text: string) => string {
  return (text) => {
    try {
      return redact(text);
    } catch {
      return '[redaction failed]';
    }
  };
}
