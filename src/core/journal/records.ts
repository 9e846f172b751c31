import type { ErrorCode, ErrorData } from '../contracts/errors.ts';
import type { AgentUsage, Content, Message, ToolCall, Usage } from '../contracts/messages.ts';
import type { FinishReason, RetryPlan, ToolChoice } from '../contracts/provider.ts';
import type { ChildLink, ToolDefinition, ToolError } from '../contracts/tool.ts';
import type { AgentChanged, ExtensionRecord } from './extension-record.ts';

/** The version of the records below. A journal with a newer one is refused. Version 2 adds `agent.changed` and the links of child turns. */
export const journalSchema = 2;

/** The trace that a record was written in, so that a resumed turn can link to it. */
export interface TraceLink {
  /** 32 lower-case hexadecimal digits. */
  readonly traceId: string;
  /** Of `agent.execute`. */
  readonly spanId: string;
  /** False where the trace is not exported. Absent: it is. */
  readonly sampled?: false;
  /** The span above it, where that is there whatever becomes of the process. */
  readonly parentSpanId?: string;
  /** The `agent.turn` span between the two. */
  readonly agentTurn?: { readonly spanId: string; readonly agentName: string };
}

/** What the caller gave for this turn beyond the configuration; a resumed turn uses the same. */
export interface TurnSettings {
  /** The agent that answers first, where the caller named one and the configuration has `agents`. */
  readonly agentId?: string;
  readonly systemPrompt?: string;
  readonly maxIterations?: number;
  /** What happens while the model is unavailable. */
  readonly retryPlan?: RetryPlan;
  /** Whose turn it is, where the caller submitted it for one of several. */
  readonly tenant?: string;
  /** The place that a submitted turn asked for among those that wait for a worker: 1 is the first. */
  readonly priority?: number;
  /** When a submitted turn may begin, in milliseconds since 1970. */
  readonly notBefore?: number;
}

/** What a turn says that was submitted: whoever acquires it first begins it, and resumes nothing. */
export interface Submission {
  /** The caller's span, to which the first run links. Absent where the caller had none. */
  readonly trace?: Pick<TraceLink, 'traceId' | 'spanId' | 'sampled'>;
}

/** A call of an `llm.done`, with our id beside the provider's. */
export interface RecordedCall {
  /** `<iteration>:<index>`, the index from 0. */
  readonly callId: string;
  /** As it stands in the history: its `id` is the provider's, else, where that is missing or the history has it, ours: `callId`, or that with a number. */
  readonly call: ToolCall;
}

/** Where a forked turn comes from. */
export interface ForkOrigin {
  readonly taskId: string;
  /** The last iteration that was kept. */
  readonly at: number;
  /** How many records the fork begins with: a journal that has fewer was not written to its end. */
  readonly records: number;
  /** Where the task is a retry of the other. */
  readonly retry?: RetryOrigin;
}

/** What a retry has of the turn that it continues: its own limits count from there. */
export interface RetryOrigin {
  /** How many iterations of the failed turn were kept. */
  readonly iterations: number;
  /** In the history, with the results of the calls that are made again. */
  readonly messages: number;
  readonly toolCalls: number;
  /** The idempotency keys of calls in doubt, by call id: those that they were started with. */
  readonly keys: Readonly<Record<string, string>>;
}

/** The call that a child turn runs for. */
export interface ParentLink {
  /** The parent turn. */
  readonly taskId: string;
  /** The call of the parent turn, or the hook of it. */
  readonly callId: string;
  /** The agent that made the call. */
  readonly agentId: string;
  /** The turn at the top of the tree. */
  readonly rootTaskId: string;
}

/** The first record of every journal: what the turn was started with. */
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
  /** Absent for a turn that the process began which created it. */
  readonly submitted?: Submission;
  /** The turn that it is a fork or a retry of. */
  readonly forkedFrom?: ForkOrigin;
  /** Absent for a turn that no other turn started. */
  readonly parent?: ParentLink;
}

