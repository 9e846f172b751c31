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
  Question,
  RetryOrigin,
  ShownOptions,
  Stamped,
  ToolIntent,
  ToolResultRecord,
  TraceLink,
  TurnSettings,
} from './records.ts';

/** What the first record says once and for all. */
export interface TurnIdentity {
  readonly taskId: string;
  readonly contextId: string;
  readonly agentId: string;
  readonly settings: TurnSettings;
  readonly metadata: Readonly<Record<string, unknown>>;
  /** Absent for a turn that no other turn started. */
  readonly parent?: ParentLink;
  /** Absent for a turn that is no retry. */
  readonly retried?: RetryOrigin;
  /** The journal is of a version that did not record which child turns its calls run as. */
  readonly namesNoChildren?: true;
  /** How many records are copies of another task's. Absent for a turn that is neither a retry nor a fork. */
  readonly copied?: number;
  /** How many messages the caller gave. */
  readonly given: number;
  /** How many of these are of earlier turns of the context; they come first. */
  readonly earlier: number;
  /** Milliseconds since 1970. */
  readonly createdAt: number;
}

/** An answer that is in the journal. */
export interface GivenAnswer {
  readonly question: Question;
  /** The answer, JSON. */
  readonly answer: unknown;
  /** What the tool keeps for itself with the question. */
  readonly kept?: unknown;
  /** How often the call had been started when it was asked. */
  readonly attempts: number;
}

/** A call of the open batch. */
export interface PendingToolCall {
  readonly callId: string;
  readonly call: ToolCall;
  /** How often it was started. */
  readonly attempts: number;
  /**
   * The last start of this call, until it asks something. None: it may simply run. One without a `result` after a crash: its
   * outcome is in doubt.
   */
  readonly intent: Stamped<ToolIntent> | undefined;
  /** What it waits for. */
  readonly question: Question | undefined;
  /** What its tool keeps for itself with that question. */
  readonly kept?: unknown;
  /** What it was answered, in order. */
  readonly answers: readonly GivenAnswer[];
  /** The child turn that it runs as, once it was started. */
  readonly child: ChildLink | undefined;
  /** What its child turn had used when it asked last. */
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

/** What extensions changed for the rest of the turn. */
export interface Changes {
  readonly settings: TurnOverrides;
  /** Names of tools; a name is in one of both lists at most. */
  readonly tools: { readonly added: readonly string[]; readonly removed: readonly string[] } | undefined;
  /** What the turn ends with once every call has its result. */
  readonly finish: Finish | undefined;
  /** The agent that runs the turn once every call has its result. */
  readonly agent: AgentChoice | undefined;
  /** The iteration at which a hook decided last. */
  readonly decided: Readonly<Partial<Record<DecisionPoint, number>>>;
  /** What extensions recorded last, by name. */
  readonly data: Readonly<Record<string, unknown>>;
  /** What is recorded of child turns of hooks of this iteration, by `<iteration>.<name>`. Absent for none. */
  readonly branches?: Readonly<Record<string, readonly AgentUsage[]>>;
}

/** Where no record says what the model was offered. */
export const neverOffered: LoopFields['availableTools'] = [];

/** Where no record says what a model call was made with. */
export const noOptions: ShownOptions = { tools: [] };

/** Before the first model call. */
export const noneUsed: readonly AgentUsage[] = [];

export const noChanges: Changes = {
  settings: {},
  tools: undefined,
  finish: undefined,
  agent: undefined,
  decided: {},
  data: {},
};

/** The last model call that was started. */
export interface StartedCall {
  /** Milliseconds since 1970. */
  readonly startedAt: number;
  /** When its iteration began, as `activeAt` counts. */
  readonly began: number;
  /** What it was made with. */
  readonly options: ShownOptions;
}

/** The part of a turn that one agent runs. */
export interface Segment {
  /** How many iterations the turn had before it. */
  readonly after: number;
  /** How many messages the history had before it, without a note. */
  readonly messages: number;
  /** The agent that ran the turn before; the agent itself in the first one. */
  readonly from: string;
  /** Absent for the first one. */
  readonly reason: AgentChanged['reason'] | undefined;
  /** How often an agent handed the turn to another, up to this one. */
  readonly handOffs: number;
}

/** The members of a state that records change. */
export interface LoopFields {
  /** What the first record says of the turn. */
  readonly turn: TurnIdentity;
  /** The agent that runs the turn now. */
  readonly agentId: string;
  /** How often the agent changed. */
  readonly agentChanges: number;
  /** Since the agent changed last. */
  readonly segment: Segment;
  /** The last iteration that started, from 1; 0 before the first. */
  readonly iteration: number;
  /** Starts of the current iteration's model call. */
  readonly attempt: number;
  /**
   * What the current iteration does: the model is called, its calls run, or it answered without calls. `closed`: it is over,
   * or none has started.
   */
  readonly phase: 'closed' | 'llm' | 'tools' | 'answered';
  /** The current call is the closing one of `onLimit: 'summarize'`; its message stays out of the history. */
  readonly summary: boolean;
  /** The caller's messages and what the turn added. */
  readonly history: History;
  /** What the model was offered last. */
  readonly availableTools: readonly ToolDefinition['function'][];
  /** Absent before the first one. */
  readonly call: StartedCall | undefined;
  /** The calls of the last response, until all have a result, by the index that their id ends with. */
  readonly calls: PersistentArray<PendingToolCall>;
  /** What was answered in the whole turn, in order: an answer that comes twice is known. */
  readonly answers: readonly GivenAnswer[];
  /** Deferred messages: they arrived while calls were open, and enter the history after the results. */
  readonly told: readonly Message[];
  /** Child turns of calls that have no result. */
  readonly openChildren: readonly ChildLink[];
  /** How many of the calls have no result. */
  readonly openCalls: number;
  /** The calls of the last response, once all of them have their result. */
  readonly closedCalls: readonly PendingToolCall[];
  /** The record of the last response; `undefined` before the first. */
  readonly lastResponse: Stamped<LlmDone> | undefined;
  /** The final text, once the turn has completed. */
  readonly finalMessage: string | undefined;
  /** What it completed with besides, where there is a value. */
  readonly value: unknown;
  /** What extensions changed for the rest of the turn. */
  readonly changes: Changes;
  /** How the turn ended or why it is suspended; `undefined` while it runs. */
  readonly outcome: TurnOutcome | undefined;
  /** What the process waits for that runs the turn; the turn is suspended and has no outcome then. */
  readonly hold: Hold | undefined;
  /** How often the open model call has failed, and is made again. */
  readonly failedAttempts: number;
  /** Usage of the model calls of this turn, by agent and model. */
  readonly ownUsage: readonly AgentUsage[];
  /** Usage of its child turns, as far as it is recorded. */
  readonly childUsage: readonly AgentUsage[];
  /** Calls that have a result. */
  readonly toolCalls: number;
  /** The commands that were followed. */
  readonly commands: CommandIds;
  /** Resumes since the last record that made progress. */
  readonly resumes: number;
  /** The trace of the last start or resume. */
  readonly trace: TraceLink | undefined;
  /** How long it was suspended until now, and since when it is. Milliseconds, and milliseconds since 1970. */
  readonly suspendedMs: number;
  /** Since when it is suspended, in milliseconds since 1970; `undefined` while it runs. */
  readonly suspendedAt: number | undefined;
  /** The number of the last record. */
  readonly seq: number;
  /** The lease under which it was written. */
  readonly epoch: number;
  /** Milliseconds since 1970. */
  readonly updatedAt: number;
}

/** A state in the making. Copied and changed member by member: this is the hottest path, and spreads cost ten times as much. */
export type Draft = { -readonly [Name in keyof LoopFields]: LoopFields[Name] };

/** A time of a turn, in milliseconds, on a clock that stands still while the turn is suspended. */
export function activeAt(state: Pick<LoopFields, 'suspendedMs' | 'suspendedAt'>, at: number): number {
  const { suspendedMs, suspendedAt } = state;
  return (suspendedAt === undefined || at < suspendedAt ? at : suspendedAt) - suspendedMs;
}

/** How long the turn took until then, without the time in which it was suspended. Milliseconds. */
export function durationAt(state: LoopFields, at: number): number {
  return Math.max(0, activeAt(state, at) - state.turn.createdAt);
}

/**
 * A turn as the fold of its records: immutable, each version cheap, all versions sharing one history. Its members are declared only: defined
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
  declare readonly call: StartedCall | undefined;
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

  /** The caller's messages and what the turn added, without the system prompt. A new array at each read. */
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

