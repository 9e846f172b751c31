import { diag } from '@opentelemetry/api';
import { AgentLoopError } from '../core/contracts/index.ts';

/** The exporters of spans or metrics in the environment; `none` is the empty array. Default OTLP. Any other name is `INVALID_CONFIG`. */
export function exportersFromEnvironment(signal: OtlpSignal): readonly ('otlp' | 'console')[] {
  const variable = `OTEL_${signal.toUpperCase()}_EXPORTER`;
  return (listFromEnv(variable) ?? ['otlp']).flatMap((name) => {
    if (name === 'none') return [];
    if (name === 'otlp' || name === 'console') return [name];
    throw new AgentLoopError('INVALID_CONFIG', `${variable} names ${name}; known are otlp, console and none.`);
  });
}

/** Refuses any protocol in the environment except OTLP's protobuf over HTTP. */
export function assertProtobuf(signal: OtlpSignal): void {
  const own = `OTEL_EXPORTER_OTLP_${signal.toUpperCase()}_PROTOCOL`;
  const variable = stringFromEnv(own) === undefined ? 'OTEL_EXPORTER_OTLP_PROTOCOL' : own;
  const protocol = stringFromEnv(variable);
  if (protocol === undefined || protocol === 'http/protobuf') return;
  const cure = `${signal} go out as http/protobuf; unset it, or pass another ${signal === 'traces' ? 'exporter' : 'reader'}.`;
  throw new AgentLoopError('INVALID_CONFIG', `${variable} is ${protocol}, but ${cure}`);
}

/** A variable of the environment; `undefined` also if it is empty. */
export function stringFromEnv(variable: string): string | undefined {
  const value = process.env[variable];
  return value?.trim() ? value : undefined;
}

/** The comma-separated values of a variable; `undefined` if it is empty. */
export function listFromEnv(variable: string): readonly string[] | undefined {
  const names = stringFromEnv(variable)?.split(',');
  return names?.map((name) => name.trim()).filter((name) => name !== '');
}

/** The number in a variable; `undefined` also if it is not a number. */
export function numberFromEnv(variable: string): number | undefined {
  const value = stringFromEnv(variable);
  if (value === undefined) return undefined;
  const number = Number(value);
  if (!Number.isNaN(number)) return number;
  diag.warn(`${variable} must be a number, got ${value}; the default is used.`);
  return undefined;
}

/** Whether `OTEL_SDK_DISABLED` is `true`. */
export function isSdkDisabled(): boolean {
  return stringFromEnv('OTEL_SDK_DISABLED')?.trim().toLowerCase() === 'true';
}

/** The default address of OTLP receivers, also of Jaeger in `docker-compose.yml`. */
export const defaultOtlpEndpoint = 'http://localhost:4318';

/** The signals of OTLP. */
type OtlpSignal = 'traces' | 'metrics';

/**
 * The address for spans: the given base, else `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` unchanged, else
 * `OTEL_EXPORTER_OTLP_ENDPOINT`, else {@link defaultOtlpEndpoint}. `/v1/traces` is appended to a base that does not end with it.
 * An invalid address is `INVALID_CONFIG`. Source: OpenTelemetry, "OTLP exporter configuration".
 */
export function otlpTracesUrl(endpoint: string | undefined, env: NodeJS.ProcessEnv = process.env): string {
  return otlpUrl('traces', endpoint, env);
}

/** The address for metrics, as {@link otlpTracesUrl} for spans. */
export function otlpMetricsUrl(endpoint: string | undefined, env: NodeJS.ProcessEnv = process.env): string {
  return otlpUrl('metrics', endpoint, env);
}

function otlpUrl(signal: OtlpSignal, endpoint: string | undefined, env: NodeJS.ProcessEnv): string {
  if (endpoint !== undefined) return withPath(signal, 'endpoint', endpoint);
  const own = `OTEL_EXPORTER_OTLP_${signal.toUpperCase()}_ENDPOINT`;
  const exact = env[own]?.trim();
  if (exact) return parsed(own, exact).href;
  const base = env['OTEL_EXPORTER_OTLP_ENDPOINT']?.trim();
  return withPath(signal, 'OTEL_EXPORTER_OTLP_ENDPOINT', base || defaultOtlpEndpoint);
}

/** The address for display: without a user name, a password or a query, which may contain keys. */
export function shownUrl(address: string): string {
  const { origin, pathname } = new URL(address);
  return `${origin}${pathname}`;
}

function withPath(signal: OtlpSignal, name: string, address: string): string {
  const url = parsed(name, address);
  const path = `/v1/${signal}`;
  if (!url.pathname.endsWith(path)) url.pathname = url.pathname.replace(/\/*$/, path);
  return url.href;
}

function parsed(name: string, address: string): URL {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (url?.protocol === 'http:' || url?.protocol === 'https:') return url;
  throw new AgentLoopError(
    'INVALID_CONFIG',
    `${name} is not an http(s) address; give one like ${defaultOtlpEndpoint}.`,
  );
}
