import type { Context } from '@opentelemetry/api';
import { AgentLoopError, type ErrorCode, type ErrorData } from './errors.ts';
import type { Content, Message, ToolCall, Usage } from './messages.ts';

/** A JSON Schema (draft 2020-12, 2019-09 or draft-07) of an object. */
export type JSONSchema = { readonly [key: string]: unknown };

/** The child turn that a call runs as. */
export interface ChildLink {
  readonly taskId: string;
  readonly agentId: string;
}

/** What to do with a call that had started when the process crashed, so its outcome is unknown. */
export type OnInDoubt =
  /** Run it again. Only for a tool that is `idempotent` or `readOnly`. */
  | 'retry'
  /** Tell the model that the outcome is unknown. The default. */
  | 'fail'
  /** Suspend the turn with an `in-doubt` question, answered by a `Reconciled`. */
  | 'ask'
  /** Ask the tool for the outcome of the call with this idempotency key. */
  | ((idempotencyKey: string, context: ToolContext) => Promise<Reconciled>);

/** The outcome of a call in doubt: it took effect, it did not, or that cannot be determined. */
export type Reconciled =
  | { readonly outcome: 'applied'; readonly content: string }
  | { readonly outcome: 'not-applied' }
  | { readonly outcome: 'unknown' };

/** How the engine treats a tool. Never sent to the model. */
export interface ToolPolicy {
  /** Milliseconds until the call counts as failed and its signal is aborted. Default 30,000; 0 means no limit. */
  readonly timeoutMs?: number | undefined;
  /** Runs alone: never at the same time as another call of the turn. Default `false`. */
  readonly sequential?: boolean | undefined;
  /** Has no side effects. Default `false`. */
  readonly readOnly?: boolean | undefined;
  /** Running it twice with one idempotency key has the same effect as once. Default `false`. */
  readonly idempotent?: boolean | undefined;
  /**
   * What happens to a call that had started when its process crashed. Default: `'retry'` if the tool is `idempotent` or `readOnly`, which
   * `'retry'` needs, else `'fail'`.
   */
  readonly onInDoubt?: OnInDoubt | undefined;
  /**
   * Whether a call needs approval before it runs: the turn asks an `approval` question, answered by an `Approval`. A
   * function decides by the validated arguments; if it fails, the call is refused. Default `false`.
   */
  readonly needsApproval?: boolean | NeedsApproval | undefined;
  /** Not offered to the model until an extension adds it by its name. Default `false`. */
  readonly hidden?: boolean | undefined;
  /** Whether `cacheTools` may reuse an earlier result. Default: the value of `readOnly`. */
  readonly cache?: boolean | undefined;
  /**
   * The child turn that a call runs as: its task and its agent. The record of the call's start names it, so a cancel from another
   * process finds it. The process that resumes the turn continues such a call, whatever its `onInDoubt`; a cancel and its time
   * limit wait for the end of the child turn. Must return the same for the same call.
   */
  readonly childTurn?: ((call: StartedChild) => ChildLink | undefined) | undefined;
  /** Accepts arguments that are not JSON, as `{ _raw: '…' }`. Default `false`: the model is asked to send JSON. */
  readonly acceptsRaw?: boolean | undefined;
}

/** A call that may run as a child turn. */
export interface StartedChild {
  readonly arguments: unknown;
  /** The key of the call that started it. */
  readonly idempotencyKey: string;
}

/** Whether a call with these arguments needs approval. */
export type NeedsApproval = (args: unknown, context: ToolListContext) => boolean | Promise<boolean>;

/** A question of a running tool. */
export interface AskOptions {
  /** Default `'input'`. `'auth'` puts the turn into `auth-required`; a `'client-tool'` is answered by a `ClientToolAnswer`. */
  readonly kind?: 'input' | 'auth' | 'client-tool' | undefined;
  /** Text for the person or client that answers. */
  readonly prompt?: string | undefined;
  /** JSON for the person or client that answers. */
  readonly data?: unknown;
  /**
   * JSON for the tool itself, hidden from those who answer: journaled with the question, and returned as `kept` of the context once
   * it is answered. Not in any event, span or response to a client.
   */
  readonly private?: unknown;
  /** Of a question that is asked again for another task, and that `data.question` contains: that task. Set by tools of this package. */
  readonly task?: AskedTask | undefined;
}

