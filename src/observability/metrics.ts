import { createNoopMeter, metrics } from '@opentelemetry/api';
import type { convertLegacyHttpOptions } from '@opentelemetry/otlp-exporter-base/node-http';
import type { MeterProvider, MetricReader, PushMetricExporter } from '@opentelemetry/sdk-metrics';
import { AgentLoopError, systemClock } from '../core/contracts/index.ts';
import { settled } from '../core/streams/index.ts';
import { assertKnownOptions, type OptionNames } from '../options/option-rules.ts';
import { flushAtExit } from './exit-flush.ts';
import { assertSdk, loadSdk, metricPackages, otlpMetricPackages, resourceOf } from './load-sdk.ts';
import {
  assertProtobuf,
  exportersFromEnvironment,
  isSdkDisabled,
  numberFromEnv,
  otlpMetricsUrl,
  shownUrl,
} from './otel-environment.ts';

/** Running metrics: the SDK, and how to stop it. */
export interface Metrics {
  /** Absent with `OTEL_SDK_DISABLED=true`. */
  readonly provider: MeterProvider | undefined;
  /** The address of the exports, without credentials; absent without OTLP. */
  readonly endpoint: string | undefined;
  /** Exports all measurements before the call. Never rejects. */
  flush(): Promise<void>;
  /** Flushes, stops, and unregisters the SDK; once, later calls return the same promise. Never rejects. */
  shutdown(): Promise<void>;
}

/**
 * Starts OpenTelemetry's metrics for this process: measurements of turns are exported every minute as OTLP over protobuf. Measures turns that start
 * after the call. Honours the standard `OTEL_*` variables; an option overrides its variable. Flushes when the process exits by
 * itself and on signals; call `shutdown` before `process.exit()`.
 *
 * The SDK is an optional peer: if it is not installed, the call errors with `MISSING_PACKAGE` and the command that installs it.
 * One per process: a second start before `shutdown`, or another registered SDK, is `INVALID_CONFIG`; so is an invalid address.
 * With the collector down `shutdown` resolves within `shutdownTimeoutMs`. Memory: one series per combination of model, tool, agent and outcome.
 */
export async function startMetrics(options: StartMetricsOptions = {}): Promise<Metrics> {
  assertKnownOptions('startMetrics', options, ofMetrics);
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
  const flush = () => settled(timeoutMs, systemClock, provider.forceFlush());
  let stopping: Promise<void> | undefined;
  const stop = async () => {
    stopListening();
    await settled(timeoutMs, systemClock, provider.shutdown());
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

/** Options of `startMetrics`. */
export interface StartMetricsOptions {
  /** As for `startTracing`. */
  readonly serviceName?: string | undefined;
  /** The collector's base address, e.g. `http://localhost:4318`. Default: from the environment, else that. */
  readonly endpoint?: string | undefined;
  /** Sent with each export, e.g. a key. Never displayed. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Milliseconds from one export to the next. Default: `OTEL_METRIC_EXPORT_INTERVAL`, else 60,000. */
  readonly intervalMs?: number | undefined;
  /** Replaces OTLP, e.g. with a reader that Prometheus scrapes. */
  readonly reader?: MetricReader | undefined;
  /** The time limit of `flush` and `shutdown`. Milliseconds; default 3,000. */
  readonly shutdownTimeoutMs?: number | undefined;
  /** Signals that flush. Default SIGTERM and SIGINT. */
  readonly flushOnSignals?: readonly NodeJS.Signals[] | undefined;
}

const ofMetrics: OptionNames<StartMetricsOptions> = {
  serviceName: true,
  endpoint: true,
  headers: true,
  intervalMs: true,
  reader: true,
  shutdownTimeoutMs: true,
  flushOnSignals: true,
};

/** Creates the SDK from the options and the environment, without registering it. */
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

/** In protobuf, as for spans, from the same parts as the exporter of spans. */
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
