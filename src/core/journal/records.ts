import type { ErrorCode, ErrorData } from '../contracts/errors.ts';
import type { AgentUsage, Content, Message, ToolCall, Usage } from '../contracts/messages.ts';
import type { FinishReason, RetryPlan, ToolChoice, TurnCallSettings } from '../contracts/provider.ts';
import type { ChildLink, ToolDefinition, ToolError } from '../contracts/tool.ts';
import type { AgentChanged, ExtensionRecord } from './extension-record.ts';

/** The schema version of the records below. Journals of a newer version are refused. Version 2 adds `agent.changed` and the links of child turns, 3 references to messages of the conversation. */
export const journalSchema = 3;

/** The trace in which a record was written, so that a resumed turn can link to it. */
export interface TraceLink {
  /** 32 lower-case hexadecimal digits. */
  readonly traceId: string;
  /** The span id of `agent.execute`. */
  readonly spanId: string;
  /** False if the trace is not exported. Absent: it is. */
  readonly sampled?: false;
  /** The parent span, if it survives a crash of the process. */
  readonly parentSpanId?: string;
  /** The `agent.turn` span between those two. */
  readonly agentTurn?: { readonly spanId: string; readonly agentName: string };
}

/** The caller's settings for this turn, beyond the configuration; a resumed turn uses the same. */
export interface TurnSettings extends TurnCallSettings {
  /** The agent that runs the first segment, if the caller named one and the configuration has `agents`. */
  readonly agentId?: string;
  readonly systemPrompt?: string;
  readonly maxIterations?: number;
  /** What happens while the model is unavailable. */
  readonly retryPlan?: RetryPlan;
  /** The tenant of a submitted turn. */
  readonly tenant?: string;
  /** The priority of a submitted turn in the worker queue: 1 is the first. */
  readonly priority?: number;
  /** The earliest start of a submitted turn, in milliseconds since 1970. */
  readonly notBefore?: number;
}

/** Marks a submitted turn: the first owner starts it, and so writes no `turn.resumed`. */
export interface Submission {
  /** The caller's span, to which the first run links. Absent if the caller had none. */
  readonly trace?: Pick<TraceLink, 'traceId' | 'spanId' | 'sampled'>;
}

/** A call of an `llm.done`, with the engine's id beside the provider's. */
export interface RecordedCall {
  /** `<iteration>:<index>`: its index in the response, from 0. Indexes of calls that repeated an earlier one are left out. */
  readonly callId: string;
  /** As in the history: its `id` is the provider's; if that is missing or already in the history, it is `callId`, or `callId` with a number. */
  readonly call: ToolCall;
}

/** The origin of a forked turn. */
export interface ForkOrigin {
  readonly taskId: string;
  /** The last iteration that the fork kept. */
  readonly at: number;
  /** The number of copied records: a journal with fewer was only partly written. */
  readonly records: number;
  /** Present if the task is a retry. */
  readonly retry?: RetryOrigin;
}

/** Where a turn continues its context, if not at its end: after a message or the last one of a turn, or before the first one of a turn; at the start if neither is there. */
export interface Predecessor {
  /** The `id` of a stored message, or of a turn. */
  readonly after?: string;
  /** The `id` of a turn. */
  readonly before?: string;
}

/** What a retry kept of the failed turn: its own limits count from there. */
export interface RetryOrigin {
  /** The number of kept iterations. */
  readonly iterations: number;
  /** The number of messages in the history, including the results of the calls that are repeated. */
  readonly messages: number;
  readonly toolCalls: number;
  /** The original idempotency keys of calls in doubt, by call id. */
  readonly keys: Readonly<Record<string, string>>;
}

/** The call that a child turn runs for. */
export interface ParentLink {
  /** The parent turn. */
  readonly taskId: string;
  /** The call, or the hook, of the parent turn. */
  readonly callId: string;
  /** The agent that made the call. */
  readonly agentId: string;
  /** The root turn of the tree. */
  readonly rootTaskId: string;
}

/** The first record of every journal: the input of the turn. */
export interface TurnStarted {
  readonly type: 'turn.started';
  readonly schema: number;
  readonly taskId: string;
  readonly contextId: string;
  readonly agentId: string;
  readonly messages: readonly Message[];
  readonly settings: TurnSettings;
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** The trace of the first run. */
  readonly trace?: TraceLink;
  /** Absent if the process that created the turn also started it. */
  readonly submitted?: Submission;
  /** The turn that this one forks or retries. */
  readonly forkedFrom?: ForkOrigin;
  /** Absent for a turn that continues its context at its end. */
  readonly follows?: Predecessor;
  /** Absent for a root turn. */
  readonly parent?: ParentLink;
}

