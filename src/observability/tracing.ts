import {
  context,
  DiagConsoleLogger,
  DiagLogLevel,
  diag,
  propagation,
  type TextMapPropagator,
  trace,
} from '@opentelemetry/api';
import type { NodeTracerProvider, SpanExporter, SpanProcessor } from '@opentelemetry/sdk-trace-node';
import { AgentLoopError, messageOf, systemClock } from '../core/contracts/index.ts';
import { settled } from '../core/streams/index.ts';
import { assertKnownOptions, type OptionNames } from '../options/option-rules.ts';
import { attribute } from './attributes.ts';
import { flushAtExit } from './exit-flush.ts';
import { type FinishedSpan, finishedSpan } from './finished-spans.ts';
import { assertSdk, loadSdk, otlpSpanPackages, resourceOf, spanPackages } from './load-sdk.ts';
import {
  assertProtobuf,
  exportersFromEnvironment,
  isSdkDisabled,
  listFromEnv,
  numberFromEnv,
  otlpTracesUrl,
  shownUrl,
  stringFromEnv,
} from './otel-environment.ts';
import { dropIdGenerator, turnIdGenerator } from './spans/chosen-ids.ts';
import { registeredTracer } from './spans/tracing-options.ts';

export {
  type FinishedSpan,
  finishedSpan,
  renderWaterfall,
  type SpanNode,
  spanOutline,
  spanTree,
  type WaterfallOptions,
} from './finished-spans.ts';
export { type Metrics, type StartMetricsOptions, startMetrics } from './metrics.ts';
export { type SpanIdGenerator, turnIdGenerator } from './spans/chosen-ids.ts';
export { carrierFromContext, contextFromCarrier, type HeaderCarrier } from './trace-carrier.ts';

/** Options of `startTracing`. */
export interface StartTracingOptions {
  /** Default: `OTEL_SERVICE_NAME`, else `service.name` of `OTEL_RESOURCE_ATTRIBUTES`, else `millrace`. */
  readonly serviceName?: string | undefined;
  /** The collector's base address, e.g. `http://localhost:4318`. Default: from the environment, else that. */
  readonly endpoint?: string | undefined;
  /** Sent with each export, e.g. a key; added to those of `OTEL_EXPORTER_OTLP_HEADERS`. Never displayed. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Replaces OTLP. `'none'`: spans are created and passed to `onSpanEnd`, but not exported. Default: `OTEL_TRACES_EXPORTER`, else OTLP. */
  readonly exporter?: SpanExporter | 'none' | undefined;
  /** Called with each recorded span as it ends, before it is exported. Exceptions are logged and dropped. */
  readonly onSpanEnd?: ((span: FinishedSpan) => void) | undefined;
  /** The time limit of `flush` and `shutdown`. Milliseconds; default 3,000. */
  readonly shutdownTimeoutMs?: number | undefined;
  /** Signals that flush. Default SIGTERM and SIGINT. */
  readonly flushOnSignals?: readonly NodeJS.Signals[] | undefined;
}

const ofTracing: OptionNames<StartTracingOptions> = {
  serviceName: true,
  endpoint: true,
  headers: true,
  exporter: true,
  onSpanEnd: true,
  shutdownTimeoutMs: true,
  flushOnSignals: true,
};

/** The number of spans of this process so far. After `shutdown`, `ended - exported` were lost. */
export interface TracingReport {
  /** Spans that were started and are recorded. */
  readonly started: number;
  /** Those of them that have ended. */
  readonly ended: number;
  /** Those of them that the exporter has accepted. */
  readonly exported: number;
  /** The error of the last failed export. */
  readonly lastError?: string;
}

/** Running tracing: the SDK, and how to stop it. */
export interface Tracing {
  /** Absent with `OTEL_SDK_DISABLED=true`. */
  readonly provider: NodeTracerProvider | undefined;
  /** The address of the exports, without credentials; absent without OTLP. */
  readonly endpoint: string | undefined;
  /** How many spans were started, ended and exported so far. */
  report(): TracingReport;
  /** Exports all spans that ended before the call. Never rejects. */
  flush(): Promise<TracingReport>;
  /** Flushes, stops, and unregisters the SDK; once, later calls return the same promise. Never rejects. */
  shutdown(): Promise<TracingReport>;
}

