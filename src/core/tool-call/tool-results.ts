import {
  type ErrorCode,
  type ReachedLimit,
  type TaskComplete,
  type ToolAnswer,
  type ToolCall,
  type ToolError,
  type ToolResult,
  textOf,
  toolError,
} from '../contracts/index.ts';
import type { HookDeps } from '../hooks/hook-context.ts';
import type { UnrecordedBranch } from '../hooks/record-of-change.ts';
import type { ToolResultRecord } from '../journal/index.ts';
import type { Inbox } from '../ownership/inbox.ts';
import type { OfferedTool } from './tool-set.ts';

/** What tool calls use of the run of a turn. */
export interface ToolCallDeps extends HookDeps {
  /** The checks of calls that have not started. */
  readonly unstartedCalls: UnstartedCalls;
  readonly inbox: Inbox;
}

/** The outcome of a check: the call may run, has an answer of an extension, or is refused with an error for the model. */
export type CheckedCall =
  | {
      readonly verdict: 'run';
      readonly tool: OfferedTool;
      readonly arguments: unknown;
      /** Set if it needs an approval first. */
      readonly ask?: { readonly prompt: string | undefined };
      /** The deadline of an extension. Milliseconds since 1970. */
      readonly deadline?: number | undefined;
    }
  | {
      readonly verdict: 'answered';
      /** The result that an extension returned in place of the tool. */
      readonly answer: ToolAnswer;
      readonly arguments: unknown;
    }
  | {
      readonly verdict: 'refused';
      readonly error: ToolError;
      readonly arguments: unknown;
      /** Set if an extension fails the turn. */
      readonly fails?: ToolResultRecord['fails'];
    };

/** A call that may run. */
export type AllowedCall = Extract<CheckedCall, { verdict: 'run' }>;

/** The last hook of a call that returned a promise. */
interface OpenHook {
  readonly isOver: boolean;
  /** The time limit of the check was over before the hook's own. */
  expire(afterMs: number): void;
  /** Abandons the hook and aborts its signal. */
  leave(reason: unknown): void;
}

/** The check of a call that has not started. */
interface UnstartedCall {
  /** Its outcome, or the promise of a running check. */
  readonly checked?: CheckedCall | Promise<unknown> | undefined;
  /** Its arguments are valid, and its approval is pending. */
  readonly isDeciding?: boolean;
  /** May be over. */
  readonly hook?: OpenHook | undefined;
}

const nothing: UnstartedCall = {};

/** The checks of calls that have not started. Calls that are decided synchronously, without hooks, have no entry. */
export class UnstartedCalls {
  #known: WeakMap<ToolCall, UnstartedCall> | undefined;
  /** Child turns of hooks whose usage is not recorded yet. */
  branches: readonly UnrecordedBranch[] = [];

  of(call: ToolCall): UnstartedCall {
    return this.#known?.get(call) ?? nothing;
  }

  /** Replaces the given properties. */
  update(call: ToolCall, changes: UnstartedCall): void {
    this.#known ??= new WeakMap();
    this.#known.set(call, { ...this.of(call), ...changes });
  }

  keep(branches: readonly UnrecordedBranch[]): void {
    this.branches = [...this.branches, ...branches];
  }

  /** Removes and returns those of one call; the caller records them. */
  takeBranches(callId: string): readonly UnrecordedBranch[] {
    const taken = this.branches.filter((branch) => branch.callId === callId);
    this.branches = this.branches.filter((branch) => branch.callId !== callId);
    return taken;
  }
}

/** The result of a call that did not run, or may not have run. Pass the arguments if no intent records them. */
export function refusedCall(
  callId: string,
  error: ToolError,
  given: Pick<ToolResultRecord, 'arguments'> = {},
): ToolResultRecord {
  return {
    type: 'tool.result',
    callId,
    content: `Tool error: ${error.message}`,
    success: false,
    error,
    ...given,
    durationMs: 0,
  };
}

/** The result of a call that an extension answered, or whose result it changed. */
export function answeredCall(
  { content, success = true, error }: ToolAnswer,
  {
    callId,
    durationMs,
    arguments: args,
    usage,
    usageBy,
  }: Pick<ToolResultRecord, 'callId' | 'durationMs' | 'arguments' | 'usage' | 'usageBy'>,
): ToolResultRecord {
  const record = {
    type: 'tool.result' as const,
    callId,
    content,
    success,
    ...(args === undefined ? {} : { arguments: args }),
    durationMs,
    ...(usage && { usage }),
    ...(usageBy && { usageBy }),
  };
  if (success) return record;
  return { ...record, error: { code: 'TOOL_FAILED', message: error ?? textOf(content) } };
}

const notFailures: ReadonlySet<ErrorCode> = new Set(['TOOL_REJECTED', 'TOOL_SKIPPED']);

/** The failure of the turn by a result: that of an extension in either mode; that of the call if `toolFailureMode` is `fail`. */
export function failureBy(
  result: ToolResultRecord,
  toolFailureMode: 'continue' | 'fail',
): NonNullable<ToolResultRecord['fails']> | undefined {
  if (result.fails) return result.fails;
  if (toolFailureMode !== 'fail' || !hasFailed(result)) return undefined;
  const { code, message } = result.error ?? { code: 'TOOL_FAILED' as const, message: 'a tool failed' };
  return { code, message, reason: code.toLowerCase() };
}

/** Whether a call has failed. A call that was rejected or skipped has not. */
export function hasFailed({ success, error }: ToolResultRecord): boolean {
  return !success && !(error && notFailures.has(error.code));
}

/** The result of a call that ended the turn with `TaskComplete`: a success. */
export function completedResult(
  { error: _, ...outcome }: ToolResultRecord,
  { message }: TaskComplete,
): ToolResultRecord {
  return { ...outcome, content: message, success: true };
}

/** The result of a call that was cancelled because the turn reached a limit. */
export function limitedResult(record: ToolResultRecord, reached: ReachedLimit | undefined): ToolResultRecord {
  if (!reached) return record;
  const { code, message, reason = code.toLowerCase(), fails } = reached;
  const error = { code, reason, message };
  const result = { ...record, content: `Tool error: ${message}`, success: false, error };
  return fails ? { ...result, fails: { code, message, reason } } : result;
}

const maxResultBytes = 8 * 1024 * 1024;

/** The error of an invalid tool result: wrong form, or larger than 8 MiB. Undefined if it is valid. */
export function resultFlaw(answer: ToolResult): ToolError | undefined {
  const content: unknown = answer?.content;
  if (typeof content === 'string' && content.length * 3 <= maxResultBytes) return undefined;
  if (typeof content !== 'string' && !Array.isArray(content)) return toolError('no_result');
  const bytes = Buffer.byteLength(typeof content === 'string' ? content : JSON.stringify(content));
  return bytes > maxResultBytes ? toolError('too_large', { bytes, maxBytes: maxResultBytes }) : undefined;
}

/** Whether a call was cancelled. */
export function isCanceled(result: ToolResultRecord): boolean {
  return result.error?.code === 'CANCELED' || result.error?.code === 'TOOL_ABANDONED';
}
