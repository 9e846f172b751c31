import type { Question, ShownOptions } from '../journal/records.ts';
import type { AnswerNotes } from './answer-notes.ts';
import type { ErrorData } from './errors.ts';
import type { Content, Message, ToolCall, Usage } from './messages.ts';
import type { FinishReason, LLMResponse, RequestChange } from './provider.ts';
import type { Tool, ToolError } from './tool.ts';

interface EventBase {
  readonly taskId: string;
  readonly contextId: string;
  /** The agent that ran the turn at the time of the event. */
  readonly agentId: string;
  /** ISO 8601. */
  readonly timestamp: string;
  /** `<seq>-<epoch>.<n>`, n from 1; on events of records only. */
  readonly cursor?: string;
}

/** A part of A2A 0.3. */
export type A2APart =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'data'; readonly data: Readonly<Record<string, unknown>> };

/** The text parts, concatenated: those of an artifact are chunks of one text. */
export function partsText(parts: readonly A2APart[] = []): string {
  let text = '';
  for (const part of parts) if (part.kind === 'text') text += part.text;
  return text;
}

/** An A2A message within an event. */
export interface A2AMessage {
  readonly kind: 'message';
  readonly role: 'agent' | 'user';
  /** The id of the message. */
  readonly messageId: string;
  readonly parts: readonly A2APart[];
  readonly taskId: string;
  readonly contextId: string;
}

/** The state of a task at a time, with a message if there is one. */
export interface TaskStatus {
  readonly state: TaskState;
  readonly message?: A2AMessage;
  /** When it was reached. ISO 8601. */
  readonly timestamp: string;
}