let running: Tracing | undefined;

/**
 * Starts OpenTelemetry for this process: spans are exported in batches as OTLP over protobuf; the W3C propagators are registered, and
 * a context manager, so that spans of instrumentations of fetch and of databases nest. Honours the standard `OTEL_*`
 * variables; an option overrides its variable. Flushes when the process exits by itself and on signals;
 * call `shutdown` before `process.exit()`.
 *
 * The SDK is an optional peer: if it is not installed, the call errors with `MISSING_PACKAGE` and the command that installs it.
 * One per process: a second start before `shutdown`, or another registered SDK, is `INVALID_CONFIG`. Buffers up to 16,384 spans
 * (`OTEL_BSP_MAX_QUEUE_SIZE`), 1 to 2 KB each without content, and drops more. With the collector down `shutdown`
 * resolves within `shutdownTimeoutMs`, and an export gives up after 2.5 seconds (`OTEL_EXPORTER_OTLP_TIMEOUT`, if set,
 * is also how long its retries keep the process alive).
 */
export function startTracing(options: StartTracingOptions = {}): Tracing {
  assertKnownOptions('startTracing', options, ofTracing);
  if (running !== undefined) {
    throw new AgentLoopError('INVALID_CONFIG', 'Tracing has been started in this process; shut that down first.');
  }
  if (registeredTracer() !== undefined) {
    const cure = 'Millrace writes its spans to it, so leave startTracing out.';
    throw new AgentLoopError('INVALID_CONFIG', `Another OpenTelemetry SDK is registered in this process. ${cure}`);
  }
  logDiagnostics();
  running = isSdkDisabled() ? disabledTracing() : enabledTracing(options);
  return running;
}

function enabledTracing(options: StartTracingOptions): Tracing {
  const timeoutMs = options.shutdownTimeoutMs ?? 3_000;
  const sdk = registerSdk(options, timeoutMs);
  let flushedAt = 0;
  let stopping: Promise<TracingReport> | undefined;
  const report = (): TracingReport => ({ ...sdk.tally });
  const flush = async () => {
    flushedAt = sdk.tally.ended;
    await settled(timeoutMs, systemClock, sdk.flush());
    return report();
  };
  const stop = async () => {
    stopListening();
    await settled(timeoutMs, systemClock, sdk.shutdown());
    unregisterSdk();
    running = undefined;
    return report();
  };
  const shutdown = () => {
    stopping ??= stop();
    return stopping;
  };
  const stopListening = flushAtExit(
    { flush, shutdown, waiting: () => sdk.tally.ended > flushedAt },
    options.flushOnSignals ?? ['SIGTERM', 'SIGINT'],
  );
  return { provider: sdk.provider, endpoint: sdk.endpoint, report, flush, shutdown };
}

function disabledTracing(): Tracing {
  const report: TracingReport = { started: 0, ended: 0, exported: 0 };
  const shutdown = async () => {
    running = undefined;
    return report;
  };
  return { provider: undefined, endpoint: undefined, report: () => report, flush: async () => report, shutdown };
}

function logDiagnostics(): void {
  const name = stringFromEnv('OTEL_LOG_LEVEL')?.trim().toUpperCase();
  if (name === undefined) return;
  const logLevel = levels.get(name);
  diag.setLogger(new DiagConsoleLogger(), { logLevel: logLevel ?? DiagLogLevel.INFO });
  if (logLevel === undefined)
    diag.warn(`OTEL_LOG_LEVEL is ${name}; allowed: ${[...levels.keys()].join(', ')}. INFO is used.`);
}

const levels: ReadonlyMap<string, DiagLogLevel> = new Map([
  ['ALL', DiagLogLevel.ALL],
  ['VERBOSE', DiagLogLevel.VERBOSE],
  ['DEBUG', DiagLogLevel.DEBUG],
  ['INFO', DiagLogLevel.INFO],
  ['WARN', DiagLogLevel.WARN],
  ['ERROR', DiagLogLevel.ERROR],
  ['NONE', DiagLogLevel.NONE],
]);

