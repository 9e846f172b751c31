import { createNoopMeter, type Histogram, type Meter, type MeterProvider, metrics } from '@opentelemetry/api';

/** What this engine measures. Durations in seconds. */
export interface Instruments {
  /** `gen_ai.client.operation.duration`: one request to a model. */
  readonly operationDuration: Histogram;
  /** `gen_ai.client.token.usage`: tokens of one request, by `gen_ai.token.type`. */
  readonly tokenUsage: Histogram;
  /** `gen_ai.client.operation.time_to_first_chunk` of a request that is streamed. */
  readonly timeToFirstChunk: Histogram;
  /** `gen_ai.execute_tool.duration`: one tool call. */
  readonly toolDuration: Histogram;
  /** `gen_ai.invoke_agent.duration`: one turn of an agent. */
  readonly agentDuration: Histogram;
  /** `millrace.turns.live`: turns that this process runs. */
  readonly liveTurns: ReturnType<Meter['createUpDownCounter']>;
  /** `millrace.queue.wait`: how long a model call waited for its place. */
  readonly queueWait: Histogram;
  /** `millrace.journal.append.duration`: from the sending of an append to its acknowledgement. */
  readonly appendDuration: Histogram;
  /** `millrace.journal.fenced_appends`: appends of a process that had lost its turn to another. */
  readonly fencedAppends: ReturnType<Meter['createCounter']>;
}

let known: { readonly provider: MeterProvider; readonly instruments: Instruments | undefined } | undefined;

/** The instruments, where an application has registered a meter provider; made once for each. Nothing is measured without one. */
export function instruments(): Instruments | undefined {
  const provider = metrics.getMeterProvider();
  if (known?.provider === provider) return known.instruments;
  const meter = provider.getMeter('millrace');
  known = { provider, instruments: meter === createNoopMeter() ? undefined : instrumentsOf(meter) };
  return known.instruments;
}

/** Seconds, from a cached answer to a turn of minutes. Source: semantic conventions of `gen_ai`, which the calls' own durations follow. */
const seconds = [
  0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 163.84, 327.68,
];
const shortSeconds = [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10];
const tokens = [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864];

function instrumentsOf(meter: Meter): Instruments {
  const histogram = (name: string, unit: string, explicitBucketBoundaries: number[], description: string) =>
    meter.createHistogram(name, { unit, description, advice: { explicitBucketBoundaries } });
  const duration = (name: string, description: string) => histogram(name, 's', seconds, description);
  return {
    operationDuration: duration('gen_ai.client.operation.duration', 'Duration of a request to a model'),
    tokenUsage: histogram('gen_ai.client.token.usage', '{token}', tokens, 'Tokens of a request to a model'),
    timeToFirstChunk: duration('gen_ai.client.operation.time_to_first_chunk', 'Time to the first chunk of an answer'),
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

/** Starts the clock of an append. What it gives notes that the store has it; undefined where nobody measures. */
export function measureAppend(): (() => void) | undefined {
  const measured = instruments();
  if (measured === undefined) return undefined;
  const startedAt = performance.now();
  return () => measured.appendDuration.record(secondsSince(startedAt));
}

/** Counts an append that was refused because the turn is somebody else's. */
export function countFencedAppend(): void {
  instruments()?.fencedAppends.add(1);
}

/** Starts the clock of a call that waits in the queue of a policy. What it gives notes that it waits no longer. */
export function measureWait(policy: string): (() => void) | undefined {
  const measured = instruments();
  if (measured === undefined) return undefined;
  const startedAt = performance.now();
  return () => measured.queueWait.record(secondsSince(startedAt), { 'millrace.policy': policy });
}

export function secondsSince(startedAt: number): number {
  return (performance.now() - startedAt) / 1_000;
}
