import { type HrTime, type Link, SpanStatusCode } from '@opentelemetry/api';
import type { ReadableSpan } from '@opentelemetry/sdk-trace-node';

/** A span that has ended, as plain data: what the waterfall is drawn from. */
export interface FinishedSpan {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  /** Absent on the root of a trace. */
  readonly parentSpanId?: string;
  /** Milliseconds since 1970, with fractions. */
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Readonly<Record<string, unknown>>;
  /** The linked spans. Absent if there are none. */
  readonly links?: readonly { readonly traceId: string; readonly spanId: string }[];
  readonly status: { readonly code: 'unset' | 'ok' | 'error'; readonly message?: string };
}

/** A span of the SDK as plain data. */
export function finishedSpan(span: ReadableSpan): FinishedSpan {
  const { traceId, spanId } = span.spanContext();
  const parentSpanId = span.parentSpanContext?.spanId;
  const { code, message } = span.status;
  const word = code === SpanStatusCode.ERROR ? 'error' : code === SpanStatusCode.OK ? 'ok' : 'unset';
  return {
    name: span.name,
    traceId,
    spanId,
    ...(parentSpanId !== undefined && { parentSpanId }),
    startMs: millisecondsOf(span.startTime),
    endMs: millisecondsOf(span.endTime),
    attributes: span.attributes,
    ...(span.links.length > 0 && { links: span.links.map(linked) }),
    status: message === undefined ? { code: word } : { code: word, message },
  };
}

function linked({ context }: Link): { readonly traceId: string; readonly spanId: string } {
  return { traceId: context.traceId, spanId: context.spanId };
}

function millisecondsOf([seconds, nanoseconds]: HrTime): number {
  return seconds * 1e3 + nanoseconds / 1e6;
}
