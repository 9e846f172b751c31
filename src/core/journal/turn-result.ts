import { AgentLoopError, type AgentLoopErrorOptions, type ErrorCode, type ErrorData } from '../contracts/errors.ts';
import type { TaskState } from '../contracts/events.ts';
import {
  type AgentUsage,
  type AssistantMessage,
  type Message,
  repairHistory,
  type ToolCall,
  textOf,
  type Usage,
  usageOf,
} from '../contracts/messages.ts';
import type { Question } from './records.ts';
import { durationAt, type LoopState, toolMessage } from './state.ts';

/** How a turn ended, or what it waits for; `value` depends on `status`. `T`: the type of the value. */
export type TurnResult<T = unknown> = CompletedTurn<T> | UnfinishedTurn;

/** A turn that completed. */
export interface CompletedTurn<T = unknown> extends AnyTurnResult {
  readonly status: 'completed';
  /** The structured output of the turn, or a value that an extension set; else `undefined`. */
  readonly value: T;
}

/** A suspended turn; in a `TurnError` also a failed or cancelled one. */
export interface UnfinishedTurn extends AnyTurnResult {
  readonly status: Exclude<TaskState, 'completed'>;
  readonly value: undefined;
}

interface AnyTurnResult {
  readonly taskId: string;
  readonly contextId: string;
  /** The last agent of the turn: in a team, the one that answered. */
  readonly agentId: string;
  /** `stop`, `max_iterations`, a caller's text, … */
  readonly reason: string;
  /** The text of the last response. */
  readonly text: string;
  /** The texts of all responses of the turn, joined by newlines. */
  readonly allText: string;
  /** The last message of the assistant, if any. */
  readonly message: AssistantMessage | undefined;
  /** The messages that the turn added, in a form that the next turn can use: every call has one result. */
  readonly messages: readonly Message[];
  /** Steering messages that no model call of the turn has read: they count for the next turn. The last of `messages`; absent if there are none. */
  readonly unread?: readonly Message[];
  /** Usage of the model calls of the turn and of its child turns. */
  readonly usage: Usage;
  /** Usage of the turn's own model calls. */
  readonly ownUsage: Usage;
  /** `usage` by agent and model. */
  readonly usageBy: readonly AgentUsage[];
  /** From the start of the turn to its last record, without suspended time. Milliseconds. */
  readonly durationMs: number;
  readonly iterations: number;
  readonly toolCalls: number;
  /** The open questions of a suspended turn. */
  readonly questions: readonly Question[];
}

/** The result of a turn, at its end or earlier. */
export function resultOf(state: LoopState): TurnResult {
  const messages = closedMessages(state).slice(state.turn.given);
  const answers = messages.filter((message): message is AssistantMessage => message.role === 'assistant');
  const texts = answers.map((message) => textOf(message.content));
  const closing = state.finalMessage ?? '';
  if (closing !== '' && closing !== texts.at(-1)) texts.push(closing);
  const status = taskState(state);
  const result: AnyTurnResult = {
    taskId: state.turn.taskId,
    contextId: state.turn.contextId,
    agentId: state.agentId,
    reason: state.outcome?.reason ?? '',
    text: state.finalMessage ?? textOf(state.lastResponse?.message.content),
    allText: texts.filter((text) => text !== '').join('\n'),
    message: answers.at(-1),
    messages,
    ...unreadOf(state),
    usage: state.usage,
    ownUsage: usageOf(state.ownUsage),
    usageBy: state.usageBy,
    durationMs: durationAt(state, state.updatedAt),
    iterations: state.iteration,
    toolCalls: state.toolCalls,
    questions: state.outcome?.questions ?? [],
  };
  return status === 'completed'
    ? Object.assign(result, { status, value: state.value })
    : Object.assign(result, { status, value: undefined });
}

/** The error of a failed or cancelled turn; `result` contains what it produced. */
export class TurnError extends AgentLoopError {
  /** The recorded parts of the result. Not enumerable: a log of the error does not include the messages of the turn. */
  declare readonly result: TurnResult;
  /** `max_iterations`, `length`, a caller's text for the cancel, … */
  override readonly reason: string;

  constructor(result: TurnResult, error: ErrorData, thrown?: unknown) {
    super(error.code, error.message, {
      taskId: result.taskId,
      details: error.details,
      ...originOf(error.code, thrown),
    });
    Object.defineProperty(this, 'result', { value: result });
    this.reason = result.reason;
  }
}

/** The properties of a turn's original error beyond its code; an `AgentLoopError` with the same code is not its own cause. */
export function originOf(code: ErrorCode, thrown: unknown): AgentLoopErrorOptions {
  if (thrown === undefined) return {};
  if (!AgentLoopError.isInstance(thrown) || thrown.code !== code) return { cause: thrown };
  const { retryable, retryAfterMs, status } = thrown;
  return {
    cause: thrown.cause ?? thrown,
    retryable,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(status === undefined ? {} : { status }),
  };
}

/** The state as plain JSON, for callers. */
export interface PersistedLoopState {
  readonly taskId: string;
  readonly agentId: string;
  readonly contextId: string;
  readonly iteration: number;
  readonly messages: readonly Message[];
  readonly status: TaskState;
  /** Calls of the last response without a result. */
  readonly pendingToolCalls: readonly ToolCall[];
  /** Whether the turn has ended for good. */
  readonly isComplete: boolean;
  /** The final text of a completed turn. */
  readonly finalMessage?: string;
  readonly error?: ErrorData;
  readonly usage: Usage;
  readonly seq: number;
  /** ISO 8601. */
  readonly createdAt: string;
  /** When the last record was written. ISO 8601. */
  readonly updatedAt: string;
}

/** Converts the state to plain JSON, for a snapshot store, a log or a page: messages, open calls and usage, without engine-internal parts. */
export function toPersisted(state: LoopState): PersistedLoopState {
  return {
    taskId: state.turn.taskId,
    agentId: state.turn.agentId,
    contextId: state.turn.contextId,
    iteration: state.iteration,
    messages: state.messages,
    status: taskState(state),
    pendingToolCalls: state.pendingToolCalls.filter((pending) => !pending.result).map((pending) => pending.call),
    isComplete: state.isComplete,
    ...(state.finalMessage === undefined ? {} : { finalMessage: state.finalMessage }),
    ...(state.error ? { error: state.error } : {}),
    usage: state.usage,
    seq: state.seq,
    createdAt: new Date(state.turn.createdAt).toISOString(),
    updatedAt: new Date(state.updatedAt).toISOString(),
  };
}

/**
 * The turn's messages in a form that the next turn can use: with the results of an unfinished batch, and exactly one result
 * per call. Returns the history itself if every call already has one.
 */
export function closedMessages(state: LoopState): readonly Message[] {
  if (state.calls.length === 0 && state.told.length === 0 && state.history.isPaired) return state.messages;
  const results = state.pendingToolCalls.flatMap(({ call, result }) => (result ? [toolMessage(call, result)] : []));
  return repairHistory([...state.history, ...results, ...state.told]);
}

/** The steering messages that no model call of the turn reads; no member if there are none. `isOver`: no other call follows. */
export function unreadOf(state: LoopState, isOver = false): { readonly unread?: readonly Message[] } {
  const { late = 0, steered } = state.changes;
  if (!steered) return {};
  const unread = isOver || state.isComplete ? steered : steered.slice(steered.length - late);
  return unread.length === 0 ? {} : { unread };
}

/** The task's A2A state after a fold. */
export function taskState(state: LoopState): TaskState {
  return state.outcome?.state ?? (state.seq === 1 ? 'submitted' : 'working');
}
