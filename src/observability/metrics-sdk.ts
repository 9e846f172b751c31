import { getNumberFromEnv } from '@opentelemetry/core';
import { OTLPExporterBase } from '@opentelemetry/otlp-exporter-base';
import { convertLegacyHttpOptions, createOtlpHttpExportDelegate } from '@opentelemetry/otlp-exporter-base/node-http';
import { MetricsExporterMetricsHelper, ProtobufMetricsSerializer } from '@opentelemetry/otlp-transformer';
import {
  ConsoleMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
  type PushMetricExporter,
} from '@opentelemetry/sdk-metrics';
import type { StartMetricsOptions } from './metrics.ts';
import { assertProtobuf, exportersFromEnvironment } from './otel-environment.ts';
import { otlpMetricsUrl, shownUrl } from './otlp-endpoint.ts';
import { resourceOf } from './resource.ts';

/** The SDK as the options and the environment say, not yet registered. */
export function meterSdk(
  { serviceName, endpoint, headers, intervalMs, reader }: StartMetricsOptions,
  timeoutMs: number,
): { readonly provider: MeterProvider; readonly endpoint: string | undefined } {
  const resource = resourceOf(serviceName);
  if (reader !== undefined)
    return { provider: new MeterProvider({ resource, readers: [reader] }), endpoint: undefined };
  const names = exportersFromEnvironment('metrics');
  const url = names.includes('otlp') ? otlpMetricsUrl(endpoint) : undefined;
  const exporterOf = (name: 'otlp' | 'console') =>
    name === 'console' || url === undefined
      ? new ConsoleMetricExporter()
      : otlpExporter({ url, timeoutMillis: timeoutMs, ...(headers && { headers: { ...headers } }) });
  const interval = intervalMs ?? getNumberFromEnv('OTEL_METRIC_EXPORT_INTERVAL') ?? 60_000;
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
  const http = convertLegacyHttpOptions(options, 'METRICS', 'v1/metrics', { 'Content-Type': 'application/x-protobuf' });
  const name = 'otlp_http_metric_exporter';
  return new OTLPExporterBase(
    createOtlpHttpExportDelegate(http, ProtobufMetricsSerializer, name, MetricsExporterMetricsHelper, undefined),
  );
}
