import type { Attributes } from '@opentelemetry/api';
import type { Resource } from '@opentelemetry/resources';
import { missingPackage } from '../core/contracts/index.ts';
import { loadPackage } from '../stores/load-package.ts';

/** The packages of the OpenTelemetry SDK, which are optional peers. The build adds a `require` of each, for the user's bundler. */
const packages = {
  '@opentelemetry/core': (): typeof import('@opentelemetry/core') => loadPackage('@opentelemetry/core'),
  '@opentelemetry/resources': (): typeof import('@opentelemetry/resources') => loadPackage('@opentelemetry/resources'),
  '@opentelemetry/sdk-trace-node': (): typeof import('@opentelemetry/sdk-trace-node') =>
    loadPackage('@opentelemetry/sdk-trace-node'),
  '@opentelemetry/exporter-trace-otlp-proto': (): typeof import('@opentelemetry/exporter-trace-otlp-proto') =>
    loadPackage('@opentelemetry/exporter-trace-otlp-proto'),
  '@opentelemetry/sdk-metrics': (): typeof import('@opentelemetry/sdk-metrics') =>
    loadPackage('@opentelemetry/sdk-metrics'),
  '@opentelemetry/otlp-transformer': (): typeof import('@opentelemetry/otlp-transformer') =>
    loadPackage('@opentelemetry/otlp-transformer'),
  '@opentelemetry/otlp-exporter-base': (): typeof import('@opentelemetry/otlp-exporter-base') =>
    loadPackage('@opentelemetry/otlp-exporter-base'),
  '@opentelemetry/otlp-exporter-base/node-http': (): typeof import('@opentelemetry/otlp-exporter-base/node-http') =>
    loadPackage('@opentelemetry/otlp-exporter-base/node-http'),
} as const;

type Packages = typeof packages;
type SdkPackage = keyof Packages;

/** Packages for spans in this process, then for spans by OTLP; likewise for metrics. */
export const spanPackages: readonly SdkPackage[] = [
  '@opentelemetry/sdk-trace-node',
  '@opentelemetry/core',
  '@opentelemetry/resources',
];
export const otlpSpanPackages: readonly SdkPackage[] = [...spanPackages, '@opentelemetry/exporter-trace-otlp-proto'];
export const metricPackages: readonly SdkPackage[] = ['@opentelemetry/sdk-metrics', '@opentelemetry/resources'];
export const otlpMetricPackages: readonly SdkPackage[] = [
  ...metricPackages,
  '@opentelemetry/otlp-exporter-base',
  '@opentelemetry/otlp-transformer',
];

/** Loads a package of the SDK. Errors: `MISSING_PACKAGE`. */
export function loadSdk<P extends SdkPackage>(name: P): ReturnType<Packages[P]>;
export function loadSdk(name: SdkPackage): unknown {
  try {
    return packages[name]();
  } catch (cause) {
    throw missingPackage(name, cause);
  }
}

/** Errors with `MISSING_PACKAGE` if one of them cannot be loaded; the command in its message installs all that are missing. */
export function assertSdk(names: readonly SdkPackage[]): void {
  const failures = names.flatMap((name) => {
    try {
      packages[name]();
      return [];
    } catch (cause) {
      return [{ name, cause }];
    }
  });
  const [first] = failures;
  if (first) throw missingPackage(first.name, first.cause, failures.map(({ name }) => name).join(' '));
}

/** The resource of spans and metrics: the given service name, else that of the environment, else `millrace`. */
export function resourceOf(serviceName: string | undefined): Resource {
  const { defaultResource, detectResources, envDetector, resourceFromAttributes } = loadSdk('@opentelemetry/resources');
  const own: Attributes = serviceName === undefined ? {} : { 'service.name': serviceName };
  return defaultResource()
    .merge(resourceFromAttributes({ 'service.name': 'millrace' }))
    .merge(detectResources({ detectors: [envDetector] }))
    .merge(resourceFromAttributes(own));
}