/** The time limit of an export, including retries, unless `OTEL_EXPORTER_OTLP_TIMEOUT` is set. */
const exportTimeoutMs = 2_500;
const defaultQueueSize = 16_384;
const defaultBatchSize = 512;

/** The codes of an `ExportResult`. */
const exportSucceeded = 0;
const exportFailed = 1;

/** The counters of a report. */
type SpanTally = { -readonly [Key in keyof TracingReport]: TracingReport[Key] };

/**
 * Creates and registers the SDK from the options and the environment. Errors: `MISSING_PACKAGE` if the SDK is not installed. All use of the SDK's span
 * classes is in this file: the provider reads the variables of samplers and limits, the processor those of batches, the exporter its own; those of
 * the resource, the exporters, the protocol and the propagators are read here.
 */
function registerSdk(options: StartTracingOptions, timeoutMs: number) {
  const tally: SpanTally = { started: 0, ended: 0, exported: 0 };
  assertSdk(sendsOtlp(options) ? otlpSpanPackages : spanPackages);
  const { NodeTracerProvider } = loadSdk('@opentelemetry/sdk-trace-node');
  const { exporters, endpoint } = exportersOf(options);
  const batches = exporters.map((exporter) => batched(tallied(exporter, tally), timeoutMs));
  const provider = new NodeTracerProvider({
    idGenerator: turnIdGenerator(),
    resource: resourceOf(options.serviceName),
    spanProcessors: [tallyProcessor(tally, options.onSpanEnd), ...batches, flushedWhereSuspended(batches)],
  });
  provider.register({ propagator: propagatorFromEnvironment() });
  return {
    provider,
    endpoint,
    tally,
    flush: () => flushAll(provider, exporters, timeoutMs),
    shutdown: () => provider.shutdown(),
  };
}

/** Does nothing if no SDK was registered. */
function unregisterSdk(): void {
  dropIdGenerator();
  trace.disable();
  context.disable();
  propagation.disable();
}

/** A flush of the processors does not wait for an export in progress: the exporters are flushed as well. */
async function flushAll(provider: NodeTracerProvider, exporters: readonly SpanExporter[], timeoutMillis: number) {
  await provider.forceFlush({ timeoutMillis }).catch(() => undefined);
  await Promise.all(exporters.map((exporter) => exporter.forceFlush?.()));
}

function sendsOtlp({ exporter }: StartTracingOptions): boolean {
  return exporter === undefined && exportersFromEnvironment('traces').includes('otlp');
}

function exportersOf(options: StartTracingOptions): { exporters: SpanExporter[]; endpoint: string | undefined } {
  if (options.exporter === 'none') return { exporters: [], endpoint: undefined };
  if (options.exporter !== undefined) return { exporters: [options.exporter], endpoint: undefined };
  const exporters: SpanExporter[] = [];
  let endpoint: string | undefined;
  for (const name of exportersFromEnvironment('traces')) {
    if (name === 'console') {
      const { ConsoleSpanExporter } = loadSdk('@opentelemetry/sdk-trace-node');
      exporters.push(new ConsoleSpanExporter());
    } else {
      const url = otlpTracesUrl(options.endpoint);
      exporters.push(otlpExporter(url, options.headers));
      endpoint = shownUrl(url);
    }
  }
  return { exporters, endpoint };
}

function otlpExporter(url: string, headers: StartTracingOptions['headers']): SpanExporter {
  assertProtobuf('traces');
  const { OTLPTraceExporter } = loadSdk('@opentelemetry/exporter-trace-otlp-proto');
  const timeout =
    numberFromEnv('OTEL_EXPORTER_OTLP_TRACES_TIMEOUT') ??
    numberFromEnv('OTEL_EXPORTER_OTLP_TIMEOUT') ??
    exportTimeoutMs;
  const concurrencyLimit = 2 * Math.ceil(queueSize() / batchSize());
  return new OTLPTraceExporter({
    url,
    timeoutMillis: timeout,
    concurrencyLimit,
    ...(headers && { headers: { ...headers } }),
  });
}

