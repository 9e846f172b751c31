import type { ErrorData } from '../contracts/errors.ts';
import { isSuspended, type TaskState } from '../contracts/events.ts';
import {
  type AgentUsage,
  addUsed,
  type Message,
  type ToolCall,
  type ToolMessage,
  type Usage,
  usageOf,
} from '../contracts/messages.ts';
import type { ChildLink, ToolDefinition } from '../contracts/tool.ts';
import type { AgentChanged, AgentChoice, DecisionPoint, Finish, TurnOverrides } from './extension-record.ts';
import { type CommandIds, type History, PersistentArray } from './history.ts';
import type {
  Hold,
  LlmDone,
  ParentLink,
  Predecessor,
  Question,
  RetryOrigin,
  ShownOptions,
  Stamped,
  ToolIntent,
  ToolResultRecord,
  TraceLink,
  TurnSettings,
} from './records.ts';
import type { ReplacedPart } from './replaced-text.ts';

/** The immutable part of a turn, from its first record. */
export interface TurnIdentity {
  readonly taskId: string;
  readonly contextId: string;
  readonly agentId: string;
  readonly settings: TurnSettings;
  readonly metadata: Readonly<Record<string, unknown>>;
  /** Absent for a turn that continues its context at its end. */
  readonly follows?: Predecessor;
  /** Absent for a root turn. */
  readonly parent?: ParentLink;
  /** Absent unless the turn is a retry. */
  readonly retried?: RetryOrigin;
  /** The journal has a version that did not record the child turns of calls. */
  readonly namesNoChildren?: true;
  /** How many records are copies of another task's. Absent unless the turn is a retry or a fork. */
  readonly copied?: number;
  /** The number of the caller's messages. */
  readonly given: number;
  /** How many of them, from the first on, belong to earlier turns of the context. */
  readonly earlier: number;
  /** The context of the earlier messages was deleted: others stand in their place, and the turn fails if it is open. */
  readonly deleted?: true;
  /** Milliseconds since 1970. */
  readonly createdAt: number;
}

/** A recorded answer. */
export interface GivenAnswer {
  readonly question: Question;
  /** The answer, JSON. */
  readonly answer: unknown;
  /** The tool's `private` data of the question. */
  readonly kept?: unknown;
  /** The number of starts of the call when it asked. */
  readonly attempts: number;
}

/** A call of the open batch. */
export interface PendingToolCall {
  readonly callId: string;
  readonly call: ToolCall;
  /** The number of its starts. */
  readonly attempts: number;
  /**
   * The last start of this call since its last question. Absent: the call can simply run. Present without a `result` after a crash: its
   * outcome is in doubt.
   */
  readonly intent: Stamped<ToolIntent> | undefined;
  /** Its open question. */
  readonly question: Question | undefined;
  /** The tool's `private` data of that question. */
  readonly kept?: unknown;
  /** Its answers so far, in order. */
  readonly answers: readonly GivenAnswer[];
  /** The child turn that it runs as, once started. */
  readonly child: ChildLink | undefined;
  /** The usage of its child turn at its last question. */
  readonly childUsage: readonly AgentUsage[];
  /** Its result, once there is one. */
  readonly result: Stamped<ToolResultRecord> | undefined;
}

/** How a turn ended, or what it waits for. */
export interface TurnOutcome {
  readonly state: Extract<TaskState, 'completed' | 'failed' | 'canceled' | 'input-required' | 'auth-required'>;
  readonly reason: string;
  readonly error: ErrorData | undefined;
  readonly questions: readonly Question[];
}

