import type { TaskSummary } from '../../core/contracts/index.ts';
import { isRunnable } from '../runnable.ts';
import { evaluate } from './evaluate.ts';
import { luaScript } from './lua-scripts.ts';
import { isCluster, type RedisClient } from './redis-client.ts';
import { listOf, ScriptAnswer } from './script-answer.ts';
import { sendCommand } from './send-command.ts';
import type { TaskIndex } from './task-index.ts';
import { runnableKey } from './task-keys.ts';
import { summaryOfAnswer } from './task-summary.ts';

export interface RunnableIndexDeps {
  readonly client: RedisClient;
  readonly prefix: string;
  readonly tasks: TaskIndex;
  /** What the head of a task says; undefined where it is gone. */
  describe(taskId: string): Promise<TaskSummary | undefined>;
}

export interface RunnablePage {
  readonly found: readonly TaskSummary[];
  /** Where the next page begins; undefined at the end. */
  readonly next: number | undefined;
}

const pageSize = 100;

/**
 * Which tasks anybody may take: those that were created, answered or given back, and those whose owner let its lease run out. One sorted
 * set, by the time from which on a task may be taken.
 *
 * On one server the scripts of the state store keep it, and a page is one script: its cost is that of what it finds, however many tasks
 * are suspended or have ended. In a cluster, where no script can reach both the set and a task, it holds every task that may be runnable;
 * a page looks at each of those and drops what is not.
 */
export class RunnableIndex {
  readonly #deps: RunnableIndexDeps;
  readonly #key: string;
  #complete: Promise<void> | undefined;

  constructor(deps: RunnableIndexDeps) {
    this.#deps = deps;
    this.#key = runnableKey(deps.prefix);
  }

  /** In a cluster: says that a task may be runnable. Elsewhere the scripts have said it. */
  async tell(taskId: string): Promise<void> {
    if (isCluster(this.#deps.client)) await this.#send('zadd', this.#key, 'NX', 0, taskId);
  }

  /** The tasks from a place on; of one server the one that waits longest first. */
  async page(offset: number): Promise<RunnablePage> {
    this.#complete ??= this.#addOlder();
    try {
      await this.#complete;
    } catch (error) {
      this.#complete = undefined;
      throw error;
    }
    return isCluster(this.#deps.client) ? this.#lookedAt(offset) : this.#scripted(offset);
  }

  async #scripted(offset: number): Promise<RunnablePage> {
    const { client, prefix } = this.#deps;
    const script = luaScript({ file: 'due-1', flags: ' flags=allow-oom' });
    const [, more, tasks] = await evaluate(client, { script, keys: [this.#key], args: [prefix, offset, pageSize] });
    const found = listOf(tasks).map((task) => {
      const [taskId, ...described] = listOf(task);
      return summaryOfAnswer(String(taskId), new ScriptAnswer(described, { taskId: String(taskId) }));
    });
    return { found, next: more === 1 ? offset + found.length : undefined };
  }

  async #lookedAt(offset: number): Promise<RunnablePage> {
    const ids = listOf(await this.#send('zrange', this.#key, offset, offset + pageSize - 1)).map(String);
    const states = await Promise.all(ids.map((taskId) => this.#stateOf(taskId)));
    const kept = states.filter((state) => state !== undefined);
    const next = ids.length < pageSize ? undefined : offset + kept.length;
    return { found: kept.filter(({ held }) => !held), next };
  }

  async #stateOf(taskId: string): Promise<TaskSummary | undefined> {
    const { describe } = this.#deps;
    const summary = await describe(taskId);
    if (summary && isRunnable(summary.state)) return summary;
    await this.#send('zrem', this.#key, taskId);
    // It may have been answered before it was removed, and told before that.
    const now = await describe(taskId);
    if (!now || !isRunnable(now.state)) return undefined;
    await this.tell(taskId);
    return now;
  }

  /** Once for a prefix: adds the tasks that a version without this index created. */
  async #addOlder(): Promise<void> {
    const { tasks, describe } = this.#deps;
    const mark = `${this.#key}-complete`;
    if ((await this.#send('get', mark)) !== null) return;
    for (let offset = 0; ; offset += pageSize) {
      const page = await tasks.page({ offset, size: pageSize });
      if (page.length === 0) break;
      const found = await Promise.all(page.map(({ taskId }) => describe(taskId)));
      const open = found.filter((summary) => summary !== undefined && isRunnable(summary.state));
      await Promise.all(open.map((task) => task && this.#send('zadd', this.#key, 'NX', 0, task.taskId)));
    }
    await this.#send('set', mark, '1');
  }

  #send(name: string, ...args: readonly (string | number)[]): Promise<unknown> {
    return sendCommand(this.#deps.client, name, ...args);
  }
}