/** The initial data of a new turn. */
export type TurnStart = Omit<TurnStarted, 'type' | 'schema' | 'trace' | 'submitted' | 'forkedFrom' | 'parent'>;

/** A process resumes the turn: after an answer, a pause, or the loss of the previous process. */
export interface TurnResumed {
  readonly type: 'turn.resumed';
  /** The trace of this run. */
  readonly trace?: TraceLink;
  /** When the previous process was last seen alive, if it was lost; in milliseconds since 1970. Such a resume counts towards `maxResumes`. */
  readonly lostAt?: number;
  /** The turn only waited when that process was lost, or its child turns got further since the first resume that counts: this one does not. */
  readonly waited?: true;
  /** Another turn of its context was ahead of it, and the previous run ended normally. */
  readonly queued?: true;
}

/**
 * The options of a model call, from the configuration and the hooks before it; without `providerOptions`, which may contain secrets. A
 * `beforeLLMCall` hook may still change them.
 */
export interface CallDetails extends TurnCallSettings {
  /** The requested model, else the provider's own; absent if neither is named. */
  readonly model?: string;
  readonly toolChoice?: ToolChoice;
  /** The name of the response format. */
  readonly responseFormat?: string;
}

/** The options of a model call, and the names of the tools that the model may call. */
export type ShownOptions = CallDetails & { readonly tools: readonly string[] };

/** A model call starts. A call without an `llm.done` is repeated after a crash. */
export interface LlmStart {
  readonly type: 'llm.start';
  readonly iteration: number;
  /** From 1; incremented for each start of the same iteration's call, in any process. */
  readonly attempt: number;
  /** The offered tools, as sent; only if they differ from those of the last `llm.start`. */
  readonly tools?: readonly ToolDefinition['function'][];
  /** Only if they differ from those of the last `llm.start`. */
  readonly options?: CallDetails;
  /** Set for the closing call of `onLimit: 'summarize'`: its message does not enter the history. */
  readonly summary?: true;
}

/** The response of a model call. After this record the call is never repeated. */
export interface LlmDone {
  readonly type: 'llm.done';
  readonly iteration: number;
  readonly attempt: number;
  /** Its `toolCalls` are those of `calls`. */
  readonly message: Extract<Message, { role: 'assistant' }>;
  readonly calls: readonly RecordedCall[];
  /** Why the model stopped. */
  readonly finishReason: FinishReason;
  /** The vendor's own word, if it is not known. */
  readonly finishWord?: string;
  readonly usage?: Usage;
  readonly model?: string;
}

/** Written before a call runs. A call with an intent and no result is in doubt. */
export interface ToolIntent {
  readonly type: 'tool.intent';
  readonly callId: string;
  /** From 1. */
  readonly attempt: number;
  /** The arguments as the tool receives them. */
  readonly arguments: unknown;
  /** Set if the call runs as a child turn. */
  readonly child?: ChildLink;
}

/** The result of a tool call. After this record the call never runs again. */
export interface ToolResultRecord {
  readonly type: 'tool.result';
  readonly callId: string;
  readonly content: Content;
  readonly success: boolean;
  /** Absent on success. */
  readonly error?: ToolError;
  /** The arguments of a call without an intent: it was refused before it ran. */
  readonly arguments?: unknown;
  /** Milliseconds from start to result; 0 if it never ran. */
  readonly durationMs: number;
  /** Usage of the tool's own model calls; for a child turn, of its whole tree. */
  readonly usage?: Usage;
  /** The part of `usage` that other agents used, by agent and model. */
  readonly usageBy?: readonly AgentUsage[];
  /** How the turn fails once its other calls have stopped, if an extension decided so for this call; a process that resumes the turn fails it too. */
  readonly fails?: Pick<TurnFailed, 'code' | 'message' | 'reason' | 'details'>;
}

/**
 * An open question of the turn, asked by a call. Answers: to `approval` an `Approval`, to `in-doubt` a `Reconciled`,
 * to all others the form that the asking tool expects.
 */
export interface Question {
  /** The id for its answer: the call's id for its first question, `<callId>.2` for the second, and so on. */
  readonly id: string;
  /** `<iteration>:<index>`. A call has at most one open question. */
  readonly callId: string;
  readonly kind: 'approval' | 'input' | 'client-tool' | 'auth' | 'in-doubt';
  readonly toolName: string;
  /** Text for the person or client that answers. */
  readonly prompt?: string;
  /** JSON; the call's arguments for `approval`, `client-tool` and `in-doubt`, else the tool's data. */
  readonly data?: unknown;
  /**
   * The task whose question this one asks again: a child turn, or the task of a remote agent. `data.question` is the original, and an answer
   * has the form that the original requires. Set by the engine only; without it `data.question` is data of a model or a tool.
   */
  readonly child?: ChildLink;
}