/** Changes for the rest of the turn, by the caller and the extensions. */
export interface Changes {
  readonly settings: TurnOverrides;
  /** Names of tools; a name is in at most one of both arrays. */
  readonly tools: { readonly added: readonly string[]; readonly removed: readonly string[] } | undefined;
  /** The end of the turn once every call has its result. */
  readonly finish: Finish | undefined;
  /** The call whose result gave `finish`. Absent if none did. */
  readonly finishedBy?: string | undefined;
  /** The agent that runs the turn once every call has its result. */
  readonly agent: AgentChoice | undefined;
  /** The iteration of the last decision of each hook. */
  readonly decided: Readonly<Partial<Record<DecisionPoint, number>>>;
  /** What extensions replaced or refused of the turn's answers, in order, once the turn ends. Absent if nothing. */
  readonly replaced?: readonly ReplacedPart[];
  /** Answers that extensions refused, with what stands for them after the end of the turn; until then the model reads them. Absent if none. */
  readonly withheld?: readonly ReplacedPart[];
  /** The steering messages that no model call has read yet; once the turn has ended, they are for the next turn. Absent if none. */
  readonly steered?: readonly Message[];
  /** How many of them, the last ones, arrived after the turn's last model call. Absent if none. */
  readonly late?: number;
  /** The last iteration whose failed model call an extension repeated. Absent if none. */
  readonly repeated?: number;
  /** The latest `data` of extensions, by name. */
  readonly data: Readonly<Record<string, unknown>>;
  /** The recorded usage of child turns of hooks in this iteration, by `<iteration>.<name>`. Absent if none. */
  readonly branches?: Readonly<Record<string, readonly AgentUsage[]>>;
}

/** If no record contains the offered tools. */
export const neverOffered: LoopFields['availableTools'] = [];

/** If no record contains the options of a model call. */
export const noOptions: ShownOptions = { tools: [] };

/** Before the first model call. */
export const noneUsed: readonly AgentUsage[] = [];

/** The settings of a turn whose caller and extensions changed none. */
export const noSettings: TurnOverrides = {};

/** The changes with which each agent of a turn begins, beside the caller's settings for its model calls. */
export const noChanges: Changes = {
  settings: noSettings,
  tools: undefined,
  finish: undefined,
  agent: undefined,
  decided: {},
  data: {},
};

/** The last started model call. */
export interface StartedModelCall {
  /** Milliseconds since 1970. */
  readonly startedAt: number;
  /** When its iteration started, as `activeAt` counts. */
  readonly began: number;
  /** Its options. */
  readonly options: ShownOptions;
}

/** The part of a turn that one agent runs. */
export interface Segment {
  /** The number of the turn's iterations before it. */
  readonly after: number;
  /** The number of messages in the history before it, without a hand-off note. */
  readonly messages: number;
  /** The previous agent; the agent itself in the first segment. */
  readonly from: string;
  /** Absent for the first segment. */
  readonly reason: AgentChanged['reason'] | undefined;
  /** The number of hand-offs up to this segment. */
  readonly handOffs: number;
}

