import type {
  Attributes,
  AttributeValue,
  Exception,
  Link,
  Span,
  SpanContext,
  SpanOptions,
  SpanStatus,
  TimeInput,
  Tracer,
} from '@opentelemetry/api';
import { attribute } from '../attributes.ts';
import { type Instruments, secondsSince } from './instruments.ts';

/**
 * A tracer whose spans are also measured: each one's duration, tokens and outcome go to the instrument of its operation when it ends. Every
 * operation of a turn has just one span, which ends once on each way out, and so the numbers are those of the traces. `inner` may be one that
 * records nothing.
 */
export function meteredTracer(inner: Tracer, measured: Instruments): Tracer {
  return {
    startSpan: (name, options, context) =>
      new MeteredSpan(inner.startSpan(name, options, context), { name, options, measured }),
    startActiveSpan: inner.startActiveSpan.bind(inner),
  };
}

interface Measuring {
  readonly name: string;
  readonly options: SpanOptions | undefined;
  readonly measured: Instruments;
}

/** The name of the span that is open as long as a process runs a turn. */
const runSpan = 'agent.execute';

class MeteredSpan implements Span {
  readonly #span: Span;
  readonly #measured: Instruments;
  readonly #isRun: boolean;
  readonly #attributes: Map<string, AttributeValue | undefined>;
  readonly #startedAt = performance.now();
  #ended = false;

  constructor(span: Span, { name, options, measured }: Measuring) {
    this.#span = span;
    this.#measured = measured;
    this.#isRun = name === runSpan;
    this.#attributes = new Map(Object.entries(options?.attributes ?? {}));
    if (this.#isRun) measured.liveTurns.add(1);
  }

  spanContext(): SpanContext {
    return this.#span.spanContext();
  }

  setAttribute(key: string, value: AttributeValue): this {
    this.#attributes.set(key, value);
    this.#span.setAttribute(key, value);
    return this;
  }

  setAttributes(attributes: Attributes): this {
    for (const [key, value] of Object.entries(attributes)) this.#attributes.set(key, value);
    this.#span.setAttributes(attributes);
    return this;
  }

  addEvent(name: string, attributesOrStartTime?: Attributes | TimeInput, startTime?: TimeInput): this {
    this.#span.addEvent(name, attributesOrStartTime, startTime);
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

  /** Measures the attributes of a span, also if no SDK records it. */
  isRecording(): boolean {
    return !this.#ended;
  }

  recordException(exception: Exception, time?: TimeInput): void {
    this.#span.recordException(exception, time);
  }

  end(endTime?: TimeInput): void {
    this.#span.end(endTime);
    if (this.#ended) return;
    this.#ended = true;
    this.#measure();
  }

  #measure(): void {
    const duration = secondsSince(this.#startedAt);
    if (this.#isRun) this.#measured.liveTurns.add(-1);
    switch (this.#attributes.get(attribute.operationName)) {
      case 'chat':
        this.#measureRequest(duration);
        return;
      case 'execute_tool':
        this.#measured.toolDuration.record(duration, this.#dimensions(attribute.toolName));
        return;
      case 'invoke_agent':
        this.#measured.agentDuration.record(duration, this.#dimensions(attribute.agentName));
    }
  }

  #measureRequest(duration: number): void {
    const { requestModel, responseModel, providerName, serverAddress, serverPort } = attribute;
    const dimensions = this.#dimensions(providerName, requestModel, responseModel, serverAddress, serverPort);
    this.#measured.operationDuration.record(duration, dimensions);
    const firstChunk = this.#attributes.get(attribute.responseTimeToFirstChunk);
    if (typeof firstChunk === 'number') this.#measured.timeToFirstChunk.record(firstChunk, dimensions);
    this.#recordTokens('input', attribute.usageInputTokens, dimensions);
    this.#recordTokens('output', attribute.usageOutputTokens, dimensions);
  }

  #recordTokens(type: string, name: string, dimensions: Attributes): void {
    const count = this.#attributes.get(name);
    if (typeof count === 'number')
      this.#measured.tokenUsage.record(count, { ...dimensions, 'gen_ai.token.type': type });
  }

  /** Few values each: what would make a series of its own for each turn stays on the spans. */
  #dimensions(...names: readonly string[]): Attributes {
    const dimensions: Attributes = {};
    for (const name of [attribute.operationName, attribute.errorType, ...names]) {
      const value = this.#attributes.get(name);
      if (value !== undefined) dimensions[name] = value;
    }
    if (this.#attributes.get(attribute.outcome) === 'canceled') dimensions[attribute.outcome] = 'canceled';
    return dimensions;
  }
}