  /** What the turn failed with; `undefined` unless it failed. */
  get error(): TurnOutcome['error'] {
    return this.outcome?.error;
  }
}

/** Where a call stands in the open batch, by the index that its id ends with; -1 where no such call is open. */
export function openCallIndex(state: LoopFields, callId: string): number {
  const index = callIndex(callId);
  return state.calls.at(index)?.callId === callId ? index : -1;
}

/** The call of the open batch with that id. */
export function openCallOf({ calls }: LoopFields, callId: string): PendingToolCall | undefined {
  const pending = calls.at(callIndex(callId));
  return pending?.callId === callId ? pending : undefined;
}

const zero = 48;
const colon = 58;

/** The number after the colon of a call's id, parsed without allocating a string: each record of a call is looked up by it, and each of its events. */
export function callIndex(callId: string): number {
  let index = 0;
  for (let at = callId.length - 1, power = 1; at >= 0; at--, power *= 10) {
    const code = callId.charCodeAt(at);
    if (code === colon) return index;
    index += (code - zero) * power;
  }
  return -1;
}

/** The message that a call's result becomes. */
export function toolMessage(call: ToolCall, result: ToolResultRecord): ToolMessage {
  return {
    role: 'tool',
    toolCallId: call.id,
    content: result.content,
    ...(result.success ? {} : { status: 'error' as const }),
  };
}

// What each kind of record does to the state of a turn. The record table says which function belongs to which.

export const noAnswers: readonly GivenAnswer[] = [];

export const noCalls = new PersistentArray<PendingToolCall>([]);