/** A client's result of a call that it ran: the tool's return value, or an error message for the model. */
export type ClientToolAnswer = { readonly result: unknown } | { readonly error: string };

/** The outcome of checking arguments: the value to use, or an error message for the model. */
export type ArgumentCheck =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly message: string };

/** Validates parsed arguments, and may convert them. */
export type ArgumentChecker = (value: unknown) => ArgumentCheck | Promise<ArgumentCheck>;

/**
 * Creates the argument check of a tool from the JSON Schema of its definition. Called for each call, so it should cache its
 * results. `owner` names the tool in errors. A check that throws or rejects refuses its call.
 */
export interface ArgumentChecks {
  (parameters: JSONSchema, owner: string): ArgumentChecker;
  /**
   * Loads the code that the check by such a schema needs; returns `undefined` if it is loaded. The calls of a response are checked once it has settled.
   * Never throws or rejects.
   *
   * @internal
   */
  readonly load?: (parameters: JSONSchema) => Promise<void> | undefined;
}

/** A tool as a provider offers it. Only `type` and `function` are sent to the model. */
export interface ToolDefinition<Name extends string = string> extends ToolPolicy {
  readonly type: 'function';
  readonly function: {
    readonly name: Name;
    readonly description: string;
    readonly parameters: JSONSchema;
  };
  /** Checks and converts parsed arguments before the tool runs. Absent: `argumentChecks` of the loop checks by `parameters`. */
  readonly checkArguments?: ArgumentChecker;
}

/** The identity of the caller, as the application knows it. Passed to tools; never journaled, traced or logged. */
export type AuthContext = Readonly<Record<string, unknown>>;

/** The context of a running tool. `C`: the type of `context`, see `tool<Context>()`. */
export interface ToolContext<C = unknown> {
  readonly taskId: string;
  readonly agentId: string;
  readonly contextId: string;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly authContext: AuthContext | undefined;
  /** The `context` of the turn's options, by reference; `undefined` if there is none. Never journaled: a resume passes it again. */
  readonly context: C;
  /**
   * The history, without the system prompt; the last message is the response that makes the call. Results of other calls of that response
   * are added once all are there. Each read creates a new array; the messages must not be changed.
   */
  readonly messages: readonly Message[];
  /** The iteration that requested the call, from 1. */
  readonly iteration: number;
  /** The engine's id of the call, `<iteration>:<index>`; unique in the turn and the same in every attempt. */
  readonly callId: string;
  readonly call: ToolCall;
  /** Parsed and validated. */
  readonly arguments: unknown;
  /** `<taskId>:<callId>`; the same in every attempt, also after a crash. Pass it to the system that the tool changes. */
  readonly idempotencyKey: string;
  /** 1, or more if the call runs again after a crash or an answer. */
  readonly attempt: number;
  /** Aborted on cancel and on timeout. Created on first access: pass the context on itself, a spread copy lacks it, `messages`, `ask` and `noteUsage`. */
  readonly signal: AbortSignal;
  /** The OpenTelemetry context of the `tool[name]` span. */
  readonly traceContext: Context;
  /**
   * Asks the user of the turn, and returns the answer, which is JSON. Throws until the question is answered: the attempt ends there,
   * whatever the tool does after it, and once the question is answered, maybe days later in another process, the tool runs again from its
   * start, with `attempt` one higher. So ask before you change anything. The n-th question of a call gets its n-th answer. Errors:
   * `INVALID_INPUT` if the question is not JSON.
   */
  readonly ask: (question: AskOptions) => unknown;
  /** The `private` value of the last answered question of this call; `undefined` if there is none. */
  readonly kept?: unknown;
  /** Emits an `internal:tool-progress` event, or an `artifact-update` for an `ArtifactChunk`. Never journaled. */
  readonly progress: (update: unknown) => void;
  /**
   * Adds the usage of the tool's own model calls to the usage of the turn, which its limits count. Journaled with the result of the attempt, or
   * with its question; later usage is not counted. Invalid values are ignored.
   */
  readonly noteUsage: (usage: Usage) => void;
}

