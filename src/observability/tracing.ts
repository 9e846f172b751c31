import { DiagConsoleLogger, DiagLogLevel, diag } from '@opentelemetry/api';
import type { NodeTracerProvider } from '@opentelemetry/sdk-trace-node';
import { AgentLoopError } from '../core/contracts/index.ts';
import { flushAtExit } from './exit-flush.ts';
import { isSdkDisabled, stringFromEnv } from './otel-environment.ts';
import { registeredTracer } from './spans/tracing-options.ts';
import { registerSdk, type SdkOptions, unregisterSdk } from './tracing-sdk.ts';
import { within } from './within.ts';

export { type FinishedSpan, finishedSpan } from './finished-span.ts';
export { type Metrics, startMetrics } from './metrics.ts';
export type { StartMetricsOptions } from './metrics-sdk.ts';
export { type SpanNode, spanOutline, spanTree } from './span-tree.ts';
export { type SpanIdGenerator, turnIdGenerator } from './spans/chosen-ids.ts';
export { carrierFromContext, contextFromCarrier, type HeaderCarrier } from './trace-carrier.ts';
export { renderWaterfall, type WaterfallOptions } from './waterfall.ts';

export interface StartTracingOptions extends SdkOptions {
  /** What `flush` and `shutdown` may take at most. Milliseconds; default 3,000. */
  readonly shutdownTimeoutMs?: number | undefined;
  /** Signals that flush. Default SIGTERM and SIGINT. */
  readonly flushOnSignals?: readonly NodeJS.Signals[] | undefined;
}

/** Spans of this process so far. After `shutdown`, `ended - exported` were lost. */
export interface TracingReport {
  readonly started: number;
  readonly ended: number;
  readonly exported: number;
  /** Why the last export that failed did. */
  readonly lastError?: string;
}

export interface Tracing {
  /** Absent with `OTEL_SDK_DISABLED=true`. */
  readonly provider: NodeTracerProvider | undefined;
  /** Where spans are posted to, without credentials; absent where they do not leave by OTLP. */
  readonly endpoint: string | undefined;
  report(): TracingReport;
  /** Sends all spans that ended before the call. Never rejects. */
  flush(): Promise<TracingReport>;
  /** Flushes, stops, and takes the SDK from the API again; once, later calls get the same promise. Never rejects. */
  shutdown(): Promise<TracingReport>;
}

let running: Tracing | undefined;

/**
 * Starts OpenTelemetry for this process: spans go out in batches as OTLP over protobuf, the W3C propagators are registered, and so
 * is a context manager, below which the instrumentations of fetch and of databases nest. Honours the standard `OTEL_*`
 * variables; an option counts before the variable that says the same. Flushes when the process ends by itself and on signals;
 * call `shutdown` before `process.exit()`.
 *
 * The SDK is an optional peer: where it is not installed, the call errors with `MISSING_PACKAGE` and the command that installs it.
 * One per process: a second start before `shutdown`, or where another SDK is registered, is `INVALID_CONFIG`. Up to 16,384 spans
 * wait (`OTEL_BSP_MAX_QUEUE_SIZE`), 1 to 2 KB each without content; more are dropped. With the collector down `shutdown`
 * resolves within `shutdownTimeoutMs`, and an export gives up after 2.5 seconds (`OTEL_EXPORTER_OTLP_TIMEOUT`, where that is set,
 * is also how long its retries keep the process alive).
 */
export function startTracing(options: StartTracingOptions = {}): Tracing {
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
    await within(timeoutMs, sdk.flush());
    return report();
  };
  const stop = async () => {
    stopListening();
    await within(timeoutMs, sdk.shutdown());
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
    diag.warn(`OTEL_LOG_LEVEL is ${name}; known are ${[...levels.keys()].join(', ')}. INFO is used.`);
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
