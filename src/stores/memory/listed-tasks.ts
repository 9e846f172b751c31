import type { TaskQuery } from '../../core/contracts/index.ts';
import { byStatus, groupOf, isRunnable, isWithin } from '../task-summary.ts';
import type { MemoryTask } from './memory-task.ts';

/** The tasks that a query asks for at a moment, in its order, out of all in the order of their creation. */
export function listedTasks(tasks: Iterable<MemoryTask>, query: TaskQuery, now: number): readonly MemoryTask[] {
  const { state, contextId, parentTaskId, byStatus: index, roots = false, runnable = false, limit = 50 } = query;
  const found = [...tasks].filter((task) => {
    const { status, started } = task;
    return (
      !(roots && started.parent) &&
      !(runnable && (!isRunnable(status) || task.isHeld(now))) &&
      (state === undefined || status === state) &&
      (contextId === undefined || started.contextId === contextId) &&
      (parentTaskId === undefined || started.parent?.taskId === parentTaskId) &&
      (index === undefined || (groupOf(started.contextId) === index.group && isWithin(index, placeOf(task))))
    );
  });
  if (index === undefined) return found.reverse().slice(0, limit);
  return found.sort((a, b) => byStatus(placeOf(a), placeOf(b))).slice(0, limit);
}

function placeOf({ statusAt, started: { taskId } }: MemoryTask) {
  return { statusAt, taskId };
}
