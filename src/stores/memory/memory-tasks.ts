import type { TaskQuery } from '../../core/contracts/index.ts';
import type { MemoryTask } from './memory-task.ts';

/** The tasks of a store in the order of their creation, also by context and by parent: both have few, the store may have thousands. */
export class MemoryTasks {
  readonly #all = new Map<string, MemoryTask>();
  readonly byId: ReadonlyMap<string, MemoryTask> = this.#all;
  readonly #contexts = new Map<string, Map<string, MemoryTask>>();
  readonly #parents = new Map<string, Map<string, MemoryTask>>();

  /** There must be no task with that id. */
  add(taskId: string, task: MemoryTask): void {
    const { contextId, parent } = task.started;
    this.#all.set(taskId, task);
    this.#contexts.set(contextId, (this.#contexts.get(contextId) ?? new Map<string, MemoryTask>()).set(taskId, task));
    if (!parent) return;
    const siblings = this.#parents.get(parent.taskId) ?? new Map<string, MemoryTask>();
    this.#parents.set(parent.taskId, siblings.set(taskId, task));
  }

  delete(taskId: string): void {
    const task = this.#all.get(taskId);
    if (!task) return;
    const { contextId, parent } = task.started;
    this.#all.delete(taskId);
    const tasks = this.#contexts.get(contextId);
    if (tasks?.delete(taskId) && tasks.size === 0) this.#contexts.delete(contextId);
    const siblings = parent && this.#parents.get(parent.taskId);
    if (siblings?.delete(taskId) && siblings.size === 0) this.#parents.delete(parent?.taskId ?? '');
  }

  /** The tasks that may fit a query, and its `afterTaskId`. */
  among({ contextId, parentTaskId, afterTaskId }: TaskQuery): Iterable<MemoryTask> {
    const tasks =
      parentTaskId !== undefined
        ? this.#parents.get(parentTaskId)
        : contextId !== undefined
          ? this.#contexts.get(contextId)
          : this.#all;
    // A query may continue after a task of another context.
    const isWhole = afterTaskId === undefined || tasks?.has(afterTaskId);
    return isWhole ? (tasks?.values() ?? []) : this.#all.values();
  }
}