/** A process continues the turn: after an answer, a pause, or the loss of the process before. */
export interface TurnResumed {
  readonly type: 'turn.resumed';
  /** The trace of this run. */
  readonly trace?: TraceLink;
  /** Where the run before was lost with its process: when that was last seen alive, in milliseconds since 1970. */
  readonly lostAt?: number;
  /** Another turn of its context was before it, and the run before ended in order: this resume does not count towards `maxResumes`. */
  readonly queued?: true;
}

/**
 * What a model call is made with, as the configuration and hooks before it say; `providerOptions` may hold secrets and is left out. A
 * `beforeLLMCall` hook may still change it.
 */
export interface CallDetails {
  /** The one that is asked for, else the provider's own; absent where neither is named. */
  readonly model?: string;
  readonly toolChoice?: ToolChoice;
  /** As it was sent. */
  readonly temperature?: number;
  /** As it was sent. */
  readonly maxTokens?: number;
  /** The name of the response format. */
  readonly responseFormat?: string;
}

/** What a model call is made with, and the names of the tools that the model may call. */
export type ShownOptions = CallDetails & { readonly tools: readonly string[] };

/** A model call begins. One without an `llm.done` is made again after a crash. */
export interface LlmStart {
  readonly type: 'llm.start';
  readonly iteration: number;
  /** From 1; each start of the same iteration's call, also by another process, counts one more. */
  readonly attempt: number;
  /** What the model may call, as sent to it; only where it differs from the last `llm.start`. */
  readonly tools?: readonly ToolDefinition['function'][];
  /** Only where they differ from those of the last `llm.start`. */
  readonly options?: CallDetails;
  /** The closing call of `onLimit: 'summarize'`: its message does not enter the history. */
  readonly summary?: true;
}

/** A model call has its response. From here on the response is never asked for again. */
export interface LlmDone {
  readonly type: 'llm.done';
  readonly iteration: number;
  readonly attempt: number;
  /** Its `toolCalls` are those of `calls`. */
  readonly message: Extract<Message, { role: 'assistant' }>;
  readonly calls: readonly RecordedCall[];
  /** Why the model stopped. */
  readonly finishReason: FinishReason;
  readonly usage?: Usage;
  readonly model?: string;
}

/** Written before a call runs. A call with an intent and no result is in doubt. */
export interface ToolIntent {
  readonly type: 'tool.intent';
  readonly callId: string;
  /** From 1. */
  readonly attempt: number;
  /** The arguments as the tool gets them. */
  readonly arguments: unknown;
  /** Where the call runs as a child turn. */
  readonly child?: ChildLink;
}

/** A tool call has its result. From here on the call never runs again. */
export interface ToolResultRecord {
  readonly type: 'tool.result';
  readonly callId: string;
  readonly content: Content;
  readonly success: boolean;
  /** Absent on success. */
  readonly error?: ToolError;
  /** What the call was made with, where no intent says it: it was refused before it ran. */
  readonly arguments?: unknown;
  /** Milliseconds from start to result; 0 where it never ran. */
  readonly durationMs: number;
  /** Of model calls of the tool's own; of a child turn, those of its whole tree. */
  readonly usage?: Usage;
  /** The part of `usage` that other agents used, by agent and model. */
  readonly usageBy?: readonly AgentUsage[];
  /** How the turn fails once its other calls have stopped, if an extension decided so at this one: a process that resumes the turn fails it too. */
  readonly fails?: Pick<TurnFailed, 'code' | 'message' | 'reason' | 'details'>;
}

/**
 * Something the turn waits for, always named by the call that asks. Answers: to `approval` an `Approval`, to `in-doubt` a `Reconciled`,
 * to the others what the tool that asks expects.
 */
