import { context, diag, propagation, type TextMapPropagator, trace } from '@opentelemetry/api';
import type { NodeTracerProvider, SpanExporter, SpanProcessor } from '@opentelemetry/sdk-trace-node';
import { messageOf } from '../core/contracts/index.ts';
import { attribute } from './attributes.ts';
import { type FinishedSpan, finishedSpan } from './finished-span.ts';
import { assertSdk, loadSdk, otlpSpanPackages, spanPackages } from './load-sdk.ts';
import { assertProtobuf, exportersFromEnvironment, listFromEnv, numberFromEnv } from './otel-environment.ts';
import { otlpTracesUrl, shownUrl } from './otlp-endpoint.ts';
import { resourceOf } from './resource.ts';
import { dropIdGenerator, turnIdGenerator } from './spans/chosen-ids.ts';

/** What an export must finish within, its retries counted, unless `OTEL_EXPORTER_OTLP_TIMEOUT` says otherwise. */
const exportTimeoutMs = 2_500;
const defaultQueueSize = 16_384;
const defaultBatchSize = 512;

/** The codes of an `ExportResult`. */
const exportSucceeded = 0;
const exportFailed = 1;

/** What has become of the spans of this process. */
export interface SpanTally {
  started: number;
  ended: number;
  exported: number;
  /** Why the last export that failed did. */
  lastError?: string;
}

export interface SdkOptions {
  /** Default: `OTEL_SERVICE_NAME`, else `service.name` of `OTEL_RESOURCE_ATTRIBUTES`, else `millrace`. */
  readonly serviceName?: string | undefined;
  /** The collector's base address, e.g. `http://localhost:4318`. Default: what the environment says, else that. */
  readonly endpoint?: string | undefined;
  /** Sent with each export, e.g. a key; added to those of `OTEL_EXPORTER_OTLP_HEADERS`. Never shown. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Takes the place of OTLP. `'none'`: spans are made and listened to, but sent nowhere. Default: `OTEL_TRACES_EXPORTER`, else OTLP. */
  readonly exporter?: SpanExporter | 'none' | undefined;
  /** Told of each recorded span as it ends, before it is exported. What it throws is logged and dropped. */
  readonly onSpanEnd?: ((span: FinishedSpan) => void) | undefined;
}

/** The SDK of this process, registered with the API. */
export interface RegisteredSdk {
  readonly provider: NodeTracerProvider;
  readonly endpoint: string | undefined;
  readonly tally: Readonly<SpanTally>;
  /** May reject. */
  flush(): Promise<void>;
  /** May reject. */
  shutdown(): Promise<void>;
}

/**
 * Makes the SDK as the options and the environment say and registers it. Errors: `MISSING_PACKAGE` where the SDK is not installed. All use of the classes for
 * spans is in this file: the provider reads the variables of samplers and limits, the processor those of batches, the exporter its own; the
 * resource's, the exporters', the protocol's and the propagators' are read here.
 */
export function registerSdk(options: SdkOptions, timeoutMs: number): RegisteredSdk {
  const tally: SpanTally = { started: 0, ended: 0, exported: 0 };
  assertSdk(sendsOtlp(options) ? otlpSpanPackages : spanPackages);
  const { NodeTracerProvider } = loadSdk('@opentelemetry/sdk-trace-node');
  const { exporters, endpoint } = exportersOf(options);
  const batches = exporters.map((exporter) => batched(tallied(exporter, tally), timeoutMs));
  const provider = new NodeTracerProvider({
    idGenerator: turnIdGenerator(),
    resource: resourceOf(options.serviceName),
    spanProcessors: [tallyProcessor(tally, options.onSpanEnd), ...batches, flushedWhereSuspended(batches)],
  });
  provider.register({ propagator: propagatorFromEnvironment() });
  return {
    provider,
    endpoint,
    tally,
    flush: () => flushAll(provider, exporters, timeoutMs),
    shutdown: () => provider.shutdown(),
  };
}

/** Leaves the API as it is where no SDK was ever registered. */
export function unregisterSdk(): void {
  dropIdGenerator();
  trace.disable();
  context.disable();
  propagation.disable();
}

/** A flush of the processors does not wait for the export that was under way: the exporters know of that one. */
async function flushAll(provider: NodeTracerProvider, exporters: readonly SpanExporter[], timeoutMillis: number) {
  await provider.forceFlush({ timeoutMillis }).catch(() => undefined);
  await Promise.all(exporters.map((exporter) => exporter.forceFlush?.()));
}

function sendsOtlp({ exporter }: SdkOptions): boolean {
  return exporter === undefined && exportersFromEnvironment('traces').includes('otlp');
}

function exportersOf(options: SdkOptions): { exporters: SpanExporter[]; endpoint: string | undefined } {
  if (options.exporter === 'none') return { exporters: [], endpoint: undefined };
  if (options.exporter !== undefined) return { exporters: [options.exporter], endpoint: undefined };
  const exporters: SpanExporter[] = [];
  let endpoint: string | undefined;
  for (const name of exportersFromEnvironment('traces')) {
    if (name === 'console') {
      const { ConsoleSpanExporter } = loadSdk('@opentelemetry/sdk-trace-node');
      exporters.push(new ConsoleSpanExporter());
    } else {
      const url = otlpTracesUrl(options.endpoint);
      exporters.push(otlpExporter(url, options.headers));
      endpoint = shownUrl(url);
    }
  }
  return { exporters, endpoint };
}

