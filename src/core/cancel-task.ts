import type { TaskStateStore } from '../stores/interfaces.ts';
import { type Clock, systemClock } from './clock.ts';
import { AgentLoopError } from './errors.ts';
import { appendFromOutside } from './outside-append.ts';
import type { LoopState } from './state.ts';

export interface CancelOptions {
  readonly store: TaskStateStore;
  /** Default `canceled`. */
  readonly reason?: string;
  /** How long an owner of the turn may take to stop. Milliseconds; default 10,000. */
  readonly deadlineMs?: number;
  readonly clock?: Clock;
}

/**
 * Cancels a task from any process: its owner is told; where it has none, its end is written here. Resolves once the turn is over, or
 * after the deadline: the command then waits for its owner, or for the next one. Does nothing for a task that has ended. Errors:
 * `NOT_FOUND`, `UNAVAILABLE`.
 */
export async function cancelTask(taskId: string, options: CancelOptions): Promise<void> {
  const { store, reason = 'canceled', deadlineMs = 10_000, clock = systemClock } = options;
  try {
    await store.post(taskId, { id: crypto.randomUUID(), type: 'cancel', reason });
  } catch (error) {
    if (AgentLoopError.isInstance(error) && error.code === 'TERMINAL') return;
    throw error;
  }
  const missing = (state: LoopState) =>
    state.isComplete ? ('done' as const) : [{ type: 'turn.canceled' as const, reason }];
  await appendFromOutside({ store, taskId, clock, deadlineMs, missing });
}