export interface Question {
  /** What an answer is given for: the call's id for its first question, `<callId>.2` for the second, and so on. */
  readonly id: string;
  /** `<iteration>:<index>`. A call has at most one open question. */
  readonly callId: string;
  readonly kind: 'approval' | 'input' | 'client-tool' | 'auth' | 'in-doubt';
  readonly toolName: string;
  /** In words for whoever answers. */
  readonly prompt?: string;
  /** JSON; the call's arguments for `approval`, `client-tool` and `in-doubt`, else what the tool gave. */
  readonly data?: unknown;
  /**
   * The task whose question this one asks again: a child turn, or the task of a remote agent. `data.question` is that question, and an answer
   * has the form that it wants. The engine alone sets it; without it `data.question` is what a model or a tool wrote.
   */
  readonly child?: ChildLink;
}

/** The answer to an `approval` question. */
export interface Approval {
  /** Whether the call may run. */
  readonly approved: boolean;
  /** Told to the model where the call is rejected. */
  readonly reason?: string;
}

/** A question is asked. The other calls continue; the turn suspends once none of them can. */
export interface TurnAsked {
  readonly type: 'turn.asked';
  readonly question: Question;
  /** JSON that the tool gets back with the answer, and nobody else sees. */
  readonly private?: unknown;
  /** Of model calls that the tool made before it asked. */
  readonly usage?: Usage;
  /** The part of `usage` that other agents used, by agent and model. */
  readonly usageBy?: readonly AgentUsage[];
}

/** A question has its answer. */
export interface TurnAnswered {
  readonly type: 'turn.answered';
  readonly callId: string;
  /** The question that is answered. */
  readonly questionId: string;
  /** JSON; see `Question` for its form. */
  readonly answer: unknown;
  /** The id of the command that brought it, where one did. */
  readonly command?: string;
  /** The message that brought it, as it was received; of several answers in one message, the first has it. The model does not read it. */
  readonly message?: Message;
}

/** What a suspended turn waits for whose process waits with it, and then continues it in the same stream. */
export interface Hold {
  /** When it continues by itself, in milliseconds since 1970. Absent: once `Turn.resume` is called. */
  readonly until?: number;
  /** How often the model call has failed that is made again then. */
  readonly attempt?: number;
  /** What it failed with last. */
  readonly error?: ErrorData;
}

/** The turn waits: for answers, for `resume`, or for a time. */
export interface TurnSuspended {
  readonly type: 'turn.suspended';
  /** `working` where nobody is asked for anything. */
  readonly state: 'input-required' | 'auth-required' | 'working';
  readonly reason: string;
  readonly questions: readonly Question[];
  /** The ids of the commands that asked for it, so that none of them is followed twice. Absent where none did. */
  readonly commands?: readonly string[];
  /** Absent where the turn is over for the process that ran it, until somebody resumes it. */
  readonly hold?: Hold;
  /** What the model call took that failed. */
  readonly usage?: Usage;
}

/** What every end of a turn may say. */
interface TurnEnded {
  /** What the model call took that the turn ended in: it failed, or was left, and no `llm.done` says it. Mostly a guess. */
  readonly usage?: Usage;
  /** The part of `usage` that child turns used of hooks that gave no answer: they failed, or were left. By agent and model. */
  readonly usageBy?: readonly AgentUsage[];
}

/** The turn has completed. */
export interface TurnDone extends TurnEnded {
  readonly type: 'turn.done';
  readonly text: string;
  /** JSON, where the turn finished with a value. */
  readonly value?: unknown;
  /** `stop`, or why it ended otherwise, e.g. `max_iterations`. */
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
  /** The epoch of the lease it was written under; 0 for `turn.started`. */
  readonly epoch: number;
  /** Milliseconds since 1970. */
  readonly at: number;
}

/** A record with the number, the epoch and the time that its append gave it. */
export type Stamped<R extends TurnRecord> = R & RecordStamp;
/** A record as it stands in a journal. */
export type JournalRecord = Stamped<TurnRecord>;

export function isTerminal(record: TurnRecord): record is TerminalRecord {
  return record.type === 'turn.done' || record.type === 'turn.failed' || record.type === 'turn.canceled';
}
