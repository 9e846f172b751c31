import { AgentLoopError, type TaskQuery, type TaskSummary } from '../../core/contracts/index.ts';
import { byStatusOfSummaries, fits } from '../select-tasks.ts';
import type { RedisClient } from './redis-client.ts';
import { RunnableIndex, type RunnablePage } from './runnable-index.ts';
import type { ScriptRunner } from './script-runner.ts';
import type { IndexedTask, TaskIndex } from './task-index.ts';
import { taskKeys } from './task-keys.ts';
import { summaryOfAnswer } from './task-summary.ts';

export interface TaskListDeps {
  readonly client: RedisClient;
  readonly index: TaskIndex;
  readonly scripts: ScriptRunner;
  readonly prefix: string;
}

const pageSize = 100;

/** What the heads of tasks say, found through the index. Entries of the index whose task is gone are removed on the way. */
export class TaskList {
  readonly #deps: TaskListDeps;
  readonly runnable: RunnableIndex;

  constructor(deps: TaskListDeps) {
    const { client, prefix, index } = deps;
    this.#deps = deps;
    this.runnable = new RunnableIndex({ client, prefix, tasks: index, describe: (taskId) => this.describe(taskId) });
  }

  async list(query: TaskQuery): Promise<readonly TaskSummary[]> {
    const { limit = 50 } = query;
    if (query.runnable) return this.#listRunnable(query, limit);
    const found: TaskSummary[] = [];
    for (let offset = 0; found.length < limit; ) {
      const page = await this.#deps.index.page({ ...query, offset, size: pageSize });
      if (page.length === 0) break;
      // Those that are gone were removed from the index, so the next page begins earlier.
      const wanted = query.roots ? page.filter(({ parentTaskId }) => parentTaskId === undefined) : page;
      const summaries = await this.#summaries(wanted);
      offset += page.length - (wanted.length - summaries.length);
      found.push(...summaries.filter((summary) => fits(query, summary)));
    }
    if (query.byStatus !== undefined) await this.#mend(found);
    return found.slice(0, limit);
  }

  async #listRunnable(query: TaskQuery, limit: number): Promise<readonly TaskSummary[]> {
    const found: TaskSummary[] = [];
    for (let offset: number | undefined = 0; offset !== undefined && found.length < limit; ) {
      const page: RunnablePage = await this.runnable.page(offset);
      found.push(...page.found.filter((summary) => fits(query, summary)));
      offset = page.next;
    }
    if (query.byStatus !== undefined) found.sort(byStatusOfSummaries);
    return found.slice(0, limit);
  }

  /** Puts tasks of a group in their order: one whose index was not told of its last status stands where it stood before. */
  async #mend(found: TaskSummary[]): Promise<void> {
    const before = [...found];
    found.sort(byStatusOfSummaries);
    const moved = found.filter((summary, index) => summary !== before[index]);
    await Promise.all(moved.map((task) => this.#deps.index.tell(task, Date.parse(task.statusAt))));
  }

  /** Called once for each new task: now and then looks whether some tasks of the index are still there. */
  async sweep(): Promise<void> {
    await this.#summaries(await this.#deps.index.sample());
  }

  async #summaries(tasks: readonly IndexedTask[]): Promise<readonly TaskSummary[]> {
    const summaries = await Promise.all(tasks.map((task) => this.#summary(task)));
    return summaries.filter((summary) => summary !== undefined);
  }

  async #summary(task: IndexedTask): Promise<TaskSummary | undefined> {
    const summary = await this.describe(task.taskId);
    if (!summary) await this.#deps.index.remove(task);
    return summary;
  }

  /** Undefined where the task is gone. */
  async describe(taskId: string): Promise<TaskSummary | undefined> {
    const { scripts, prefix } = this.#deps;
    const { head } = taskKeys(prefix, taskId);
    try {
      return summaryOfAnswer(
        taskId,
        await scripts.run({ script: 'describe', keys: [head], args: [], subject: { taskId } }),
      );
    } catch (error) {
      if (AgentLoopError.isInstance(error) && error.code === 'NOT_FOUND') return undefined;
      throw error;
    }
  }
}
