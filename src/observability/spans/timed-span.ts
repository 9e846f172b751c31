import type {
  Attributes,
  AttributeValue,
  Exception,
  HrTime,
  Link,
  Span,
  SpanContext,
  SpanStatus,
  TimeInput,
} from '@opentelemetry/api';

/** Milliseconds since 1970, with fractions. */
export type SpanClock = () => number;

/** The distance of `performance.now()` from the system time. */
let offset = performance.timeOrigin;

/**
 * A monotonic clock for a span and all spans below it. The SDK starts each span at a whole millisecond and adds an exact
 * duration: spans of one turn would be up to 1 ms apart, and children end after their parents. The clock is that of the process, moved as little as
 * necessary to agree with the system time, which a suspended machine or a time server may have changed.
 */
export function spanClock(): SpanClock {
  const earliest = Date.now();
  const now = performance.now();
  const latest = Date.now() + 0.999;
  offset = Math.min(Math.max(offset, earliest - now), latest - now);
  const fixed = offset;
  return () => fixed + performance.now();
}

/** The SDK takes small numbers for those of `performance.now()`, so it receives seconds and nanoseconds. */
export function hrTime(ms: number): HrTime {
  const seconds = Math.floor(ms / 1_000);
  return [seconds, Math.round((ms - seconds * 1_000) * 1e6)];
}

/** A span of which the end and the events have the time of `clock`, as its start has. */
export class TimedSpan implements Span {
  readonly clock: SpanClock;
  readonly #span: Span;

  constructor(span: Span, clock: SpanClock) {
    this.#span = span;
    this.clock = clock;
  }

  spanContext(): SpanContext {
    return this.#span.spanContext();
  }

  setAttribute(key: string, value: AttributeValue): this {
    this.#span.setAttribute(key, value);
    return this;
  }

  setAttributes(attributes: Attributes): this {
    this.#span.setAttributes(attributes);
    return this;
  }

  addEvent(name: string, attributesOrTime?: Attributes | TimeInput, time?: TimeInput): this {
    if (isTime(attributesOrTime)) this.#span.addEvent(name, attributesOrTime);
    else this.#span.addEvent(name, attributesOrTime, time ?? hrTime(this.clock()));
    return this;
  }

  addLink(link: Link): this {
    this.#span.addLink(link);
    return this;
  }

  addLinks(links: Link[]): this {
    this.#span.addLinks(links);
    return this;
  }

  setStatus(status: SpanStatus): this {
    this.#span.setStatus(status);
    return this;
  }

  updateName(name: string): this {
    this.#span.updateName(name);
    return this;
  }

  isRecording(): boolean {
    return this.#span.isRecording();
  }

  recordException(exception: Exception, time: TimeInput = hrTime(this.clock())): void {
    this.#span.recordException(exception, time);
  }

  end(time: TimeInput = hrTime(this.clock())): void {
    this.#span.end(time);
  }
}

function isTime(value: Attributes | TimeInput | undefined): value is TimeInput {
  return typeof value === 'number' || Array.isArray(value) || value instanceof Date;
}
