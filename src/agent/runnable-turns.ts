import {
  AgentLoopError,
  type Clock,
  type ErrorCode,
  isTerminalState,
  type Logger,
  type TaskQuery,
  type TaskStateStore,
  type TaskSummary,
} from '../core/contracts/index.ts';
import { openingMs } from '../core/turn/index.ts';
import { isRunnable } from '../stores/task-summary.ts';
import { AgentLoop } from '../tasks/agent-loop.ts';
import { endLostChild } from '../tasks/task-commands.ts';

/** How long a child turn may be older than its parent turn, which a retry writes last, in milliseconds: as long as the lease of such a writer. */
const writingMs = 30_000;
/** The limit of the first query; it is raised until all turns are found. */
const firstLook = 1_000;

/** Errors for turns that another process acquired or deleted, and of a closing agent: skipped without a log entry. */
const expected: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['BUSY', 'NOT_FOUND', 'TERMINAL', 'SHUTDOWN']);

/** Turns without an owner that have work to do, the oldest first if their times are equal. */
export async function runnableTurns(
  store: TaskStateStore,
  query: Pick<TaskQuery, 'agentId' | 'dueBy'> = {},
): Promise<TaskSummary[]> {
  for (let limit = firstLook; ; limit *= 4) {
    const found = await store.list({ ...query, runnable: true, limit });
    // A store that does not support `runnable` or `agentId` returns more.
    const runnable = found.filter(
      ({ held, state, agentId }) => !held && isRunnable(state) && agentId === (query.agentId ?? agentId),
    );
    if (found.length < limit) return runnable.reverse();
  }
}

/**
 * Ends a child turn without an owner that nothing resumes, with its own child turns: as its parent turn has recorded, if the store lost the end of the
 * child turn; else as cancelled, if the parent turn has ended or was deleted. Never rejects.
 */
export async function cancelOrphan(
  { taskId, parentTaskId, createdAt }: TaskSummary,
  {
    store,
    clock,
    logger,
  }: { readonly store: TaskStateStore; readonly clock: Clock; readonly logger: Logger | undefined },
): Promise<void> {
  if (parentTaskId === undefined) return;
  try {
    const parent = await store.describe(parentTaskId);
    if (!parent && openingMs(Date.parse(createdAt), { clock, leaseMs: writingMs }) > 0) return;
    const isOver = !parent || isTerminalState(parent.state);
    // The owner of a parent turn ends the child turns itself.
    if (!isOver && parent.held) return;
    if (await endLostChild(taskId, { store, clock })) {
      logger?.warn('the store lost the end of a child turn, which its parent turn had recorded', {
        taskId,
        parentTaskId,
      });
      return;
    }
    if (!isOver) return;
    await AgentLoop.cancel(taskId, { store, clock, reason: `its parent turn "${parentTaskId}" has ended` });
  } catch (error) {
    warnUnlessExpected(logger, 'child turn not cancelled', { taskId, error });
  }
}

export function warnUnlessExpected(
  logger: Logger | undefined,
  message: string,
  { taskId, error }: { readonly taskId: string; readonly error: unknown },
): void {
  const code = codeOf(error);
  if (!expected.has(code)) logger?.warn(message, { taskId, code });
}

export function codeOf(error: unknown): ErrorCode {
  return AgentLoopError.isInstance(error) ? error.code : 'INTERNAL';
}
