import type { TaskStateStore } from '../stores/interfaces.ts';
import { foldRecords } from './apply-record.ts';
import { type Clock, systemClock } from './clock.ts';
import { AgentLoopError } from './errors.ts';
import { commitOf } from './signals.ts';
import { taskState } from './state.ts';

export interface CancelOptions {
  readonly store: TaskStateStore;
  /** Default `canceled`. */
  readonly reason?: string;
  readonly clock?: Clock;
}

const leaseMs = 5_000;

/**
 * Cancels a task from any process: leaves the command for its owner, and where nobody owns it, writes its end itself. Resolves when
 * the command is posted or the end is written, not when the owner has stopped. Does nothing for a task that has ended. Errors:
 * `NOT_FOUND`, `UNAVAILABLE`.
 */
export async function cancelTask(taskId: string, options: CancelOptions): Promise<void> {
  const { store, reason = 'canceled', clock = systemClock } = options;
  try {
    await store.post(taskId, { id: crypto.randomUUID(), type: 'cancel', reason });
    const lease = await store.acquire(taskId, `cancel-${crypto.randomUUID()}`, leaseMs);
    const state = foldRecords(await store.read(taskId));
    const commit = commitOf({ epoch: lease.epoch, now: () => clock.now() }, state, [{ type: 'turn.canceled', reason }]);
    const records = commit.steps.map((step) => step.record);
    await store.append(lease, records, { status: taskState(commit.after), barrier: true });
    await store.release(lease);
  } catch (error) {
    const settled = AgentLoopError.isInstance(error) && (error.code === 'BUSY' || error.code === 'TERMINAL');
    if (!settled) throw error;
  }
}
