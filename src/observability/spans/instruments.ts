import {
  type Attributes,
  type AttributeValue,
  createNoopMeter,
  type Histogram,
  type Meter,
  type MeterProvider,
  metrics,
  type Span,
  type TimeInput,
} from '@opentelemetry/api';
import { packageVersion } from '../../version.ts';
import { attribute } from '../attributes.ts';
import { schemaOfConventions, wantsLatestConventions } from './conventions.ts';
import { type SpanClock, TimedSpan } from './timed-span.ts';

/** The instruments of this engine. Durations in seconds. */
export interface Instruments {
  /** `gen_ai.client.operation.duration`, or `gen_ai.client.inference.duration`: one request to a model. */
  readonly operationDuration: Histogram;
  /** Tokens of one request. The two sets of conventions count them in ways that must not be added up. */
  readonly recordTokens: (counts: TokenCounts, dimensions: Attributes) => void;
  /** `…time_to_first_chunk`, of a streamed request. */
  readonly timeToFirstChunk: Histogram;
  /** `…time_per_output_chunk`: from one chunk of a streamed request to the next. */
  readonly timePerOutputChunk: Histogram;
  /** `gen_ai.execute_tool.duration`: one tool call. */
  readonly toolDuration: Histogram;
  /** `gen_ai.invoke_agent.duration`: one turn of an agent. */
  readonly agentDuration: Histogram;
  /** `gen_ai.invoke_agent.inference_calls` and `…tool_calls`: the number per turn of an agent. Only in the latest conventions. */
  readonly agentCalls?: { readonly inference: Histogram; readonly tools: Histogram };
  /** `millrace.turns.live`: turns that this process runs. */
  readonly liveTurns: ReturnType<Meter['createUpDownCounter']>;
  /** `millrace.queue.wait`: how long a model call waited in the queue. */
  readonly queueWait: Histogram;
  /** `millrace.journal.append.duration`: from the sending of an append to its acknowledgement. */
  readonly appendDuration: Histogram;
  /** `millrace.journal.fenced_appends`: appends of a process that had lost its turn to another owner. */
  readonly fencedAppends: ReturnType<Meter['createCounter']>;
}

/** By attribute of the span. */
type TokenCounts = ReadonlyMap<string, AttributeValue | undefined>;

let known: { readonly provider: MeterProvider; readonly instruments: Instruments | undefined } | undefined;

/** The instruments, if the application has registered a meter provider; created once per provider. Without one nothing is measured. */
export function instruments(): Instruments | undefined {
  const provider = metrics.getMeterProvider();
  if (known?.provider === provider) return known.instruments;
  const meter = provider.getMeter('millrace', packageVersion, schemaOfConventions());
  known = { provider, instruments: meter === createNoopMeter() ? undefined : instrumentsOf(meter) };
  return known.instruments;
}

/** Source: semantic conventions of `gen_ai`. */
const seconds = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
/** From a cached answer to a turn of minutes. */
const longSeconds = [...seconds, 163.84, 327.68];
const shortSeconds = [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10];
const callCounts = [0, 1, 2, 4, 8, 16, 32, 64, 128];
const tokens = [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864];

function instrumentsOf(meter: Meter): Instruments {
  const isLatest = wantsLatestConventions();
  const client = isLatest ? 'gen_ai.client.inference' : 'gen_ai.client.operation';
  const histogram = (name: string, unit: string, explicitBucketBoundaries: number[], description: string) =>
    meter.createHistogram(name, { unit, description, advice: { explicitBucketBoundaries } });
  const duration = (name: string, description: string) => histogram(name, 's', longSeconds, description);
  const chunks = (name: string, description: string) => histogram(`${client}.${name}`, 's', seconds, description);
  return {
    operationDuration: duration(`${client}.duration`, 'Duration of a request to a model'),
    timeToFirstChunk: chunks('time_to_first_chunk', 'Time to the first chunk of an answer'),
    timePerOutputChunk: chunks('time_per_output_chunk', 'Time from one chunk of an answer to the next'),
    recordTokens: isLatest ? tokenCounters(meter) : tokenHistogram(meter),
    ...(isLatest && { agentCalls: agentCalls(meter) }),
    toolDuration: duration('gen_ai.execute_tool.duration', 'Duration of a tool call'),
    agentDuration: duration('gen_ai.invoke_agent.duration', 'Duration of a turn of an agent'),
    liveTurns: meter.createUpDownCounter('millrace.turns.live', {
      unit: '{turn}',
      description: 'Turns that this process runs',
    }),
    queueWait: duration('millrace.queue.wait', 'Time that a model call waited for its place'),
    appendDuration: histogram(
      'millrace.journal.append.duration',
      's',
      shortSeconds,
      'Time until the store has acknowledged an append',
    ),
    fencedAppends: meter.createCounter('millrace.journal.fenced_appends', {
      unit: '{append}',
      description: 'Appends of a process that had lost its turn to another',
    }),
  };
}

/** `gen_ai.client.token.usage`, by `gen_ai.token.type`. */
function tokenHistogram(meter: Meter): Instruments['recordTokens'] {
  const histogram = meter.createHistogram('gen_ai.client.token.usage', {
    unit: '{token}',
    description: 'Tokens of a request to a model',
    advice: { explicitBucketBoundaries: tokens },
  });
  const types = [
    ['input', attribute.usageInputTokens],
    ['output', attribute.usageOutputTokens],
  ] as const;
  return (counts, dimensions) => {
    for (const [type, name] of types) {
      const count = counts.get(name);
      if (typeof count === 'number') histogram.record(count, { ...dimensions, 'gen_ai.token.type': type });
    }
  };
}

