import { AgentLoopError, type ErrorCode, type ErrorData } from './errors.ts';

/** Why a call has no answer of its tool, or that its tool failed. */
export interface ToolError extends ErrorData {
  /** Which case of the code it is, where the engine says so: a name of `toolErrors`, or the reason of a limit. */
  readonly reason?: string;
  /** What the model receives. Where there is a `reason`, nothing reads or compares it: the words may change from version to version. */
  readonly message: string;
}

interface Row<Details> {
  readonly code: ErrorCode;
  readonly tells: (details: Details) => string;
}

function row<Details = undefined>(code: ErrorCode, tells: (details: Details) => string): Row<Details> {
  return { code, tells };
}

interface Limit {
  readonly limitMs: number;
}

/** The only place with the words in which the engine tells a model what became of a call. */
const toolErrors = {
  unknown_tool: row<{ name: string; known: readonly string[] }>('TOOL_NOT_FOUND', ({ name, known }) => {
    const list = known.length > 0 ? `known tools: ${known.join(', ')}` : 'there are no tools';
    return name === '' ? `the call names no tool; ${list}` : `tool "${name}" is not known; ${list}`;
  }),
  check_late: row<Limit>(
    'TOOL_TIMEOUT',
    ({ limitMs }) => `the check of the arguments did not answer within ${limitMs} ms`,
  ),
  undecided: row<Limit>(
    'TOOL_TIMEOUT',
    ({ limitMs }) => `nobody decided within ${limitMs} ms whether the call may run`,
  ),
  rejected: row<{ says?: string }>('TOOL_REJECTED', ({ says = '' }) =>
    says === '' ? 'the call was rejected' : `the call was rejected: ${says}`,
  ),
  denied: row<{ says: string }>('TOOL_REJECTED', ({ says }) => says),
  skipped: row('TOOL_SKIPPED', () => 'skipped: the turn finished'),
  never_started: row('CANCELED', () => 'the turn was stopped before this call started'),
  tool_late: row<Limit>('TOOL_TIMEOUT', ({ limitMs }) => `the tool did not answer within ${limitMs} ms`),
  abandoned: row<Limit>('TOOL_ABANDONED', ({ limitMs }) => `the tool did not stop within ${limitMs} ms of the cancel`),
  no_result: row(
    'TOOL_FAILED',
    () => 'the tool provider returned no ToolResult; return { toolCallId, content, success }',
  ),
  too_large: row<{ bytes: number; maxBytes: number }>(
    'TOOL_TOO_LARGE',
    ({ bytes, maxBytes }) =>
      `the result has ${bytes} bytes, more than the ${maxBytes} that a turn keeps; return a part of it, or where it can be found`,
  ),
  in_doubt: row('OUTCOME_UNKNOWN', () => unknown('')),
  in_doubt_no_answer: row('OUTCOME_UNKNOWN', () => unknown('; asking the tool gave no usable answer')),
  in_doubt_failed: row<{ why: string }>('OUTCOME_UNKNOWN', ({ why }) => unknown(`; asking the tool failed: ${why}`)),
} as const;

function unknown(detail: string): string {
  return `OUTCOME_UNKNOWN: the process stopped while this call ran, so it may or may not have taken effect${detail}; check before you repeat it`;
}

export type ToolErrorReason = keyof typeof toolErrors;

type DetailsOf<Reason extends ToolErrorReason> =
  (typeof toolErrors)[Reason] extends Row<infer Details> ? (Details extends object ? Details : undefined) : never;

/** What a tool threw, where that is an error of ours. */
export function thrownError({ code, reason, details, message }: AgentLoopError): ToolError {
  return {
    code,
    ...(reason === code.toLowerCase() ? {} : { reason }),
    ...(details === undefined ? {} : { details }),
    message,
  };
}

/** The error of a result as it was thrown, or may be thrown again. */
export function asThrown({ code, message, ...rest }: ToolError): AgentLoopError {
  return new AgentLoopError(code, message, rest);
}

/** How long the call had, where its error says that it was too slow. Milliseconds. */
export function limitOf(error: ToolError | undefined): number | undefined {
  const limitMs = error?.details?.['limitMs'];
  return typeof limitMs === 'number' ? limitMs : undefined;
}

/** What the engine says of a call: its code, its case as data, and the sentence for the model. */
export function toolError<Reason extends ToolErrorReason>(
  reason: Reason,
  ...[details]: DetailsOf<Reason> extends undefined ? [] : [DetailsOf<Reason>]
): ToolError {
  const { code, tells } = toolErrors[reason] as Row<typeof details>;
  const message = tells(details);
  return details ? { code, reason, details, message } : { code, reason, message };
}
