import { concatMap, from, lastValueFrom, mergeMap, reduce } from 'rxjs';
import { AgentLoopError, type ErrorCode, type TaskStateStore, type TaskSummary } from '../core/contracts/index.ts';
import { AgentLoop } from '../core/turn/index.ts';
import { isRunnable } from '../stores/task-summary.ts';
import type { ResolvedHandlerOptions } from './handler-options.ts';
import { isScoped } from './scope.ts';
import type { ServedTurns } from './served-turns.ts';

/** How many turns are looked for at first; where there are more, all of them. */
const firstLook = 1_000;
/** How many conversations are resumed at the same time, until the turns of each have begun. */
const concurrency = 20;

/** Of a turn that somebody else has taken or deleted, and of a server that closes: nobody has to look at them. */
const expected: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['BUSY', 'NOT_FOUND', 'TERMINAL', 'SHUTDOWN']);

/**
 * Resumes turns that nobody runs, those of one conversation in the order in which they came; those that another process takes first
 * are left to it. A child turn is continued by its parent turn, never by itself; one whose parent turn has ended is cancelled. Gives how
 * many turns were taken.
 */
export async function recoverTasks(options: ResolvedHandlerOptions, turns: ServedTurns): Promise<number> {
  const { agent, store, logger } = options;
  const free = (await runnableTasks(store)).sort((a, b) => Date.parse(a.createdAt) - Date.parse(b.createdAt));
  const left = free.filter(
    ({ parentTaskId, agentId, contextId }) => parentTaskId === undefined && agentId === agent.id && isScoped(contextId),
  );
  const taken$ = from(conversationsOf(left)).pipe(
    mergeMap((tasks) => from(tasks).pipe(concatMap(({ taskId }) => takeOver(taskId))), concurrency),
    reduce((sum, taken) => sum + (taken ? 1 : 0), 0),
  );
  const count = await lastValueFrom(taken$);
  await cancelOrphans(options);
  return count;

  async function takeOver(taskId: string): Promise<boolean> {
    try {
      await turns.begun(agent.resume(taskId, { detached: true }));
      return true;
    } catch (error) {
      const code = AgentLoopError.isInstance(error) ? error.code : 'INTERNAL';
      if (!expected.has(code)) logger?.warn('turn not recovered', { taskId, code });
      return false;
    }
  }
}

function conversationsOf(tasks: readonly TaskSummary[]): Iterable<readonly TaskSummary[]> {
  const conversations = new Map<string, TaskSummary[]>();
  for (const task of tasks) {
    const turns = conversations.get(task.contextId);
    if (turns) turns.push(task);
    else conversations.set(task.contextId, [task]);
  }
  return conversations.values();
}

/** Cancels child turns that nobody runs and whose parent turn has ended or was deleted, with their own child turns. */
async function cancelOrphans({ store, clock, logger }: ResolvedHandlerOptions): Promise<void> {
  for (const { taskId, parentTaskId } of await runnableTasks(store)) {
    if (parentTaskId === undefined) continue;
    try {
      if (!(await isOver(store, parentTaskId))) continue;
      await AgentLoop.cancel(taskId, { store, clock, reason: `its parent turn "${parentTaskId}" has ended` });
    } catch (error) {
      const code = AgentLoopError.isInstance(error) ? error.code : 'INTERNAL';
      if (!expected.has(code)) logger?.warn('child turn not cancelled', { taskId, code });
    }
  }
}

async function isOver(store: TaskStateStore, taskId: string): Promise<boolean> {
  return (await store.load(taskId))?.isComplete ?? true;
}

/** The oldest first where their times are the same. */
async function runnableTasks(store: TaskStateStore): Promise<TaskSummary[]> {
  for (let limit = firstLook; ; limit *= 4) {
    const found = await store.list({ runnable: true, limit });
    // A store that does not know `runnable` gives all tasks.
    const runnable = found.filter(({ held, state }) => !held && isRunnable(state));
    if (found.length < limit) return runnable.reverse();
  }
}
