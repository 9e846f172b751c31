import { type Context, type Span, trace } from '@opentelemetry/api';

/** The ids of the next span. */
interface SpanIds {
  readonly traceId?: string | undefined;
  readonly spanId: string;
}

/** State shared by the id generator and the spans of turns; one for all copies of this package in a process. */
interface Choice {
  next: { traceId?: string | undefined; spanId?: string | undefined } | undefined;
  /** How many generators are in use. */
  generators: number;
}

const key = Symbol.for('millrace.spans.chosen-ids');

function choiceOfProcess(): Choice {
  const found: unknown = Reflect.get(globalThis, key);
  if (isChoice(found)) return found;
  const made: Choice = { next: undefined, generators: 0 };
  Reflect.set(globalThis, key, made);
  return made;
}

function isChoice(value: unknown): value is Choice {
  return typeof value === 'object' && value !== null && 'generators' in value;
}

const choice = choiceOfProcess();

/** Generates the ids of spans: the `IdGenerator` of the OpenTelemetry SDK. */
export interface SpanIdGenerator {
  /** 32 lower-case hexadecimal digits, not all zero. */
  generateTraceId(): string;
  /** 16 lower-case hexadecimal digits, not all zero. */
  generateSpanId(): string;
}

/**
 * The id generator of `startTracing`, for an SDK of your own: `new NodeSDK({ idGenerator: turnIdGenerator() })`. It derives the ids of a turn's spans
 * from its journal, so that a process that resumes a turn after a crash can write the lost spans; see
 * docs/observability.md. All other spans have random ids. One per process.
 */
export function turnIdGenerator(): SpanIdGenerator {
  choice.generators++;
  return {
    generateTraceId: () => choice.next?.traceId ?? randomHex(16),
    generateSpanId: () => choice.next?.spanId ?? randomSpanId(),
  };
}

/** Marks a generator as no longer in use. */
export function dropIdGenerator(): void {
  choice.generators--;
}

/** Whether this process can choose the ids of spans. */
export function choosesIds(): boolean {
  return choice.generators > 0;
}

/** Starts a span with these ids, if the SDK uses a generator of `turnIdGenerator`. */
export function withIds(ids: SpanIds, start: () => Span): Span {
  choice.next = ids;
  try {
    return start();
  } finally {
    choice.next = undefined;
  }
}

/** A random span id. */
export function randomSpanId(): string {
  return randomHex(8);
}

/** Never all zeros, which is invalid in W3C Trace Context. */
function randomHex(length: number): string {
  const bytes = crypto.getRandomValues(new Uint8Array(length));
  if (bytes.every((byte) => byte === 0)) bytes[length - 1] = 1;
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

const counts = new WeakMap<Span, Map<string, number>>();

/**
 * The id of the next span below the span of `parent`, derived from the id of the parent, `name`, and the number of its children of that name,
 * so that another process can derive it from the journal. `undefined` without a parent, or if ids cannot be chosen.
 */
export function nextIdBelow(parent: Context, name: string): string | undefined {
  if (!choosesIds()) return undefined;
  const span = trace.getSpan(parent);
  if (!span) return undefined;
  const known = counts.get(span) ?? new Map<string, number>();
  const count = (known.get(name) ?? 0) + 1;
  known.set(name, count);
  counts.set(span, known);
  return idBelow(span.spanContext().spanId, name, count);
}

/** The id of a span's child of that name with the number `count`, from 1. */
export function idBelow(parentId: string, name: string, count: number): string {
  const text = `${parentId}/${name}/${count}`;
  const id = hash(text, 0x811c9dc5) + hash(text, 0x9747b28c);
  return id === '0000000000000000' ? '0000000000000001' : id;
}

/** The key of a call's span below that of its batch. `attempt`: the number of the start, from 1. */
export function toolKey(call: { readonly callId: string; readonly intent: { readonly attempt: number } }): string {
  return `tool ${call.callId} ${call.intent.attempt}`;
}

/** 32 bits of a string as hex: FNV-1a with the finalizer of MurmurHash3. Distinguishes spans of one trace; not cryptographic. */
function hash(text: string, seed: number): string {
  let value = seed;
  for (let index = 0; index < text.length; index++) value = Math.imul(value ^ text.charCodeAt(index), 0x01000193);
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35);
  return ((value ^ (value >>> 16)) >>> 0).toString(16).padStart(8, '0');
}
