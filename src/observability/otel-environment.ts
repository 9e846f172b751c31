import { diag } from '@opentelemetry/api';
import { AgentLoopError } from '../core/contracts/index.ts';

/** Where the environment says that spans or metrics go; `none` is the empty list. Default OTLP. Any other name is `INVALID_CONFIG`. */
export function exportersFromEnvironment(signal: OtlpSignal): readonly ('otlp' | 'console')[] {
  const variable = `OTEL_${signal.toUpperCase()}_EXPORTER`;
  return (listFromEnv(variable) ?? ['otlp']).flatMap((name) => {
    if (name === 'none') return [];
    if (name === 'otlp' || name === 'console') return [name];
    throw new AgentLoopError('INVALID_CONFIG', `${variable} names ${name}; known are otlp, console and none.`);
  });
}

/** Refuses a protocol of the environment that is not OTLP's protobuf over HTTP. */
export function assertProtobuf(signal: OtlpSignal): void {
  const own = `OTEL_EXPORTER_OTLP_${signal.toUpperCase()}_PROTOCOL`;
  const variable = stringFromEnv(own) === undefined ? 'OTEL_EXPORTER_OTLP_PROTOCOL' : own;
  const protocol = stringFromEnv(variable);
  if (protocol === undefined || protocol === 'http/protobuf') return;
  const cure = `${signal} go out as http/protobuf; unset it, or pass another ${signal === 'traces' ? 'exporter' : 'reader'}.`;
  throw new AgentLoopError('INVALID_CONFIG', `${variable} is ${protocol}, but ${cure}`);
}

/** A variable of the environment; undefined where it is empty, too. */
export function stringFromEnv(variable: string): string | undefined {
  const value = process.env[variable];
  return value?.trim() ? value : undefined;
}

/** What stands between its commas; undefined where it is empty. */
export function listFromEnv(variable: string): readonly string[] | undefined {
  const names = stringFromEnv(variable)?.split(',');
  return names?.map((name) => name.trim()).filter((name) => name !== '');
}

/** Undefined, too, where it is not a number. */
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

/** Where an OTLP receiver listens by default, and where `docker-compose.yml` publishes Jaeger's. */
export const defaultOtlpEndpoint = 'http://localhost:4318';

/** What goes over OTLP. */
type OtlpSignal = 'traces' | 'metrics';

/**
 * The address that spans are posted to: the given base, else `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` as it stands, else
 * `OTEL_EXPORTER_OTLP_ENDPOINT`, else {@link defaultOtlpEndpoint}. `/v1/traces` is appended to a base that does not end with it.
 * An address that cannot be read is `INVALID_CONFIG`. Source: OpenTelemetry, "OTLP exporter configuration".
 */
export function otlpTracesUrl(endpoint: string | undefined, env: NodeJS.ProcessEnv = process.env): string {
  return otlpUrl('traces', endpoint, env);
}

/** The address that metrics are posted to, as {@link otlpTracesUrl} finds that of spans. */
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

/** The address as it may be shown: without a user name, a password or a query, where keys are sometimes put. */
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