/** The result of a tool call that a `ToolProvider` returns. */
export interface ToolResult {
  /** The `id` of the call. */
  readonly toolCallId: string;
  /** The content for the model. */
  readonly content: Content;
  /** False where the tool failed; the model reads `content` all the same. */
  readonly success: boolean;
  /** For events and spans; the model does not read it. */
  readonly error?: string;
}

/** The turn for which a provider lists its tools. */
export interface ToolListContext {
  readonly taskId: string;
  readonly agentId: string;
  readonly contextId: string;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly authContext: AuthContext | undefined;
  /** The `context` of the turn's options. */
  readonly context?: unknown;
}

/**
 * A source of tools. `getTools` is called once per turn, and again on resume; a changed definition must be a new object. `executeTool` runs one call;
 * a throw or a rejection becomes an error result for the model. Both may return a value instead of a promise, which is cheaper.
 */
export interface ToolProvider {
  /** Names the provider in error messages. Default: its class name. */
  readonly name?: string;
  /** The tools of a turn. Called when the turn starts, is resumed, or changes its agent; a throw or a rejection fails the turn with `TOOL_FAILED`. */
  getTools(context: ToolListContext): readonly ToolDefinition[] | Promise<readonly ToolDefinition[]>;
  /**
   * Runs one call of a tool of `getTools`. The `signal` of the context is aborted at its time limit and on cancel. A throw becomes an error
   * result for the model.
   */
  executeTool(call: ToolCall, context: ToolContext): ToolResult | Promise<ToolResult>;
}

/**
 * A function that a model can call, with its description. Created by `tool`. `execute` receives arguments that
 * `definition.checkArguments` has accepted. `Name` and `Result` are the tool's, if `tool` can infer them.
 */
export interface Tool<Args = unknown, C = unknown, Name extends string = string, Result = unknown> {
  /** The description for the model, and the policy for the engine. */
  readonly definition: ToolDefinition<Name>;
  /** Runs the tool. A throw becomes an error result for the model. */
  execute(args: Args, context: ToolContext<C>): Result | Promise<Result>;
  /** Loads the code that the checks need. Rejects with `INVALID_CONFIG` if the JSON Schema is invalid. Absent: nothing to load. */
  readonly prepare?: () => Promise<void>;
}

/** Why a call has no result of its tool, or why the tool failed. */
export interface ToolError extends ErrorData {
  /** The case of the code, if the engine sets it: a name of `toolErrors`, or the reason of a limit. */
  readonly reason?: string;
  /** Sent to the model. If there is a `reason`, no code may parse or compare this text: it may change between versions. */
  readonly message: string;
}

interface Row<Details> {
  readonly code: ErrorCode;
  readonly tells: (details: Details) => string;
}

/** A bundle that sends no errors to a model does without the table. */
/* @__NO_SIDE_EFFECTS__ */
function row<Details = undefined>(code: ErrorCode, tells: (details: Details) => string): Row<Details> {
  return { code, tells };
}

interface Limit {
  readonly limitMs: number;
}

/** The name of a call's time limit in error messages. */
const limitOfTool = '(timeoutMs of the tool, or toolTimeoutMs)';

