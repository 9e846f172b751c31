import type { TaskQuery } from '../../core/contracts/index.ts';
import type { MemoryTask } from './memory-task.ts';

/** The tasks of a store in the order of their creation, also by context and by parent: both have few, the store may have thousands. */
export class MemoryTasks {
  readonly #all = new Map<string, MemoryTask>();
  readonly #contexts = new Map<string, Map<string, MemoryTask>>();
  readonly #parents = new Map<string, Map<string, MemoryTask>>();

  get(taskId: string): MemoryTask | undefined {
    return this.#all.get(taskId);
  }

  has(taskId: string): boolean {
    return this.#all.has(taskId);
  }

  /** There must be no task with that id. */
  add(taskId: string, task: MemoryTask): void {
    const { contextId, parent } = task.started;
    this.#all.set(taskId, task);
    addTo(this.#contexts, contextId, taskId, task);
    if (parent) addTo(this.#parents, parent.taskId, taskId, task);
  }

  delete(taskId: string): void {
    const task = this.#all.get(taskId);
    if (!task) return;
    const { contextId, parent } = task.started;
    this.#all.delete(taskId);
    deleteFrom(this.#contexts, contextId, taskId);
    if (parent) deleteFrom(this.#parents, parent.taskId, taskId);
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

type Groups = Map<string, Map<string, MemoryTask>>;

function addTo(groups: Groups, name: string, taskId: string, task: MemoryTask): void {
  const tasks = groups.get(name) ?? new Map<string, MemoryTask>();
  groups.set(name, tasks.set(taskId, task));
}

function deleteFrom(groups: Groups, name: string, taskId: string): void {
  const tasks = groups.get(name);
  tasks?.delete(taskId);
  if (tasks?.size === 0) groups.delete(name);
}
