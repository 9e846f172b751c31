import { type Clock, systemClock } from '../contracts/clock.ts';
import { AgentLoopError } from '../contracts/errors.ts';
import type { TaskStateStore, Under } from '../contracts/store.ts';
import type { TaskState } from '../contracts/task-state.ts';
import type { ChildLink } from '../contracts/tool.ts';
import { foldRecords } from '../journal/apply-record.ts';
import type { LoopState } from '../journal/state.ts';
import { ready } from '../journal/when-ready.ts';
import { listedChildren } from '../ownership/child-turns.ts';
import { appendFromOutside } from '../ownership/outside-append.ts';
import { restoreEnded } from '../ownership/restore-runs.ts';

export interface CancelOptions {
  readonly store: TaskStateStore;
  /** Default `canceled`. */
  readonly reason?: string | undefined;
  /** How long an owner of the turn may take to stop. Milliseconds; default 10,000. */
  readonly deadlineMs?: number | undefined;
  readonly clock?: Clock | undefined;
}

interface CancelTreeOptions extends CancelOptions {
  /** The lease of the parent turn, where a child turn is cancelled. */
  readonly under?: Under | undefined;
}

/**
 * Cancels a task from any process: its owner stops it; if it has none, its end is written here, after the ends of its open child
 * turns, the deepest first, and the spans that were lost with its process. Where that breaks off, the same cancel again does the rest. Resolves once the turn is over, or after the
 * deadline: the command then waits for its owner, or for the next one. Does nothing for a task that has ended. Errors: `NOT_FOUND`,
 * `UNAVAILABLE`.
 */
export async function cancelTask(taskId: string, options: CancelOptions): Promise<void> {
  await cancelTree(taskId, options);
}

/** As `cancelTask`; false where the turn was not over by the deadline. */
async function cancelTree(taskId: string, options: CancelTreeOptions): Promise<boolean> {
  const { store, reason = 'canceled', deadlineMs = 10_000, clock = systemClock, under } = options;
  const deadline = { ms: deadlineMs, clock, option: 'deadlineMs' };
  try {
    await ready(() => store.post(taskId, { id: crypto.randomUUID(), type: 'cancel', reason }), deadline);
  } catch (error) {
    if (!AgentLoopError.isInstance(error) || error.code !== 'TERMINAL') throw error;
    // A stopped owner may have created a child turn after the end was written.
    const state = foldRecords(await store.read(taskId));
    const children = [...state.openChildren, ...(await childrenOfHooks(store, state))];
    await cancelChildren(children, { ...options, under: undefined });
    return true;
  }
  const missing = (state: LoopState) =>
    state.isComplete ? ('done' as const) : [{ type: 'turn.canceled' as const, reason }];
  return appendFromOutside({
    store,
    taskId,
    clock,
    deadlineMs,
    under,
    missing,
    before: async (state, lease) => {
      const children = [...state.openChildren, ...(await childrenOfHooks(store, state))];
      const under = { taskId, epoch: lease.epoch };
      await cancelChildren(children, { ...options, under, beforeEach: () => store.renew(lease) });
      await restoreEnded(store, { lease, clock });
    },
  });
}

/** Child turns that a hook had started when its process died. */
async function childrenOfHooks(store: TaskStateStore, { turn }: LoopState): Promise<readonly ChildLink[]> {
  return (await listedChildren(store, turn.taskId)).filter(({ state }) => !ended.has(state));
}

const ended: ReadonlySet<TaskState> = new Set(['completed', 'failed', 'canceled', 'rejected']);

interface CancelChildrenOptions extends CancelTreeOptions {
  /** Renews the lease of the parent turn. */
  readonly beforeEach?: () => void | Promise<void>;
}

/**
 * Cancels child turns with the lease of their parent turn, whoever held them. A child turn that was never created is passed over. Errors:
 * those of the store, and `UNAVAILABLE` where one is not over by the deadline.
 */
export async function cancelChildren(
  children: readonly ChildLink[],
  { beforeEach, ...options }: CancelChildrenOptions,
): Promise<void> {
  for (const { taskId } of children) {
    await beforeEach?.();
    try {
      if (await cancelTree(taskId, options)) continue;
    } catch (error) {
      if (AgentLoopError.isInstance(error) && error.code === 'NOT_FOUND') continue;
      throw error;
    }
    const message = `The child turn "${taskId}" could not be cancelled in time; cancel its parent turn again.`;
    throw new AgentLoopError('UNAVAILABLE', message, { taskId, retryable: true });
  }
}
