import { createNoopMeter, metrics } from '@opentelemetry/api';
import type { convertLegacyHttpOptions } from '@opentelemetry/otlp-exporter-base/node-http';
import type { MeterProvider, MetricReader, PushMetricExporter } from '@opentelemetry/sdk-metrics';
import { AgentLoopError } from '../core/contracts/index.ts';
import { flushAtExit, within } from './exit-flush.ts';
import { assertSdk, loadSdk, metricPackages, otlpMetricPackages, resourceOf } from './load-sdk.ts';
import {
  assertProtobuf,
  exportersFromEnvironment,
  isSdkDisabled,
  numberFromEnv,
  otlpMetricsUrl,
  shownUrl,
} from './otel-environment.ts';

/** Metrics that were started: the SDK, and how to end it. */
export interface Metrics {
  /** Absent with `OTEL_SDK_DISABLED=true`. */
  readonly provider: MeterProvider | undefined;
  /** Where metrics are posted to, without credentials; absent where they do not leave by OTLP. */
  readonly endpoint: string | undefined;
  /** Sends what was measured before the call. Never rejects. */
  flush(): Promise<void>;
  /** Flushes, stops, and takes the SDK from the API again; once, later calls get the same promise. Never rejects. */
  shutdown(): Promise<void>;
}

/**
 * Starts OpenTelemetry's metrics for this process: what turns measure goes out every minute as OTLP over protobuf. Turns that start from now on are
 * measured. Honours the standard `OTEL_*` variables; an option counts before the variable that says the same. Flushes when the process ends by
 * itself and on signals; call `shutdown` before `process.exit()`.
 *
 * The SDK is an optional peer: where it is not installed, the call errors with `MISSING_PACKAGE` and the command that installs it.
 * One per process: a second start before `shutdown`, or where another SDK is registered, is `INVALID_CONFIG`; so is an address that cannot be read.
 * With the collector down `shutdown` resolves within `shutdownTimeoutMs`. Memory: one series for each combination of model, tool, agent and outcome.
 */
export async function startMetrics(options: StartMetricsOptions = {}): Promise<Metrics> {
  if (isSdkDisabled()) return disabledMetrics;
  const timeoutMs = options.shutdownTimeoutMs ?? 3_000;
  if (metrics.getMeterProvider().getMeter('millrace') !== createNoopMeter()) {
    const cure = 'Millrace writes its metrics to it, so leave startMetrics out.';
    throw new AgentLoopError(
      'INVALID_CONFIG',
      `Another OpenTelemetry meter provider is registered in this process. ${cure}`,
    );
  }
  const { provider, endpoint } = meterSdk(options, timeoutMs);
  metrics.setGlobalMeterProvider(provider);
  const flush = () => within(timeoutMs, provider.forceFlush());
  let stopping: Promise<void> | undefined;
  const stop = async () => {
    stopListening();
    await within(timeoutMs, provider.shutdown());
    metrics.disable();
  };
  const shutdown = () => {
    stopping ??= stop();
    return stopping;
  };
  let isAtEnd = false;
  const waiting = () => {
    const isFirst = !isAtEnd;
    isAtEnd = true;
    return isFirst;
  };
  const stopListening = flushAtExit({ flush, shutdown, waiting }, options.flushOnSignals ?? ['SIGTERM', 'SIGINT']);
  return { provider, endpoint, flush, shutdown };
}

const disabledMetrics: Metrics = {
  provider: undefined,
  endpoint: undefined,
  flush: () => Promise.resolve(),
  shutdown: () => Promise.resolve(),
};

/** Options of `startMetrics`: where metrics are sent, and how often. */
export interface StartMetricsOptions {
  /** As for `startTracing`. */
  readonly serviceName?: string | undefined;
  /** The collector's base address, e.g. `http://localhost:4318`. Default: what the environment says, else that. */
  readonly endpoint?: string | undefined;
  /** Sent with each export, e.g. a key. Never shown. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Milliseconds from one export to the next. Default: `OTEL_METRIC_EXPORT_INTERVAL`, else 60,000. */
  readonly intervalMs?: number | undefined;
  /** Takes the place of OTLP, e.g. a reader that Prometheus scrapes. */
  readonly reader?: MetricReader | undefined;
  /** What `flush` and `shutdown` may take at most. Milliseconds; default 3,000. */
  readonly shutdownTimeoutMs?: number | undefined;
  /** Signals that flush. Default SIGTERM and SIGINT. */
  readonly flushOnSignals?: readonly NodeJS.Signals[] | undefined;
}

/** The SDK as the options and the environment say, not yet registered. */
function meterSdk(
  { serviceName, endpoint, headers, intervalMs, reader }: StartMetricsOptions,
  timeoutMs: number,
): { readonly provider: MeterProvider; readonly endpoint: string | undefined } {
  const names = reader === undefined ? exportersFromEnvironment('metrics') : [];
  assertSdk(names.includes('otlp') ? otlpMetricPackages : metricPackages);
  const { ConsoleMetricExporter, MeterProvider, PeriodicExportingMetricReader } = loadSdk('@opentelemetry/sdk-metrics');
  const resource = resourceOf(serviceName);
  if (reader !== undefined)
    return { provider: new MeterProvider({ resource, readers: [reader] }), endpoint: undefined };
  const url = names.includes('otlp') ? otlpMetricsUrl(endpoint) : undefined;
  const exporterOf = (name: 'otlp' | 'console') =>
    name === 'console' || url === undefined
      ? new ConsoleMetricExporter()
      : otlpExporter({ url, timeoutMillis: timeoutMs, ...(headers && { headers: { ...headers } }) });
  const interval = intervalMs ?? numberFromEnv('OTEL_METRIC_EXPORT_INTERVAL') ?? 60_000;
  const readers = names.map(
    (name) =>
      new PeriodicExportingMetricReader({
        exporter: exporterOf(name),
        exportIntervalMillis: interval,
        exportTimeoutMillis: Math.min(timeoutMs, interval),
      }),
  );
  return { provider: new MeterProvider({ resource, readers }), endpoint: url && shownUrl(url) };
}

type HttpOptions = Parameters<typeof convertLegacyHttpOptions>[0];

/** In protobuf, as spans go out; the parts are those that the exporter of spans is made of. */
function otlpExporter(options: HttpOptions): PushMetricExporter {
  assertProtobuf('metrics');
  const { OTLPExporterBase } = loadSdk('@opentelemetry/otlp-exporter-base');
  const { convertLegacyHttpOptions, createOtlpHttpExportDelegate } = loadSdk(
    '@opentelemetry/otlp-exporter-base/node-http',
  );
  const { MetricsExporterMetricsHelper, ProtobufMetricsSerializer } = loadSdk('@opentelemetry/otlp-transformer');
  const http = convertLegacyHttpOptions(options, 'METRICS', 'v1/metrics', { 'Content-Type': 'application/x-protobuf' });
  const name = 'otlp_http_metric_exporter';
  return new OTLPExporterBase(
    createOtlpHttpExportDelegate(http, ProtobufMetricsSerializer, name, MetricsExporterMetricsHelper, undefined),
  );
}