function queueSize(): number {
  return numberFromEnv('OTEL_BSP_MAX_QUEUE_SIZE') ?? defaultQueueSize;
}

function batchSize(): number {
  return Math.min(numberFromEnv('OTEL_BSP_MAX_EXPORT_BATCH_SIZE') ?? defaultBatchSize, queueSize());
}

function batched(exporter: SpanExporter, timeoutMs: number): SpanProcessor {
  const { BatchSpanProcessor } = loadSdk('@opentelemetry/sdk-trace-node');
  return new BatchSpanProcessor(exporter, {
    maxQueueSize: queueSize(),
    maxExportBatchSize: batchSize(),
    exportTimeoutMillis: numberFromEnv('OTEL_BSP_EXPORT_TIMEOUT') ?? timeoutMs,
  });
}

function tallied(exporter: SpanExporter, tally: SpanTally): SpanExporter {
  const failed = (error: unknown) => {
    tally.lastError = reasonOf(error);
  };
  return {
    export(spans, done) {
      try {
        exporter.export(spans, (result) => {
          if (result.code === exportSucceeded) tally.exported += spans.length;
          else failed(result.error);
          done(result);
        });
      } catch (thrown) {
        failed(thrown);
        done({ code: exportFailed });
      }
    },
    shutdown: () => exporter.shutdown(),
    forceFlush: async () => exporter.forceFlush?.(),
  };
}

/** Node's error for a host whose addresses all refuse has no message; the exporter's has its status in a separate property. */
function reasonOf(error: unknown): string {
  if (error === undefined) return 'the exporter gave no reason';
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  const message = messageOf(error);
  return message.includes(code) ? message : `${code} ${message}`.trim();
}

function tallyProcessor(tally: SpanTally, listener: StartTracingOptions['onSpanEnd']): SpanProcessor {
  return {
    onStart() {
      tally.started++;
    },
    onEnd(span) {
      tally.ended++;
      try {
        listener?.(finishedSpan(span));
      } catch (thrown) {
        diag.error(`onSpanEnd threw: ${messageOf(thrown)}`);
      }
    },
    forceFlush: () => Promise.resolve(),
    shutdown: () => Promise.resolve(),
  };
}

/**
 * Exports the spans of a turn as soon as it is suspended, one export at a time: its lease is released then, so no process would restore them if this
 * one were killed before the next batch.
 */
function flushedWhereSuspended(batches: readonly SpanProcessor[]): SpanProcessor {
  let isWanted = false;
  let isFlushing = false;
  const flush = async () => {
    while (isWanted) {
      isWanted = false;
      // Failures go to the SDK's error handler.
      await Promise.allSettled(batches.map((batch) => batch.forceFlush()));
    }
    isFlushing = false;
  };
  return {
    onStart: () => {},
    onEnd({ attributes }) {
      const outcome = attributes[attribute.outcome];
      if (outcome !== 'input-required' && outcome !== 'auth-required') return;
      isWanted = true;
      if (isFlushing) return;
      isFlushing = true;
      // Parent spans end after this one.
      setImmediate(flush);
    },
    forceFlush: () => Promise.resolve(),
    shutdown: () => Promise.resolve(),
  };
}

function propagatorFromEnvironment(): TextMapPropagator {
  const { CompositePropagator, W3CBaggagePropagator, W3CTraceContextPropagator } = loadSdk('@opentelemetry/core');
  const names = listFromEnv('OTEL_PROPAGATORS') ?? ['tracecontext', 'baggage'];
  const propagators: TextMapPropagator[] = [];
  for (const name of new Set(names)) {
    if (name === 'tracecontext') propagators.push(new W3CTraceContextPropagator());
    else if (name === 'baggage') propagators.push(new W3CBaggagePropagator());
    else if (name !== 'none')
      diag.warn(`OTEL_PROPAGATORS names ${name}, which is unknown; allowed: tracecontext, baggage.`);
  }
  return new CompositePropagator({ propagators });
}