/** The folded members of a state. */
export interface LoopFields {
  /** From the first record. */
  readonly turn: TurnIdentity;
  /** The agent that runs the turn now. */
  readonly agentId: string;
  /** The number of changes of the agent. */
  readonly agentChanges: number;
  /** Since the last change of the agent. */
  readonly segment: Segment;
  /** The last iteration that started, from 1; 0 before the first. */
  readonly iteration: number;
  /** The number of starts of the current iteration's model call. */
  readonly attempt: number;
  /**
   * `llm`: a model call is open; `tools`: calls have no result; `answered`: the model requested no tools; `closed`: the iteration has ended,
   * or none has started.
   */
  readonly phase: 'closed' | 'llm' | 'tools' | 'answered';
  /** The current call is the closing one of `onLimit: 'summarize'`; its text enters the history with the end of the turn. */
  readonly summary: boolean;
  /** The caller's messages and those of the turn. */
  readonly history: History;
  /** The tools of the last model call. */
  readonly availableTools: readonly ToolDefinition['function'][];
  /** Absent before the first call. */
  readonly call: StartedModelCall | undefined;
  /** The calls of the last response, until all have a result, by the index at the end of their id. */
  readonly calls: PersistentArray<PendingToolCall>;
  /** All answers of the turn, in order: to detect repeated answers. */
  readonly answers: readonly GivenAnswer[];
  /** Deferred messages: they arrived while calls were open, and enter the history after the results. */
  readonly told: readonly Message[];
  /** Child turns of calls without a result. */
  readonly openChildren: readonly ChildLink[];
  /** The number of calls without a result. */
  readonly openCalls: number;
  /** The calls of the last response, once all have a result. */
  readonly closedCalls: readonly PendingToolCall[];
  /** The record of the last response; `undefined` before the first. */
  readonly lastResponse: Stamped<LlmDone> | undefined;
  /** The final text, once the turn has completed. */
  readonly finalMessage: string | undefined;
  /** Its final value, if any. */
  readonly value: unknown;
  /** Extensions' changes for the rest of the turn. */
  readonly changes: Changes;
  /** How the turn ended or why it is suspended; `undefined` while it runs. */
  readonly outcome: TurnOutcome | undefined;
  /** The in-process wait of its owner; the turn is then suspended and has no outcome. */
  readonly hold: Hold | undefined;
  /** The number of failures of the open model call, which is retried. */
  readonly failedAttempts: number;
  /** Usage of the model calls of this turn, by agent and model. */
  readonly ownUsage: readonly AgentUsage[];
  /** Recorded usage of its child turns. */
  readonly childUsage: readonly AgentUsage[];
  /** The number of calls with a result. */
  readonly toolCalls: number;
  /** The applied commands. */
  readonly commands: CommandIds;
  /** The number of processes that were lost since the last record that made progress. */
  readonly resumes: number;
  /** The trace of the last start or resume. */
  readonly trace: TraceLink | undefined;
  /** The total duration of past suspensions, in milliseconds. */
  readonly suspendedMs: number;
  /** When the current suspension started, in milliseconds since 1970; `undefined` while the turn runs. */
  readonly suspendedAt: number | undefined;
  /** The seq of the last record. */
  readonly seq: number;
  /** The epoch of its lease. */
  readonly epoch: number;
  /** Milliseconds since 1970. */
  readonly updatedAt: number;
}

/** A mutable state. Copied and changed member by member: this is the hottest path, and spreads cost ten times as much. */
export type Draft = { -readonly [Name in keyof LoopFields]: LoopFields[Name] };

/** Converts a time to a clock that stops while the turn is suspended. Milliseconds. */
export function activeAt(state: Pick<LoopFields, 'suspendedMs' | 'suspendedAt'>, at: number): number {
  const { suspendedMs, suspendedAt } = state;
  return (suspendedAt === undefined || at < suspendedAt ? at : suspendedAt) - suspendedMs;
}

/** The duration of the turn until then, without suspended time. Milliseconds. */
export function durationAt(state: LoopFields, at: number): number {
  return Math.max(0, activeAt(state, at) - state.turn.createdAt);
}

/**
 * A turn as the fold of its records: immutable, with cheap versions that share one history. Its members are declared only: defined
 * ones would be written twice.
 */
export class LoopState implements LoopFields {
  declare readonly turn: TurnIdentity;
  declare readonly agentId: string;
  declare readonly agentChanges: number;
  declare readonly segment: Segment;
  declare readonly iteration: number;
  declare readonly attempt: number;
  declare readonly phase: LoopFields['phase'];
  declare readonly summary: boolean;
  declare readonly history: History;
  declare readonly availableTools: LoopFields['availableTools'];
  declare readonly call: StartedModelCall | undefined;
  declare readonly calls: PersistentArray<PendingToolCall>;
  declare readonly answers: readonly GivenAnswer[];
  declare readonly told: readonly Message[];
  declare readonly openChildren: readonly ChildLink[];
  declare readonly openCalls: number;
  declare readonly closedCalls: readonly PendingToolCall[];
  declare readonly lastResponse: Stamped<LlmDone> | undefined;
  declare readonly finalMessage: string | undefined;
  declare readonly value: unknown;
  declare readonly changes: Changes;
  declare readonly outcome: TurnOutcome | undefined;
  declare readonly hold: Hold | undefined;
  declare readonly failedAttempts: number;
  declare readonly ownUsage: readonly AgentUsage[];
  declare readonly childUsage: readonly AgentUsage[];
  declare readonly toolCalls: number;
  declare readonly commands: CommandIds;
  declare readonly resumes: number;
  declare readonly trace: TraceLink | undefined;
  declare readonly suspendedMs: number;
  declare readonly suspendedAt: number | undefined;
  declare readonly seq: number;
  declare readonly epoch: number;
  declare readonly updatedAt: number;

