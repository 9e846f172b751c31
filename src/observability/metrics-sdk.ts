import { getNumberFromEnv } from '@opentelemetry/core';
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-http';
import { MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import type { StartMetricsOptions } from './metrics.ts';
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
  const url = otlpMetricsUrl(endpoint);
  const interval = intervalMs ?? getNumberFromEnv('OTEL_METRIC_EXPORT_INTERVAL') ?? 60_000;
  const exporting = new PeriodicExportingMetricReader({
    exporter: new OTLPMetricExporter({ url, timeoutMillis: timeoutMs, ...(headers && { headers: { ...headers } }) }),
    exportIntervalMillis: interval,
    exportTimeoutMillis: Math.min(timeoutMs, interval),
  });
  return { provider: new MeterProvider({ resource, readers: [exporting] }), endpoint: shownUrl(url) };
}