/** The first event of a turn: its task, in A2A's form. */
export interface TaskEvent extends EventBase {
  readonly kind: 'task';
  /** The task id, under A2A's name for it. */
  readonly id: string;
  readonly status: TaskStatus;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

/** The task changed its state. The last event of a stream is a status update with `final: true`. */
export interface StatusUpdateEvent extends EventBase {
  readonly kind: 'status-update';
  readonly status: TaskStatus;
  /** True on the last event of a stream, and only there. */
  readonly final: boolean;
  /** Why a turn ended or waits: `stop`, `max_iterations`, a caller's text, … */
  readonly reason?: string;
  /** On `failed`. */
  readonly error?: ErrorData;
  /** On `input-required` and `auth-required`. */
  readonly questions?: readonly Question[];
  /** With `final`: usage of the model calls of the turn and of its child turns, as in `result()`. */
  readonly usage?: Usage;
  /** With `final`: how long the turn took, as in `result()`. Milliseconds. */
  readonly durationMs?: number;
  /** With `final`: steering messages that count for the next turn, as in `result()`. */
  readonly unread?: readonly Message[];
}

/** An artifact of the task has new content: streamed text of the answer, the value, or content from a tool. */
export interface ArtifactUpdateEvent extends EventBase {
  readonly kind: 'artifact-update';
  /** The artifact, with the new content only. */
  readonly artifact: { readonly artifactId: string; readonly name?: string; readonly parts: readonly A2APart[] };
  /** False: replaces the artifact's content. */
  readonly append: boolean;
  /** Whether this completes the artifact. */
  readonly lastChunk: boolean;
}

interface IterationEventBase extends EventBase {
  /** From 1. */
  readonly iteration: number;
}

/** An iteration starts: a model call, and the tool calls that it requests. */
export interface IterationStartEvent extends IterationEventBase {
  readonly kind: 'internal:iteration-start';
  /** The closing call of `onLimit: 'summarize'`. */
  readonly summary?: true;
}
/** An iteration has ended: the model has answered, and every call has its result. */
export interface IterationCompleteEvent extends IterationEventBase {
  readonly kind: 'internal:iteration-complete';
  /** The model's response. */
  readonly response: Required<Pick<LLMResponse, 'message' | 'finishReason'>> & Pick<LLMResponse, 'usage' | 'model'>;
  /** Since its first model call, without the time in which the turn was suspended. Milliseconds. */
  readonly durationMs: number;
}
/** A model call starts. */
export interface LlmCallEvent extends IterationEventBase {
  readonly kind: 'internal:llm-call';
  /** From 1, in the iteration. */
  readonly attempt: number;
  /** The options of the call, and the names of the tools that the model may call. */
  readonly options: ShownOptions;
}
/** The whole response of a model call. Its text was emitted before, as deltas. */
export interface LlmResponseEvent extends IterationEventBase, AnswerNotes {
  readonly kind: 'internal:llm-response';
  /** All of it; empty where the model only calls tools. */
  readonly text: string;
  /** Absent where the model shows none. */
  readonly reasoning?: string;
  /** Absent if there are none. `callId` is the engine's id, `call.id` the one in the history. */
  readonly toolCalls?: readonly { readonly callId: string; readonly call: ToolCall }[];
  /** Why the model stopped. */
  readonly finishReason: FinishReason;
  /** The vendor's own word for it, if the provider does not know that word. */
  readonly finishWord?: string;
  /** Absent where the provider does not report it. */
  readonly usage?: Usage;
  /** The model that answered, as the provider reports it. */
  readonly model?: string;
  /** Since its `llm-call`, including the attempts of policies in between. Milliseconds. */
  readonly durationMs: number;
}
/** The emitted text of a model call is discarded: the call failed and is retried. Remove that text from the display. */
export interface LlmAttemptDiscardedEvent extends IterationEventBase {
  readonly kind: 'internal:llm-attempt-discarded';
  /** From 1, in the iteration. */
  readonly attempt: number;
  readonly reason?: string;
}
/** The provider changed the request of a model call, so that the vendor accepts it; the history is unchanged. Not recorded. */
export interface RequestFittedEvent extends IterationEventBase {
  readonly kind: 'internal:request-fitted';
  /** The first 20. */
  readonly changes: readonly RequestChange[];
  /** The number of further changes, if any. */
  readonly omitted?: number;
}
/** The provider reports something to look into. Not recorded. */
export interface LlmWarningEvent extends IterationEventBase {
  readonly kind: 'internal:llm-warning';
  readonly message: string;
}
/** A delta of the model's reasoning, if the model exposes it. Not recorded. */
export interface ReasoningDeltaEvent extends IterationEventBase {
  readonly kind: 'internal:reasoning-delta';
  readonly text: string;
}
/** A delta of a tool call that the model is generating. Not recorded. */
export interface ToolCallDeltaEvent extends IterationEventBase {
  readonly kind: 'internal:tool-call-delta';
  /** `<iteration>:<index>`: `internal:llm-response` lists the call with it, unless the attempt is discarded, or it repeats an earlier call. */
  readonly callId: string;
  /** The position of the call in the response, from 0. */
  readonly index: number;
  /** With the first fragment of the call. */
  readonly toolName?: string;
  /** A fragment of the arguments' JSON text. */
  readonly arguments: string;
}

interface ToolEventBase<Name extends string = string> extends IterationEventBase {
  /** `<iteration>:<index>`. */
  readonly callId: string;
  readonly toolName: Name;
}

/** A call starts to run; its intent is durable. */
export interface ToolStartEvent<Name extends string = string, Args = unknown> extends ToolEventBase<Name> {
  readonly kind: 'internal:tool-start';
  /** As the tool receives them. */
  readonly arguments: Args;
  /** From 1; a call whose process died may run again. */
  readonly attempt: number;
}
/** A progress update of a running tool. Not recorded. */
export interface ToolProgressEvent extends ToolEventBase {
  readonly kind: 'internal:tool-progress';
  /** The argument of the tool's `progress` call. */
  readonly update: unknown;
}
/** A call has its result; without a tool-start before it if the call was refused and never ran. */
export interface ToolCompleteEvent<Name extends string = string, Args = unknown, C extends Content = Content>
  extends ToolEventBase<Name> {
  readonly kind: 'internal:tool-complete';
  readonly arguments: Args;
  /** What the model reads. */
  readonly content: C;
  readonly success: boolean;
  /** Where it failed or was refused. */
  readonly error?: ToolError;
  /** From the start of the call to its result. */
  readonly durationMs: number;
}
/**
 * The events of tool calls, discriminated by `toolName`. If tool names are unknown to the compiler, as with tool providers, these are the events of
 * any tool. Includes the engine's own tools, with arguments of any type, but not tools that your extensions add.
 */
export type ToolEvent<X extends Tool> =
  string extends NameOf<X>
    ? ToolStartEvent | ToolCompleteEvent
    : EventsOf<X> | ToolStartEvent<EngineToolName> | ToolCompleteEvent<EngineToolName>;

/** The names of the engine's own tools. */
export type EngineToolName =
  | '__finish__'
  | 'hand_off'
  | 'read_tool_output'
  | `${'create' | 'update' | 'read'}_artifact`
  | 'list_artifacts';

/** The name of a tool. */
export type NameOf<X extends Tool> = X['definition']['function']['name'];

/**
 * Of a member that is never there: it has TypeScript compare types with these tools by their members. TypeScript 5 would compare them by the
 * tools, and find an agent whose tools are known no `Agent`.
 */
export type ComparedByMembers<X extends Tool> = { readonly [Key in keyof X]: X[Key] };

type EventsOf<X extends Tool> =
  X extends Tool<infer Args, infer _, infer Name, infer Result>
    ?
        | ToolStartEvent<Name, Recorded<Args>>
        | ToolSucceededEvent<Name, Recorded<Args>, ContentOf<Result>>
        | ToolFailedEvent<Name>
    : never;

/** A successful call. */
export interface ToolSucceededEvent<Name extends string, Args, C extends Content>
  extends ToolCompleteEvent<Name, Args, C> {
  readonly success: true;
}

/** A failed call. The arguments of a refused call are as the model sent them, of any type. */
export interface ToolFailedEvent<Name extends string> extends ToolCompleteEvent<Name> {
  readonly success: false;
}

/** The type of a value after the journal: live it is the value that the tool received, read from a journal it is its JSON. */
export type Recorded<T> = T extends string | number | boolean | null | undefined
  ? T
  : T extends { toJSON(...args: never): infer Json }
    ? T | Json
    : T extends bigint | ReadonlyMap<unknown, unknown> | ReadonlySet<unknown>
      ? unknown
      : T extends object
        ? { readonly [Key in keyof T]: Recorded<T[Key]> }
        : T;

/** The content of a result of a tool that returns `T`: data is its JSON, which `parseContent` reads. */
export type ContentOf<T> = unknown extends T
  ? Content
  : [T] extends [string | undefined]
    ? string
    : [NotData<T>] extends [never]
      ? JsonContent<Recorded<T>>
      : Content;

/** The members of `T` that do not become JSON: text, nothing, a `Date`, parts. */
type NotData<T> = T extends number | boolean | null | readonly unknown[]
  ? never
  : T extends string | bigint | undefined | { toJSON(...args: never): unknown }
    ? T
    : [Extract<keyof T, symbol>] extends [never]
      ? never
      : T;

/** JSON text of a value of type `T`. */
export type JsonContent<T> = string & { readonly '~json'?: T };

/** The records so far are durable: a process that resumes the turn continues from here. */
export interface CheckpointEvent extends IterationEventBase {
  readonly kind: 'internal:checkpoint';
  /** What the turn does next: an iteration, the calls of a response, or nothing. */
  readonly phase: 'before-iteration' | 'after-llm' | 'end';
}
/** The turn is suspended: it was paused, it retries a failed model call later, or the process that released it lacks a tool or an agent of the turn. */
export interface PausedEvent extends EventBase {
  readonly kind: 'internal:paused';
  /** `backoff` for a turn that retries a failed model call later; `missing_tool` or `missing_agent` for one that no process could run yet. */
  readonly reason: string;
  /** When the turn continues by itself. ISO 8601. */
  readonly until?: string;
  /** How often the model call has failed. */
  readonly attempt?: number;
  /** The last error of the model call, or what is missing. */
  readonly error?: ErrorData;
}
/** A suspended turn continues in the same stream. */
export interface ResumedEvent extends EventBase {
  readonly kind: 'internal:resumed';
}

/** `internal:x.<extension>`, or `internal:x.<extension>.<name>` for a named event. */
export type ExtensionEventKind = `internal:x.${string}`;

/** An event that an extension's hook returned in `events`. It is part of a record: late subscribers and a resumed turn receive it at its position. */
export interface ExtensionEvent<Kind extends ExtensionEventKind = ExtensionEventKind> extends IterationEventBase {
  readonly kind: Kind;
  /** The name of the extension. */
  readonly extension: string;
  /** JSON. Absent if the extension passed none. */
  readonly payload?: unknown;
  /** One line for people. */
  readonly label?: string;
}

/** A hook of an extension failed. */
export interface ExtensionErrorEvent extends IterationEventBase {
  readonly kind: 'internal:extension-error';
  readonly extension: string;
  /** The hook that failed. */
  readonly hook: string;
  /** The message of the exception. */
  readonly message: string;
  /** Whether the turn fails because of it. */
  readonly fatal: boolean;
}

/** A turn on the path from a turn to one of its descendants. */
export interface SubAgentStep {
  readonly agentId: string;
  readonly taskId: string;
  /** The call of its parent turn that it runs for. */
  readonly callId: string;
}

/**
 * An event of a child turn, at any depth; wrappers are never nested. The `cursor` of `event` belongs to its own turn. A subscriber that reconnects
 * receives the events of open child turns from their beginning; deduplicate them by `(event.taskId, event.cursor)`.
 */
export interface SubAgentEvent extends EventBase {
  readonly kind: 'internal:sub-agent';
  /** The agent that the event is about. */
  readonly agentId: string;
  /** From the child turn of this turn to the turn that emitted the event. */
  readonly path: readonly SubAgentStep[];
  readonly event: Exclude<AgentEvent, SubAgentEvent>;
}

/**
 * An event of a turn, discriminated by `kind`. Events whose kind starts with `internal:` are not sent to A2A clients, except for those that
 * a server declares. `X`: the tools whose calls have typed events, see `agent`.
 */
export type AgentEvent<X extends Tool = Tool> =
  | TaskEvent
  | StatusUpdateEvent
  | ArtifactUpdateEvent
  | IterationStartEvent
  | IterationCompleteEvent
  | LlmCallEvent
  | LlmResponseEvent
  | LlmAttemptDiscardedEvent
  | RequestFittedEvent
  | LlmWarningEvent
  | ReasoningDeltaEvent
  | ToolCallDeltaEvent
  | ToolEvent<X>
  | ToolProgressEvent
  | CheckpointEvent
  | PausedEvent
  | ResumedEvent
  | ExtensionEvent
  | SubAgentEvent
  | ExtensionErrorEvent;

/** A2A's task states. */
export type TaskState =
  | 'submitted'
  | 'working'
  | 'input-required'
  | 'auth-required'
  | 'completed'
  | 'failed'
  | 'canceled'
  | 'rejected';

/** What a turn in each state does. */
const stages: Readonly<Record<TaskState, 'open' | 'suspended' | 'ended'>> = {
  submitted: 'open',
  working: 'open',
  'input-required': 'suspended',
  'auth-required': 'suspended',
  completed: 'ended',
  failed: 'ended',
  canceled: 'ended',
  rejected: 'ended',
};

export function isTaskState(text: string): text is TaskState {
  return Object.hasOwn(stages, text);
}

/** All values of `TaskState`. */
export const taskStates: readonly TaskState[] = /* @__PURE__ */ Object.keys(stages).filter(isTaskState);

/** Whether a turn in this state has ended. */
export function isTerminalState(state: TaskState): boolean {
  return stages[state] === 'ended';
}

export function isSuspended(state: TaskState): boolean {
  return stages[state] === 'suspended';
}

/** The state of a turn that waits for answers to these questions. */
export function waitingState(questions: readonly Question[]): 'input-required' | 'auth-required' {
  return questions.length > 0 && questions.every(({ kind }) => kind === 'auth') ? 'auth-required' : 'input-required';
}
