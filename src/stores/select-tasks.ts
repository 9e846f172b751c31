import type { TaskQuery, TaskSummary } from '../core/contracts/index.ts';
import { byStatus, groupOf, isWithin } from './context-group.ts';
import { isRunnable } from './runnable.ts';

/** What a query asks for out of summaries of tasks, the one created last first. For `TaskStateStore.list` of a store without an index. */
export function selectTasks(summaries: readonly TaskSummary[], query: TaskQuery = {}): readonly TaskSummary[] {
  const { runnable = false, limit = 50 } = query;
  const found = summaries.filter((task) => fits(query, task) && !(runnable && (task.held || !isRunnable(task.state))));
  if (query.byStatus !== undefined) found.sort(byStatusOfSummaries);
  return found.slice(0, limit);
}

/** Whether a task is one that a query asks for, but for `runnable`. */
export function fits(query: TaskQuery, task: TaskSummary): boolean {
  const { state, contextId, parentTaskId } = task;
  if (query.state !== undefined && state !== query.state) return false;
  if (query.roots && parentTaskId !== undefined) return false;
  if (query.parentTaskId !== undefined && parentTaskId !== query.parentTaskId) return false;
  if (query.contextId !== undefined && contextId !== query.contextId) return false;
  if (query.byStatus === undefined) return true;
  return groupOf(contextId) === query.byStatus.group && isWithin(query.byStatus, placeOf(task));
}

/** For `sort`: the order of a group. */
export function byStatusOfSummaries(one: TaskSummary, other: TaskSummary): number {
  return byStatus(placeOf(one), placeOf(other));
}

function placeOf({ statusAt, taskId }: TaskSummary) {
  return { statusAt: Date.parse(statusAt), taskId };
}
