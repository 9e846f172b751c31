import { getStringFromEnv, getStringListFromEnv } from '@opentelemetry/core';
import { AgentLoopError } from '../core/contracts/index.ts';
import type { OtlpSignal } from './otlp-endpoint.ts';

/** Where the environment says that spans or metrics go; `none` is the empty list. Default OTLP. Any other name is `INVALID_CONFIG`. */
export function exportersFromEnvironment(signal: OtlpSignal): readonly ('otlp' | 'console')[] {
  const variable = `OTEL_${signal.toUpperCase()}_EXPORTER`;
  return (getStringListFromEnv(variable) ?? ['otlp']).flatMap((name) => {
    if (name === 'none') return [];
    if (name === 'otlp' || name === 'console') return [name];
    throw new AgentLoopError('INVALID_CONFIG', `${variable} names ${name}; known are otlp, console and none.`);
  });
}

/** Refuses a protocol of the environment that is not OTLP's protobuf over HTTP. */
export function assertProtobuf(signal: OtlpSignal): void {
  const own = `OTEL_EXPORTER_OTLP_${signal.toUpperCase()}_PROTOCOL`;
  const variable = getStringFromEnv(own) === undefined ? 'OTEL_EXPORTER_OTLP_PROTOCOL' : own;
  const protocol = getStringFromEnv(variable);
  if (protocol === undefined || protocol === 'http/protobuf') return;
  const cure = `${signal} go out as http/protobuf; unset it, or pass another ${signal === 'traces' ? 'exporter' : 'reader'}.`;
  throw new AgentLoopError('INVALID_CONFIG', `${variable} is ${protocol}, but ${cure}`);
}
