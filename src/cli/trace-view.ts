import { AgentLoopError } from '../core/errors.ts';
import type { FinishedSpan } from '../observability/finished-span.ts';
import type { Environment } from './style.ts';

/** What the command line says about tracing. */
export interface TraceFlags {
  readonly trace?: boolean;
  /** Where spans are sent to. */
  readonly otlp?: string;
}

/** The spans of this process: kept to be drawn, sent where the settings say. */
export interface TraceView {
  /** The spans that ended since the last call, and forgets them. */
  takeSpans(): readonly FinishedSpan[];
  /** Sends what waits now. Resolves, within a few seconds, with whether all spans have left the process. */
  flush(): Promise<boolean>;
  /** Sends what waits, for the last time. Resolves, within a few seconds, with a sentence about it where spans leave the process. */
  close(): Promise<string | undefined>;
}

/** The variables of OpenTelemetry that ask for an export. */
const exportVariables = [
  'OTEL_EXPORTER_OTLP_ENDPOINT',
  'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT',
  'OTEL_TRACES_EXPORTER',
] as const;

/** Whether spans are to leave the process, by flag or by the standard variables. */
export function wantsExport(flags: TraceFlags, env: Environment): boolean {
  return flags.otlp !== undefined || exportVariables.some((name) => (env[name] ?? '').trim() !== '');
}

/**
 * Starts tracing; loads the OpenTelemetry SDK.
 * @throws AgentLoopError `INVALID_CONFIG` where the address or an `OTEL_*` variable cannot be used.
 */
export async function openTrace(flags: TraceFlags, env: Environment): Promise<TraceView> {
  const { startTracing } = await import('../observability/tracing.ts');
  let spans: FinishedSpan[] = [];
  const tracing = startTracing({
    // The command has its own way out on signals, and flushes on it.
    flushOnSignals: [],
    onSpanEnd: (span) => void spans.push(span),
    ...(flags.otlp !== undefined && { endpoint: flags.otlp }),
    ...(!wantsExport(flags, env) && { exporter: 'none' as const }),
  });
  if (tracing.provider === undefined && (flags.trace === true || flags.otlp !== undefined)) {
    throw new AgentLoopError(
      'INVALID_CONFIG',
      'OTEL_SDK_DISABLED turns tracing off; unset it, or leave --trace and --otlp out',
    );
  }
  return {
    takeSpans() {
      const taken = spans;
      spans = [];
      return taken;
    },
    async flush() {
      const { ended, exported } = await tracing.flush();
      return exported === ended;
    },
    async close() {
      const report = await tracing.shutdown();
      return tracing.endpoint === undefined ? undefined : exportSentence(tracing.endpoint, report);
    },
  };
}

interface ExportReport {
  readonly ended: number;
  readonly exported: number;
  readonly lastError?: string;
}

function exportSentence(endpoint: string, { ended, exported, lastError }: ExportReport): string {
  if (exported === ended) return `${exported} spans sent to ${endpoint}`;
  const why = lastError === undefined ? 'it did not answer in time' : lastError;
  return `${ended - exported} of ${ended} spans did not reach ${endpoint}: ${why}`;
}