/** All error messages about calls that the engine sends to a model. */
const toolErrors = {
  unknown_tool: row<{ name: string; known: readonly string[] }>('TOOL_NOT_FOUND', ({ name, known }) => {
    const list = known.length > 0 ? `known tools: ${known.join(', ')}` : 'there are no tools';
    return name === '' ? `the call names no tool; ${list}` : `tool "${name}" is not known; ${list}`;
  }),
  check_late: row<Limit>(
    'TOOL_TIMEOUT',
    ({ limitMs }) => `the check of the arguments did not answer within ${limitMs} ms ${limitOfTool}`,
  ),
  undecided: row<Limit>(
    'TOOL_TIMEOUT',
    ({ limitMs }) => `nobody decided within ${limitMs} ms whether the call may run ${limitOfTool}`,
  ),
  rejected: row<{ says?: string }>('TOOL_REJECTED', ({ says = '' }) =>
    says === '' ? 'the call was rejected' : `the call was rejected: ${says}`,
  ),
  denied: row<{ says: string }>('TOOL_REJECTED', ({ says }) => says),
  skipped: row('TOOL_SKIPPED', () => 'skipped: the turn finished'),
  never_started: row('CANCELED', () => 'the turn was stopped before this call started'),
  tool_late: row<Limit>('TOOL_TIMEOUT', ({ limitMs }) => `the tool did not answer within ${limitMs} ms ${limitOfTool}`),
  abandoned: row<Limit>(
    'TOOL_ABANDONED',
    ({ limitMs }) => `the tool did not stop within ${limitMs} ms of the cancel (abortGraceMs)`,
  ),
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

type ToolErrorReason = keyof typeof toolErrors;

type DetailsOf<Reason extends ToolErrorReason> =
  (typeof toolErrors)[Reason] extends Row<infer Details> ? (Details extends object ? Details : undefined) : never;

/** The tool's exception as data, if it is an `AgentLoopError`. */
export function thrownError({ code, reason, details, message }: AgentLoopError): ToolError {
  return {
    code,
    ...(reason === code.toLowerCase() ? {} : { reason }),
    ...(details === undefined ? {} : { details }),
    message,
  };
}

/** Converts the error of a result back to an exception. */
export function asThrown({ code, message, ...rest }: ToolError): AgentLoopError {
  return new AgentLoopError(code, message, rest);
}

/** The time limit of a call that timed out, from its error. Milliseconds. */
export function limitOf(error: ToolError | undefined): number | undefined {
  const limitMs = error?.details?.['limitMs'];
  return typeof limitMs === 'number' ? limitMs : undefined;
}

/** Creates the error of a call: its code, its case as data, and the message for the model. */
export function toolError<Reason extends ToolErrorReason>(
  reason: Reason,
  ...[details]: DetailsOf<Reason> extends undefined ? [] : [DetailsOf<Reason>]
): ToolError {
  const { code, tells } = toolErrors[reason] as Row<typeof details>;
  const message = tells(details);
  return details ? { code, reason, details, message } : { code, reason, message };
}

const marker = Symbol.for('millrace.TaskComplete');

const doneMarker = Symbol.for('millrace.DoneSignal');

/**
 * Thrown by a tool to end the turn, with the reason `done`. The call has succeeded; its text becomes the turn's text, or if it is empty the text of the
 * response that made the call. Calls of the same response that have not started are skipped; if several end the turn, the first counts.
 */
export class TaskComplete extends Error {
  override readonly name = 'TaskComplete';
  readonly [marker] = true;
  /** The final text of the turn. */
  readonly finalMessage: string | undefined;

  constructor(finalMessage?: string) {
    super(finalMessage ?? 'The task is complete.');
    this.finalMessage = finalMessage;
  }

  /** True for a `TaskComplete` of any installed copy of this package. */
  static isInstance(value: unknown): value is TaskComplete {
    return typeof value === 'object' && value !== null && marker in value;
  }
}

const askedMarker = Symbol.for('millrace.AskedTask');

/**
 * The task whose question a tool asks again. A class, since whoever answers is shown that question in place of the tool's own: JSON from a model or a
 * server cannot be an instance.
 */
export class AskedTask implements ChildLink {
  readonly [askedMarker] = true;
  readonly taskId: string;
  readonly agentId: string;

  constructor({ taskId, agentId }: ChildLink) {
    this.taskId = taskId;
    this.agentId = agentId;
  }

  /** True for an `AskedTask` of any installed copy of this package. */
  static isInstance(value: unknown): value is AskedTask {
    return typeof value === 'object' && value !== null && askedMarker in value;
  }
}

/** Returned by a tool, or by the `executeTool` of a provider, instead of throwing a `TaskComplete`. */
export class DoneSignal {
  readonly [doneMarker] = true;
  /** The final text of the turn. */
  readonly finalMessage: string | undefined;

  constructor(finalMessage?: string) {
    this.finalMessage = finalMessage;
  }

  /** True for a `DoneSignal` of any installed copy of this package. */
  static isInstance(value: unknown): value is DoneSignal {
    return typeof value === 'object' && value !== null && doneMarker in value;
  }
}
