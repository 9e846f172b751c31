import type { ErrorCode } from './errors.ts';
import type { ToolResultRecord } from './records.ts';

/** Why a call has a result although it did not run to its end here. */
export interface Refusal {
  readonly code: ErrorCode;
  /** In words for the model. */
  readonly message: string;
  /** What it was called with, where no intent says it. */
  readonly arguments?: unknown;
}

/** The result of a call that did not run, or of which nobody knows whether it did. */
export function refusedCall(callId: string, refusal: Refusal): ToolResultRecord {
  const { code, message } = refusal;
  return {
    type: 'tool.result',
    callId,
    content: `Tool error: ${message}`,
    success: false,
    error: { code, message },
    ...('arguments' in refusal ? { arguments: refusal.arguments } : {}),
    durationMs: 0,
  };
}