  constructor(fields: LoopFields) {
    this.turn = fields.turn;
    this.agentId = fields.agentId;
    this.agentChanges = fields.agentChanges;
    this.segment = fields.segment;
    this.iteration = fields.iteration;
    this.attempt = fields.attempt;
    this.phase = fields.phase;
    this.summary = fields.summary;
    this.history = fields.history;
    this.availableTools = fields.availableTools;
    this.call = fields.call;
    this.calls = fields.calls;
    this.answers = fields.answers;
    this.told = fields.told;
    this.openChildren = fields.openChildren;
    this.openCalls = fields.openCalls;
    this.closedCalls = fields.closedCalls;
    this.lastResponse = fields.lastResponse;
    this.finalMessage = fields.finalMessage;
    this.value = fields.value;
    this.changes = fields.changes;
    this.outcome = fields.outcome;
    this.hold = fields.hold;
    this.failedAttempts = fields.failedAttempts;
    this.ownUsage = fields.ownUsage;
    this.childUsage = fields.childUsage;
    this.toolCalls = fields.toolCalls;
    this.commands = fields.commands;
    this.resumes = fields.resumes;
    this.trace = fields.trace;
    this.suspendedMs = fields.suspendedMs;
    this.suspendedAt = fields.suspendedAt;
    this.seq = fields.seq;
    this.epoch = fields.epoch;
    this.updatedAt = fields.updatedAt;
  }

  /** The caller's messages and those of the turn, without the system prompt. Each read creates a new array. */
  get messages(): readonly Message[] {
    return this.history.toArray();
  }

  /** The calls of the last response, in order, until all have a result. */
  get pendingToolCalls(): readonly PendingToolCall[] {
    return this.calls.list;
  }

  /** Usage of the turn and its child turns, by agent and model. */
  get usageBy(): readonly AgentUsage[] {
    return this.childUsage.length === 0 ? this.ownUsage : addUsed(this.ownUsage, this.childUsage);
  }

  /** Usage of the turn and its child turns. */
  get usage(): Usage {
    return usageOf(this.usageBy);
  }

  /** Whether the turn has ended for good. */
  get isComplete(): boolean {
    return this.outcome !== undefined && !isSuspended(this.outcome.state);
  }

  /** The error of a failed turn; `undefined` unless it failed. */
  get error(): TurnOutcome['error'] {
    return this.outcome?.error;
  }
}

/** The position of an open call, from the end of its id; -1 if it is not open. It is lower than the number there if repeated calls before it were left out. */
export function openCallIndex({ calls }: LoopFields, callId: string): number {
  for (let at = Math.min(callIndex(callId), calls.length - 1); at >= 0; at--) {
    const found = calls.at(at)?.callId;
    if (found === callId) return at;
    if (found === undefined || callIndex(found) < callIndex(callId)) return -1;
  }
  return -1;
}

/** The open call with that id. */
export function openCallOf(state: LoopFields, callId: string): PendingToolCall | undefined {
  const pending = state.calls.at(callIndex(callId));
  return pending?.callId === callId ? pending : state.calls.at(openCallIndex(state, callId));
}

const zero = 48;
const colon = 58;

/** The number after the colon of a call's id, parsed without allocating a string: it is used for each record and each event of a call. */
function callIndex(callId: string): number {
  let index = 0;
  for (let at = callId.length - 1, power = 1; at >= 0; at--, power *= 10) {
    const code = callId.charCodeAt(at);
    if (code === colon) return index;
    index += (code - zero) * power;
  }
  return -1;
}

/** The message of a call's result. */
export function toolMessage(call: ToolCall, result: ToolResultRecord): ToolMessage {
  return {
    role: 'tool',
    toolCallId: call.id,
    content: result.content,
    ...(result.success ? {} : { status: 'error' as const }),
  };
}

// How each record type changes the state of a turn. The record table assigns these functions to types.

export const noAnswers: readonly GivenAnswer[] = [];

export const noCalls = new PersistentArray<PendingToolCall>([]);