function otlpExporter(url: string, headers: SdkOptions['headers']): SpanExporter {
  assertProtobuf('traces');
  const { OTLPTraceExporter } = loadSdk('@opentelemetry/exporter-trace-otlp-proto');
  const timeout =
    numberFromEnv('OTEL_EXPORTER_OTLP_TRACES_TIMEOUT') ??
    numberFromEnv('OTEL_EXPORTER_OTLP_TIMEOUT') ??
    exportTimeoutMs;
  const concurrencyLimit = 2 * Math.ceil(queueSize() / batchSize());
  return new OTLPTraceExporter({
    url,
    timeoutMillis: timeout,
    concurrencyLimit,
    ...(headers && { headers: { ...headers } }),
  });
}

function queueSize(): number {
  return numberFromEnv('OTEL_BSP_MAX_QUEUE_SIZE') ?? defaultQueueSize;
}

function batchSize(): number {
  return Math.min(numberFromEnv('OTEL_BSP_MAX_EXPORT_BATCH_SIZE') ?? defaultBatchSize, queueSize());
}

function batched(exporter: SpanExporter, timeoutMs: number): SpanProcessor {
  const { BatchSpanProcessor } = loadSdk('@opentelemetry/sdk-trace-node');
  return new BatchSpanProcessor(exporter, {
    maxQueueSize: queueSize(),
    maxExportBatchSize: batchSize(),
    exportTimeoutMillis: numberFromEnv('OTEL_BSP_EXPORT_TIMEOUT') ?? timeoutMs,
  });
}

function tallied(exporter: SpanExporter, tally: SpanTally): SpanExporter {
  const failed = (error: unknown) => {
    tally.lastError = reasonOf(error);
  };
  return {
    export(spans, done) {
      try {
        exporter.export(spans, (result) => {
          if (result.code === exportSucceeded) tally.exported += spans.length;
          else failed(result.error);
          done(result);
        });
      } catch (thrown) {
        failed(thrown);
        done({ code: exportFailed });
      }
    },
    shutdown: () => exporter.shutdown(),
    forceFlush: async () => exporter.forceFlush?.(),
  };
}

/** Node's error for a host whose addresses all refuse has no message, the exporter's for a refusal has its status beside it. */
function reasonOf(error: unknown): string {
  if (error === undefined) return 'the exporter gave no reason';
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  const message = messageOf(error);
  return message.includes(code) ? message : `${code} ${message}`.trim();
}

function tallyProcessor(tally: SpanTally, listener: SdkOptions['onSpanEnd']): SpanProcessor {
  return {
    onStart() {
      tally.started++;
    },
    onEnd(span) {
      tally.ended++;
      try {
        listener?.(finishedSpan(span));
      } catch (thrown) {
        diag.error(`onSpanEnd threw: ${messageOf(thrown)}`);
      }
    },
    forceFlush: () => Promise.resolve(),
    shutdown: () => Promise.resolve(),
  };
}

/**
 * Exports the spans of a turn as soon as it is suspended, one export at a time: its lease is given back then, so that nobody writes them again where this process
 * is killed before the next batch.
 */
function flushedWhereSuspended(batches: readonly SpanProcessor[]): SpanProcessor {
  let isWanted = false;
  let isFlushing = false;
  const flush = async () => {
    while (isWanted) {
      isWanted = false;
      // Failures go to the SDK's error handler.
      await Promise.allSettled(batches.map((batch) => batch.forceFlush()));
    }
    isFlushing = false;
  };
  return {
    onStart: () => {},
    onEnd({ attributes }) {
      const outcome = attributes[attribute.outcome];
      if (outcome !== 'input-required' && outcome !== 'auth-required') return;
      isWanted = true;
      if (isFlushing) return;
      isFlushing = true;
      // The spans above end with this one.
      setImmediate(flush);
    },
    forceFlush: () => Promise.resolve(),
    shutdown: () => Promise.resolve(),
  };
}

function propagatorFromEnvironment(): TextMapPropagator {
  const { CompositePropagator, W3CBaggagePropagator, W3CTraceContextPropagator } = loadSdk('@opentelemetry/core');
  const names = listFromEnv('OTEL_PROPAGATORS') ?? ['tracecontext', 'baggage'];
  const propagators: TextMapPropagator[] = [];
  for (const name of new Set(names)) {
    if (name === 'tracecontext') propagators.push(new W3CTraceContextPropagator());
    else if (name === 'baggage') propagators.push(new W3CBaggagePropagator());
    else if (name !== 'none')
      diag.warn(`OTEL_PROPAGATORS names ${name}, which is not there; known are tracecontext and baggage.`);
  }
  return new CompositePropagator({ propagators });
}
