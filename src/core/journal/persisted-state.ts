import type { ErrorData } from '../contracts/errors.ts';
import type { Message, ToolCall } from '../contracts/messages.ts';
import type { TaskState } from '../contracts/task-state.ts';
import type { Usage } from '../contracts/usage.ts';
import { type LoopState, taskState } from './state.ts';

/** The state as it leaves the engine: plain JSON. */
export interface PersistedLoopState {
  readonly taskId: string;
  readonly agentId: string;
  readonly contextId: string;
  readonly iteration: number;
  readonly messages: readonly Message[];
  readonly status: TaskState;
  /** Calls of the last response that have no result yet. */
  readonly pendingToolCalls: readonly ToolCall[];
  readonly isComplete: boolean;
  readonly finalMessage?: string;
  readonly error?: ErrorData;
  readonly usage: Usage;
  readonly seq: number;
  /** ISO 8601. */
  readonly createdAt: string;
  readonly updatedAt: string;
}

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
