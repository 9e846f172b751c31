import type { convertLegacyHttpOptions } from '@opentelemetry/otlp-exporter-base/node-http';
import type { MeterProvider, MetricReader, PushMetricExporter } from '@opentelemetry/sdk-metrics';
import { assertSdk, loadSdk, metricPackages, otlpMetricPackages } from './load-sdk.ts';
import { assertProtobuf, exportersFromEnvironment, numberFromEnv } from './otel-environment.ts';
import { otlpMetricsUrl, shownUrl } from './otlp-endpoint.ts';
import { resourceOf } from './resource.ts';

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
export function meterSdk(
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
