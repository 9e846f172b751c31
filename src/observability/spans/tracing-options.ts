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
import { schemaOfConventions } from './conventions.ts';
import { type Instruments, instruments, MeteredSpan } from './instruments.ts';
import { hrTime, type SpanClock, spanClock, TimedSpan } from './timed-span.ts';

/** The ids of a turn on all its spans. */
export interface TurnIds {
  readonly taskId: string;
  readonly contextId: string;
  readonly agentId: string;
  readonly userId?: string;
}

export interface TracingOptions {
  /** Default true. False: the turn creates no span and its parent's context reaches tools and model unchanged. */
  readonly enableTracing?: boolean | undefined;
  /** Default: the value of `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`, else false. */
  readonly captureContent?: boolean | undefined;
  /** Default `'millrace'`. */
  readonly spanNames?: 'millrace' | 'semconv' | undefined;
  /** Applied to each captured string before it is truncated, and to the messages of errors. Default: unchanged. */
  readonly redact?: ((text: string) => string) | undefined;
}

/** The tracing of a turn for the span functions; created once per turn. */
export interface TurnTracing {
  readonly tracer: Tracer;
  /** Absent if nothing is measured. */
  readonly measured: Instruments | undefined;
  /** The clock of restored spans, whose time has passed. Absent: the clock of the process. */
  readonly clock?: SpanClock;
  /** False if its spans are at most measured. */
  readonly isTraced: boolean;
  /** Whether its spans are neither recorded nor measured. Checked before a span's attributes are built, which is the main cost without an SDK. */
  readonly isSilent: boolean;
  readonly ids: TurnIds;
  readonly captureContent: boolean;
  readonly spanNames: 'millrace' | 'semconv';
  /** The attributes that all spans of the turn carry. */
  readonly base: Attributes;
  redact(text: string): string;
  /** The maximum number of characters of one content attribute, before JSON escapes. */
  readonly maxContentLength: number;
}

/** A span, and the context in which it is the parent. */
export interface TracedSpan {
  readonly span: Span;
  /** The context in which the span is the parent. */
  readonly traceContext: Context;
}

/** The redactions of spans whose turn has one. */
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
 * The tracing of one turn. If tracing is off, or no SDK is registered when the turn starts, its spans are one shared
 * span that records nothing. With a registered meter provider they are still measured.
 */
export function turnTracing(options: TracingOptions, ids: TurnIds): TurnTracing {
  const tracer = options.enableTracing === false ? undefined : registeredTracer();
  const measured = instruments();
  const isTraced = tracer !== undefined;
  const isOnlyMeasured = !isTraced && measured !== undefined;
  return {
    tracer: tracer ?? silentTracer,
    measured,
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
   * The key of the span among its siblings, whatever `spanNames` says: its id derives from it. Null: the id is random. Default:
   * the name.
   */
  readonly key?: string | null;
  /** An id chosen before. */
  readonly spanId?: string | undefined;
}

/**
 * Starts a span below the span of `parent`. Returns `parent` itself as the context if the span has no identity, because
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
  const { tracer, measured, base } = tracing;
  const attributes = { ...base, ...options.attributes };
  const above = trace.getSpan(parent);
  const clock = tracing.clock ?? (above instanceof TimedSpan ? above.clock : spanClock());
  const described = { ...options, attributes, startTime: hrTime(clock()) };
  const spanId = chosen ?? (key === null ? undefined : nextIdBelow(parent, key));
  const start = () => tracer.startSpan(name, described, parent);
  const started = spanId === undefined ? start() : withIds({ spanId }, start);
  const span = measured
    ? new MeteredSpan(started, clock, { name, attributes, measured })
    : new TimedSpan(started, clock);
  if (tracing.redact !== unchanged) redactions.set(span, tracing.redact);
  const traceContext = span.spanContext().traceId === INVALID_TRACEID ? parent : trace.setSpan(parent, span);
  return { span, traceContext };
}

const silentSpans = new WeakMap<Context, TracedSpan>();

/** A span that records nothing; shared by all below the same context. */
export function silentSpanBelow(parent: Context): TracedSpan {
  const known = silentSpans.get(parent);
  if (known) return known;
  const silent = { span: silentSpan, traceContext: parent };
  silentSpans.set(parent, silent);
  return silent;
}

/** This engine's tracer, if an SDK is registered. */
export function registeredTracer(): Tracer | undefined {
  const provider = trace.getTracerProvider();
  // Without an SDK the environment is not read: some runtimes have none.
  if (provider instanceof ProxyTracerProvider && !provider.getDelegateTracer('millrace')) return undefined;
  return provider.getTracer('millrace', packageVersion, schemaOfConventions());
}

/**
 * Marks a span as failed: status ERROR with the message of the error; `error.type`, the engine's code, else the error's name; and the exception, which is
 * the cause of an `AgentLoopError`, if it has one.
 */
export function failSpan(span: Span, error: unknown): void {
  const type = AgentLoopError.isInstance(error) ? error.code : nameOf(error);
  markFailed(span, { type, message: messageOf(error), thrown: error });
}

interface SpanFailure {
  readonly type: string;
  readonly message: string;
  /** The thrown value, if any: it describes the exception. */
  readonly thrown?: unknown;
}

/** The same for a failure as data. Its strings pass the turn's `redact`, and possible secrets are removed. */
export function markFailed(span: Span, { type, message, thrown }: SpanFailure): void {
  if (!span.isRecording()) return;
  const redact = redactions.get(span) ?? unchanged;
  const { type: name, ...exception } =
    thrown === undefined ? { type, message: cleanText(message, redact) } : exceptionOf(thrown, redact);
  span.recordException({ name, ...exception });
  span.setAttribute(attribute.errorType, type);
  span.setStatus({ code: SpanStatusCode.ERROR, message: cleanText(message, redact) });
}

/** The description of an exception in spans and logs. */
interface ExceptionText {
  /** The class of the error; for an `AgentLoopError` without a foreign cause, its code. */
  readonly type: string;
  readonly message: string;
  /** With the stacks of its causes. Absent if the thrown value is not an error. */
  readonly stack?: string;
}

/**
 * Describes a thrown value, or the foreign cause of an `AgentLoopError`. The strings pass `redact`, and possible secrets are
 * removed.
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

/** The thrown value, then its cause, and so on. */
function causesOf(thrown: unknown): readonly unknown[] {
  const chain: unknown[] = [thrown];
  for (let error = thrown; error instanceof Error && error.cause !== undefined; error = error.cause) {
    if (chain.length === maxCauses || chain.includes(error.cause)) break;
    chain.push(error.cause);
  }
  return chain;
}

/** Also names a caller's class that does not set `name`. */
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

/** If a redaction throws, nothing of the text is exported, and the turn is not affected. */
function guarded(redact: (text: string) => string): (text: string) => string {
  return (text) => {
    try {
      return redact(text);
    } catch {
      return '[redaction failed]';
    }
  };
}
