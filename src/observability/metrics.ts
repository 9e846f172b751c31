import { createNoopMeter, metrics } from '@opentelemetry/api';
import type { MeterProvider } from '@opentelemetry/sdk-metrics';
import { AgentLoopError } from '../core/contracts/index.ts';
import { flushAtExit } from './exit-flush.ts';
import { meterSdk, type StartMetricsOptions } from './metrics-sdk.ts';
import { isSdkDisabled } from './otel-environment.ts';
import { within } from './within.ts';

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
