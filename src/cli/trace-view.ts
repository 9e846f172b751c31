import { attribute } from '../observability/attributes.ts';
import type { FinishedSpan } from '../observability/finished-spans.ts';
import type { StartTracingOptions, Tracing } from '../observability/tracing.ts';
import { invalidConfig } from './arguments.ts';
import type { Environment, Terminal } from './terminal.ts';

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
 * @throws AgentLoopError `INVALID_CONFIG` where the address or an `OTEL_*` variable cannot be used, or turns off what a flag asks for.
 */
async function startTrace(flags: TraceFlags, options: StartTracingOptions): Promise<Tracing> {
  const { startTracing } = await import('../observability/tracing.ts');
  const endpoint = flags.otlp !== undefined && { endpoint: flags.otlp };
  // The command has its own way out on signals, and flushes on it.
  const tracing = startTracing({ flushOnSignals: [], ...endpoint, ...options });
  const off = turnedOff(flags, tracing);
  if (off === undefined) return tracing;
  await tracing.shutdown();
  throw invalidConfig(off);
}

/** Why what a flag asks for does not happen. */
function turnedOff({ trace = false, otlp }: TraceFlags, tracing: Tracing): string | undefined {
  if (tracing.provider === undefined && (trace || otlp !== undefined))
    return 'OTEL_SDK_DISABLED turns tracing off; unset it, or leave --trace and --otlp out';
  if (tracing.endpoint === undefined && otlp !== undefined)
    return 'OTEL_TRACES_EXPORTER does not name otlp; unset it, or leave --otlp out';
  return undefined;
}

/** Tracing of a command that serves: spans only leave the process. Undefined where nobody asks for that. Errors: `INVALID_CONFIG`. */
export async function exportTrace(flags: TraceFlags, env: Environment): Promise<Pick<TraceView, 'close'> | undefined> {
  if (!wantsExport(flags, env)) return undefined;
  const tracing = await startTrace(flags, {});
  return { close: () => closed(tracing) };
}

/** Tracing of a command that shows turns. Errors: `INVALID_CONFIG`. */
export async function openTrace(flags: TraceFlags, env: Environment): Promise<TraceView> {
  let spans: FinishedSpan[] = [];
  const tracing = await startTrace(flags, {
    // What a process before left unwritten belongs to a trace of its own time.
    onSpanEnd: (span) => void (span.attributes[attribute.restored] !== true && spans.push(span)),
    ...(!wantsExport(flags, env) && { exporter: 'none' }),
  });
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
    close: () => closed(tracing),
  };
}

async function closed(tracing: Tracing): Promise<string | undefined> {
  const report = await tracing.shutdown();
  return tracing.endpoint === undefined ? undefined : exportSentence(tracing.endpoint, report);
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

/** Wider ones are harder to read. */
const widest = 110;

/** Draws spans on stderr. */
export async function showWaterfall(spans: readonly FinishedSpan[], { stderr, errorStyle }: Terminal): Promise<void> {
  const { renderWaterfall } = await import('../observability/finished-spans.ts');
  const { color, unicode } = errorStyle;
  void stderr.write(`\n${renderWaterfall(spans, { width: Math.min(stderr.columns, widest) - 1, color, unicode })}`);
}
