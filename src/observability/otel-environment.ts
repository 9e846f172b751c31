import { diag } from '@opentelemetry/api';
import { AgentLoopError } from '../core/contracts/index.ts';
import type { OtlpSignal } from './otlp-endpoint.ts';

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