/** `gen_ai.client.inference.usage.…`, one per attribute of `gen_ai.usage`. */
function tokenCounters(meter: Meter): Instruments['recordTokens'] {
  const names = [
    attribute.usageInputTokens,
    attribute.usageOutputTokens,
    attribute.usageCacheReadInputTokens,
    attribute.usageCacheWriteInputTokens,
    attribute.usageReasoningOutputTokens,
  ];
  const counters = names.map((name) => {
    const options = { unit: '{token}', description: 'Tokens of requests to a model' };
    return [
      name,
      meter.createCounter(name.replace('gen_ai.usage.', 'gen_ai.client.inference.usage.'), options),
    ] as const;
  });
  return (counts, dimensions) => {
    for (const [name, counter] of counters) {
      const count = counts.get(name);
      if (typeof count === 'number') counter.add(count, dimensions);
    }
  };
}

function agentCalls(meter: Meter): NonNullable<Instruments['agentCalls']> {
  const calls = (name: string, unit: string, description: string) =>
    meter.createHistogram(name, { unit, description, advice: { explicitBucketBoundaries: callCounts } });
  return {
    inference: calls('gen_ai.invoke_agent.inference_calls', '{call}', 'Model calls of a turn of an agent'),
    tools: calls('gen_ai.invoke_agent.tool_calls', '{call}', 'Tool calls of a turn of an agent'),
  };
}

/** Starts the timer of an append. Call the returned function when the store has acknowledged it; `undefined` if nothing is measured. */
export function measureAppend(): (() => void) | undefined {
  const measured = instruments();
  if (measured === undefined) return undefined;
  const startedAt = performance.now();
  return () => measured.appendDuration.record(secondsSince(startedAt));
}

/** Counts an append that was refused because another owner has the turn. */
export function countFencedAppend(): void {
  instruments()?.fencedAppends.add(1);
}

/** Starts the timer of a call in the queue of a policy. Call the returned function when it leaves the queue. */
export function measureWait(policy: string): (() => void) | undefined {
  const measured = instruments();
  if (measured === undefined) return undefined;
  const startedAt = performance.now();
  return () => measured.queueWait.record(secondsSince(startedAt), { 'millrace.policy': policy });
}

/** Returns the function to call with each chunk of a request; `undefined` if its span is not measured. */
export function measureChunks(span: Span): (() => void) | undefined {
  return span instanceof MeteredSpan ? () => span.chunkArrived() : undefined;
}

function secondsSince(startedAt: number): number {
  return (performance.now() - startedAt) / 1_000;
}

interface Measuring {
  readonly name: string;
  readonly attributes: Attributes;
  readonly measured: Instruments;
}

/** The name of the span that is open while a process runs a turn. */
const runSpan = 'agent.execute';

/**
 * Measures a span: when it ends, its duration, tokens and outcome go to the instrument of its operation. Every
 * operation of a turn has exactly one span, which ends once, so the metrics match the traces. The span may be one that
 * records nothing.
 */
export class MeteredSpan extends TimedSpan {
  readonly #measured: Instruments;
  readonly #isRun: boolean;
  readonly #attributes: Map<string, AttributeValue | undefined>;
  readonly #startedAt = performance.now();
  #chunkAt: number | undefined;
  /** Seconds from one chunk to the next; recorded at the end, when the model that answered is known. */
  readonly #chunkTimes: number[] = [];
  #ended = false;

  constructor(span: Span, clock: SpanClock, { name, attributes, measured }: Measuring) {
    super(span, clock);
    this.#measured = measured;
    this.#isRun = name === runSpan;
    this.#attributes = new Map(Object.entries(attributes));
    if (this.#isRun) measured.liveTurns.add(1);
  }

  override setAttribute(key: string, value: AttributeValue): this {
    this.#attributes.set(key, value);
    return super.setAttribute(key, value);
  }

  override setAttributes(attributes: Attributes): this {
    for (const [key, value] of Object.entries(attributes)) this.#attributes.set(key, value);
    return super.setAttributes(attributes);
  }

  /** Measures the attributes of a span, also if no SDK records it. */
  override isRecording(): boolean {
    return !this.#ended;
  }

  /** A chunk of a streamed answer has arrived. */
  chunkArrived(): void {
    if (this.#chunkAt !== undefined) this.#chunkTimes.push(secondsSince(this.#chunkAt));
    this.#chunkAt = performance.now();
  }

  override end(time?: TimeInput): void {
    super.end(time);
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
        this.#measureAgent(duration);
    }
  }

  #measureRequest(duration: number): void {
    const { requestModel, responseModel, providerName, serverAddress, serverPort } = attribute;
    const dimensions = this.#dimensions(providerName, requestModel, responseModel, serverAddress, serverPort);
    this.#measured.operationDuration.record(duration, dimensions);
    const firstChunk = this.#attributes.get(attribute.responseTimeToFirstChunk);
    if (typeof firstChunk === 'number') this.#measured.timeToFirstChunk.record(firstChunk, dimensions);
    for (const time of this.#chunkTimes) this.#measured.timePerOutputChunk.record(time, dimensions);
    this.#measured.recordTokens(this.#attributes, dimensions);
  }

  #measureAgent(duration: number): void {
    const { agentDuration, agentCalls } = this.#measured;
    const dimensions = this.#dimensions(attribute.agentName);
    agentDuration.record(duration, dimensions);
    const iterations = this.#attributes.get(attribute.iterations);
    const toolCalls = this.#attributes.get(attribute.toolCalls);
    if (typeof iterations === 'number') agentCalls?.inference.record(iterations, dimensions);
    if (typeof toolCalls === 'number') agentCalls?.tools.record(toolCalls, dimensions);
  }

  /** Attributes with few values: those with a value per turn stay on the spans. */
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
