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
import type { OfferedTool, ToolSet } from './tool-set.ts';

/** What tool calls need of the run that they belong to. */
export interface ToolCallDeps extends HookDeps {
  readonly tools: ToolSet;
  /** What is known of calls that have not started. */
  readonly unstartedCalls: UnstartedCalls;
  /** What the turn is asked to do while it runs. */
  readonly inbox: Inbox;
}

/** A call that may run, or why it may not, in words for the model. */
export type CheckedCall =
  | {
      readonly verdict: 'run';
      readonly tool: OfferedTool;
      readonly arguments: unknown;
      /** Somebody has to approve it first. */
      readonly ask?: { readonly prompt: string | undefined };
      /** When it has to be over, where an extension says so. Milliseconds since 1970. */
      readonly deadline?: number | undefined;
    }
  | {
      readonly verdict: 'answered';
      /** What an extension gave in place of the tool. */
      readonly answer: ToolAnswer;
      readonly arguments: unknown;
    }
  | {
      readonly verdict: 'refused';
      readonly error: ToolError;
      readonly arguments: unknown;
      /** How the turn fails, where an extension says so. */
      readonly fails?: ToolResultRecord['fails'];
    };

/** A call that may run. */
export type AllowedCall = Extract<CheckedCall, { verdict: 'run' }>;

/** What an extension is asked about a call, and may answer later. */
interface OpenQuestion {
  /** A limit of the place where it is asked was over before its own. */
  expire(afterMs: number): void;
  /** Nobody waits for the answer any more. */
  leave(reason: unknown): void;
}

/** What a run knows of a call that has not started. */
interface UnstartedCall {
  /** A check that is asynchronous, or that somebody decides: running, or its answer. */
  readonly checked?: CheckedCall | Promise<unknown> | undefined;
  /** Its arguments were found in order, and its approval takes a while. */
  readonly isDeciding?: boolean;
  /** A hook is asked about it, which has its own time for that. */
  readonly isAsked?: boolean;
  /** What an extension is asked about it, until it has answered. */
  readonly question?: OpenQuestion | undefined;
}

const nothing: UnstartedCall = {};

/** What a run knows of calls that have not started. Most calls are decided about at once, and have no entry here. */
export class UnstartedCalls {
  #known: WeakMap<ToolCall, UnstartedCall> | undefined;
  /** Child turns of hooks that were asked about calls, until a record says what they used. */
  branches: readonly UnrecordedBranch[] = [];

  of(call: ToolCall): UnstartedCall {
    return this.#known?.get(call) ?? nothing;
  }

  /** Replaces the members that `known` has. */
  update(call: ToolCall, known: UnstartedCall): void {
    this.#known ??= new WeakMap();
    this.#known.set(call, { ...this.of(call), ...known });
  }

  keep(branches: readonly UnrecordedBranch[]): void {
    this.branches = [...this.branches, ...branches];
  }

  /** Those of one call, for the caller to record. */
  takeBranches(callId: string): readonly UnrecordedBranch[] {
    const taken = this.branches.filter((branch) => branch.callId === callId);
    this.branches = this.branches.filter((branch) => branch.callId !== callId);
    return taken;
  }
}

/** The result of a call that did not run, or of which nobody knows whether it did; `asked` says what it was called with, where no intent does. */
export function refusedCall(
  callId: string,
  error: ToolError,
  asked: Pick<ToolResultRecord, 'arguments'> = {},
): ToolResultRecord {
  return {
    type: 'tool.result',
    callId,
    content: `Tool error: ${error.message}`,
    success: false,
    error,
    ...asked,
    durationMs: 0,
  };
}

/** The result of a call that an extension answered, or whose answer it changed. */
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

const unharmful: ReadonlySet<ErrorCode> = new Set(['TOOL_REJECTED', 'TOOL_SKIPPED']);

/** How the turn fails with a result, where it does: as an extension said, whatever the mode, else with the call. */
export function failureBy(
  result: ToolResultRecord,
  toolFailureMode: 'continue' | 'fail',
): NonNullable<ToolResultRecord['fails']> | undefined {
  if (result.fails) return result.fails;
  if (toolFailureMode !== 'fail' || !hasFailed(result)) return undefined;
  const { code, message } = result.error ?? { code: 'TOOL_FAILED' as const, message: 'a tool failed' };
  return { code, message, reason: code.toLowerCase() };
}

/** Whether a call has failed; one that was not approved, or that was not needed any more, has not. */
export function hasFailed({ success, error }: ToolResultRecord): boolean {
  return !success && !(error && unharmful.has(error.code));
}

/** A call that ends the turn has succeeded. */
export function completed({ error: _, ...outcome }: ToolResultRecord, { message }: TaskComplete): ToolResultRecord {
  return { ...outcome, content: message, success: true };
}

/** The result of a call that was cancelled because a limit of the turn is reached. */
export function limited(record: ToolResultRecord, reached: ReachedLimit | undefined): ToolResultRecord {
  if (!reached) return record;
  const { code, message, reason = code.toLowerCase(), fails } = reached;
  const error = { code, reason, message };
  const result = { ...record, content: `Tool error: ${message}`, success: false, error };
  return fails ? { ...result, fails: { code, message, reason } } : result;
}

const maxResultBytes = 8 * 1024 * 1024;

/** Why the answer of a tool is no result: it has not its form, or is too large for the journal. */
export function resultFlaw(answer: ToolResult): ToolError | undefined {
  const content: unknown = answer?.content;
  if (typeof content === 'string' && content.length * 3 <= maxResultBytes) return undefined;
  if (typeof content !== 'string' && !Array.isArray(content)) return toolError('no_result');
  const bytes = Buffer.byteLength(typeof content === 'string' ? content : JSON.stringify(content));
  return bytes > maxResultBytes ? toolError('too_large', { bytes, maxBytes: maxResultBytes }) : undefined;
}

/** Whether a call was stopped. */
export function isCanceled(result: ToolResultRecord): boolean {
  return result.error?.code === 'CANCELED' || result.error?.code === 'TOOL_ABANDONED';
}