/** The answer to an `approval` question. */
export interface Approval {
  /** Whether the call may run. */
  readonly approved: boolean;
  /** Sent to the model if the call is rejected. */
  readonly reason?: string;
}

/** A call asks a question. The other calls continue; the turn suspends once none of them can. */
export interface TurnAsked {
  readonly type: 'turn.asked';
  readonly question: Question;
  /** JSON that only the tool receives, with the answer. */
  readonly private?: unknown;
  /** Usage of the tool's model calls before it asked. */
  readonly usage?: Usage;
  /** The part of `usage` that other agents used, by agent and model. */
  readonly usageBy?: readonly AgentUsage[];
}

/** The answer to a question. */
export interface TurnAnswered {
  readonly type: 'turn.answered';
  readonly callId: string;
  /** The answered question. */
  readonly questionId: string;
  /** JSON; see `Question` for its form. */
  readonly answer: unknown;
  /** The id of the command that delivered it, if any. */
  readonly command?: string;
  /** The message that contained it, as received; if a message contained several answers, only the first has it. Not sent to the model. */
  readonly message?: Message;
}

/** In-process wait (pause or backoff), which the owner continues in the same stream; or the wait of a turn for a missing tool or agent, which the next owner continues. */
export interface Hold {
  /** When it ends, in milliseconds since 1970. Absent: at the next resume. */
  readonly until?: number;
  /** How often the retried model call has failed. */
  readonly attempt?: number;
  /** Its last error, or what is missing. */
  readonly error?: ErrorData;
}

/** The turn waits for answers, for `resume`, or until a time. */
export interface TurnSuspended {
  readonly type: 'turn.suspended';
  /** `working` if it waits for no input. */
  readonly state: 'input-required' | 'auth-required' | 'working';
  readonly reason: string;
  readonly questions: readonly Question[];
  /** The ids of the commands that requested it, so that each is applied once. Absent if there were none. */
  readonly commands?: readonly string[];
  /** Absent if the process releases the turn, so that it has to be resumed. */
  readonly hold?: Hold;
  /** Usage of the failed model call. */
  readonly usage?: Usage;
}

/** Members of every end of a turn. */
interface TurnEnded {
  /** Usage of the open model call, which failed or was aborted and has no `llm.done`, as its provider reported it. */
  readonly usage?: Usage;
  /** The part of `usage` by child turns of hooks that failed or were aborted. By agent and model. */
  readonly usageBy?: readonly AgentUsage[];
}

/** The turn has completed. */
export interface TurnDone extends TurnEnded {
  readonly type: 'turn.done';
  readonly text: string;
  /** JSON, if the turn finished with a value. */
  readonly value?: unknown;
  /** `stop`, or another reason, e.g. `max_iterations`. */
  readonly reason: string;
}

/** The turn has failed. */
export interface TurnFailed extends TurnEnded {
  readonly type: 'turn.failed';
  readonly code: ErrorCode;
  readonly message: string;
  /** The code in lower case: `max_iterations`, `length`, `content_filter`, … */
  readonly reason: string;
  /** JSON: the names and numbers of the message. */
  readonly details?: Readonly<Record<string, unknown>>;
}

/** The turn was cancelled. */
export interface TurnCanceled extends TurnEnded {
  readonly type: 'turn.canceled';
  readonly reason: string;
}

/** The last record of a journal: nothing is appended after it. */
export type TerminalRecord = TurnDone | TurnFailed | TurnCanceled;

/** A durable fact of a turn. */
export type TurnRecord =
  | TurnStarted
  | TurnResumed
  | LlmStart
  | LlmDone
  | ToolIntent
  | ToolResultRecord
  | TurnAsked
  | TurnAnswered
  | TurnSuspended
  | AgentChanged
  | TerminalRecord
  | ExtensionRecord;

/** A record's place in the journal. */
export interface RecordStamp {
  /** From 1, without gaps. */
  readonly seq: number;
  /** The epoch of its lease; 0 for `turn.started`. */
  readonly epoch: number;
  /** Milliseconds since 1970. */
  readonly at: number;
}

/** A record with the seq, epoch and time of its append. */
export type Stamped<R extends TurnRecord> = R & RecordStamp;
/** A record as stored in a journal. */
export type JournalRecord = Stamped<TurnRecord>;

export function isTerminal(record: TurnRecord): record is TerminalRecord {
  return record.type === 'turn.done' || record.type === 'turn.failed' || record.type === 'turn.canceled';
}
