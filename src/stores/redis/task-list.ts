import {
  AgentLoopError,
  isTaskState,
  type TaskQuery,
  type TaskState,
  type TaskSummary,
} from '../../core/contracts/index.ts';
import { notFound } from '../store-rules.ts';
import { byStatusOfSummaries, fits, isRunnable, summaryOf } from '../task-summary.ts';
import { type IndexedTask, memberOf, type TaskIndex } from './indexes.ts';
import { LuaScript, listOf, runnableKey, ScriptAnswer, type ScriptRunner, taskKeys } from './lua-scripts.ts';
import { isCluster, type RedisConnection } from './redis-connection.ts';

interface TaskListDeps {
  readonly connection: RedisConnection;
  readonly index: TaskIndex;
  readonly scripts: ScriptRunner;
  readonly prefix: string;
}

const listPageSize = 100;

/** Lists and describes tasks through the indexes. Removes index entries of deleted tasks that it meets. */
export class TaskList {
  readonly #deps: TaskListDeps;
  readonly runnable: RunnableIndex;
  #migrated: Promise<void> | undefined;

  constructor(deps: TaskListDeps) {
    const { connection, prefix } = deps;
    this.#deps = deps;
    this.runnable = new RunnableIndex({ connection, prefix, describe: (taskId) => this.describe(taskId) });
  }

  async list(query: TaskQuery): Promise<readonly TaskSummary[]> {
    const { limit = 50 } = query;
    if (query.runnable) return this.#listRunnable(query, limit);
    if (query.byStatus !== undefined && query.state !== undefined) return this.#listOfGroupAndState(query, limit);
    const found: TaskSummary[] = [];
    for await (const page of this.#pages(query)) {
      found.push(...page);
      if (found.length >= limit) break;
    }
    if (query.byStatus !== undefined) await this.#sortByStatus(found);
    return found.slice(0, limit);
  }

  /**
   * Reads the indexes of the group and of the state in parallel and stops when one ends: it contains all matching tasks. The cost is that of the
   * shorter index, or of the group's entries up to `limit` matches.
   */
  async #listOfGroupAndState(query: TaskQuery, limit: number): Promise<readonly TaskSummary[]> {
    const ofGroup = this.#pages(query);
    const ofState = this.#pages({ ...query, byStatus: undefined });
    const inOrder: TaskSummary[] = [];
    const found: TaskSummary[] = [];
    while (inOrder.length < limit) {
      const [next, other] = await Promise.all([ofGroup.next(), ofState.next()]);
      if (next.done) break;
      inOrder.push(...next.value);
      if (other.done) return found.sort(byStatusOfSummaries).slice(0, limit);
      found.push(...other.value.filter((summary) => fits(query, summary)));
    }
    await this.#sortByStatus(inOrder);
    return inOrder.slice(0, limit);
  }

  /** The matches of a query, one array for each page of its index. Uses the index of the state if the query has no other condition. */
  async *#pages(query: TaskQuery): AsyncGenerator<readonly TaskSummary[], undefined> {
    const { limit = 50 } = query;
    const isOfState = query.contextId === undefined && query.parentTaskId === undefined && query.byStatus === undefined;
    const state = isOfState ? query.state : undefined;
    if (state !== undefined) await this.#migrate();
    const after = await this.#after(query);
    const start = after ? await this.#deps.index.before({ ...query, state }, after, Date.parse(after.createdAt)) : 0;
    for (let offset = start; limit > 0; ) {
      // The first page has `limit` entries; later pages, and those of root turns, which skip child turns, are full.
      const size = offset === start && !query.roots ? Math.min(Math.ceil(limit), listPageSize) : listPageSize;
      const page = await this.#deps.index.page({ ...query, state, offset, size });
      // Entries of deleted tasks were removed from the index, so the next page begins earlier.
      const wanted = query.roots ? page.filter(({ parentTaskId }) => parentTaskId === undefined) : page;
      const summaries = await this.#summaries(wanted, state);
      offset += page.length - (wanted.length - summaries.length);
      yield summaries.filter((summary) => fits(query, summary) && !(after && isNotAfter(summary, after)));
      if (page.length < size) return;
    }
  }

  /** The task of `afterTaskId`, after which the page begins. Errors: `NOT_FOUND`. */
  async #after({ afterTaskId }: TaskQuery): Promise<TaskSummary | undefined> {
    if (afterTaskId === undefined) return undefined;
    const task = await this.describe(afterTaskId);
    if (task) return task;
    throw notFound(afterTaskId);
  }

  async #listRunnable(query: TaskQuery, limit: number): Promise<readonly TaskSummary[]> {
    await this.#migrate();
    const found: TaskSummary[] = [];
    for (let from: RunnablePlace | undefined = [0, 0]; from !== undefined && found.length < limit; ) {
      const page: RunnablePage = await this.runnable.page(from, query.dueBy);
      found.push(...page.found.filter((summary) => fits(query, summary)));
      from = page.next;
    }
    if (query.byStatus !== undefined) found.sort(byStatusOfSummaries);
    return found.slice(0, limit);
  }

  /** Sorts tasks of a group by status time, and updates the index entries that were out of order. */
  async #sortByStatus(found: TaskSummary[]): Promise<void> {
    const before = [...found];
    found.sort(byStatusOfSummaries);
    const moved = found.filter((summary, index) => summary !== before[index]);
    await Promise.all(moved.map((task) => this.#deps.index.setStatusTime(task, Date.parse(task.statusAt))));
  }

  /** Called once for each new task; every 32nd call removes deleted tasks from a random sample of the index. */
  async sweep(): Promise<void> {
    await this.#summaries(await this.#deps.index.sample());
  }

  /** The summaries of existing tasks. `state`: the state whose index lists them. */
  async #summaries(tasks: readonly IndexedTask[], state?: TaskState): Promise<readonly TaskSummary[]> {
    const summaries = await Promise.all(tasks.map((task) => this.#summary(task, state)));
    return summaries.filter((summary) => summary !== undefined);
  }

  async #summary(task: IndexedTask, state: TaskState | undefined): Promise<TaskSummary | undefined> {
    const { index } = this.#deps;
    const summary = await this.describe(task.taskId);
    if (!summary) await index.remove(task);
    if (!summary || state === undefined || summary.state === state) return summary;
    await index.leave(task, state);
    // The task may have returned to the state before its entry was removed.
    const now = await this.describe(task.taskId);
    if (now?.state !== state) return undefined;
    await index.enter(task, state, Date.parse(now.createdAt));
    return now;
  }

  /** Once for a prefix: adds tasks of older versions to the indexes of states and of runnable tasks. */
  async #migrate(): Promise<void> {
    this.#migrated ??= this.#addOlderTasks();
    try {
      await this.#migrated;
    } catch (error) {
      this.#migrated = undefined;
      throw error;
    }
  }

  async #addOlderTasks(): Promise<void> {
    const { connection, prefix, index } = this.#deps;
    const mark = `${prefix}:indexed`;
    if ((await connection.send('get', mark)) !== null) return;
    const add = async (task: IndexedTask): Promise<void> => {
      const summary = await this.describe(task.taskId);
      if (summary === undefined) return;
      await index.enter(task, summary.state, Date.parse(summary.createdAt));
      if (isRunnable(summary.state)) await this.runnable.add(task.taskId);
    };
    for (let offset = 0; ; offset += listPageSize) {
      const page = await index.page({ offset, size: listPageSize });
      if (page.length === 0) break;
      await Promise.all(page.map(add));
    }
    await connection.send('set', mark, '1');
  }

  /** The summary of a task; undefined if it does not exist. */
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

/** Whether a task is the other one, or before it among tasks of the same time, which the index lists by descending member. */
function isNotAfter(task: TaskSummary, other: TaskSummary): boolean {
  return task.createdAt === other.createdAt && memberOf(task) >= memberOf(other);
}

interface RunnableIndexDeps {
  readonly connection: RedisConnection;
  readonly prefix: string;
  /** The summary of a task; undefined if it does not exist. */
  describe(taskId: string): Promise<TaskSummary | undefined>;
}

/** The number of entries that earlier pages read: of claimable tasks, and of those that back off. In a cluster the first counts both. */
type RunnablePlace = readonly [number, number];

interface RunnablePage {
  readonly found: readonly TaskSummary[];
  /** The start of the next page; undefined after the last one. */
  readonly next: RunnablePlace | undefined;
}

const dueScript = new LuaScript('due-1', { flags: 'allow-oom' });
const duePageSize = 100;

/**
 * The index of tasks that a worker may acquire: those created, answered or released, and those whose lease has expired. One sorted set, by the
 * time from which a task may be acquired, and a second one of tasks that back off, by the end of the backoff.
 *
 * On one server the scripts of the state store maintain it, and a page is one script, whose cost does not depend on suspended or ended tasks.
 * In a cluster no script can access both the set and a task: one set holds every task that may be runnable, and a page describes each
 * task and removes those that are not.
 */
class RunnableIndex {
  readonly #deps: RunnableIndexDeps;
  readonly #key: string;

  constructor(deps: RunnableIndexDeps) {
    this.#deps = deps;
    this.#key = runnableKey(deps.prefix);
  }

  /** In a cluster, adds a task that may be runnable. On one server the scripts have added it. */
  async addInCluster(taskId: string): Promise<void> {
    if (isCluster(this.#deps.connection.client)) await this.add(taskId);
  }

  /** Idempotent. */
  async add(taskId: string): Promise<void> {
    await this.#deps.connection.send('zadd', this.#key, 'NX', 0, taskId);
  }

  /** A page from a place on, without tasks that back off beyond `dueBy` (ms since 1970). On one server the task that waits longest is first. */
  async page(from: RunnablePlace, dueBy = Number.POSITIVE_INFINITY): Promise<RunnablePage> {
    return isCluster(this.#deps.connection.client) ? this.#pageOfCluster(from[0]) : this.#pageOfServer(from, dueBy);
  }

  async #pageOfServer(from: RunnablePlace, dueBy: number): Promise<RunnablePage> {
    const { connection, prefix } = this.#deps;
    const most = Number.isFinite(dueBy) ? Math.floor(dueBy) : `${dueBy < 0 ? '-' : '+'}inf`;
    const args = [prefix, ...from, duePageSize, most];
    const [, more, tasks, free, later] = await dueScript.run(connection, [this.#key], args);
    const found = listOf(tasks).map((task) => {
      const [taskId, ...described] = listOf(task);
      return summaryOfAnswer(String(taskId), new ScriptAnswer(described, { taskId: String(taskId) }));
    });
    return { found, next: more === 1 ? [Number(free), Number(later)] : undefined };
  }

  async #pageOfCluster(offset: number): Promise<RunnablePage> {
    const ids = listOf(await this.#deps.connection.send('zrange', this.#key, offset, offset + duePageSize - 1)).map(
      String,
    );
    const summaries = await Promise.all(ids.map((taskId) => this.#runnableTask(taskId)));
    const kept = summaries.filter((summary) => summary !== undefined);
    const found = kept.filter(({ held }) => !held);
    return { found, next: ids.length < duePageSize ? undefined : [offset + kept.length, 0] };
  }

  /** The summary of a runnable task; another one is removed from the set. */
  async #runnableTask(taskId: string): Promise<TaskSummary | undefined> {
    const { describe } = this.#deps;
    const summary = await describe(taskId);
    if (summary && isRunnable(summary.state)) return summary;
    await this.#deps.connection.send('zrem', this.#key, taskId);
    // The task may have been answered, and added, before its entry was removed.
    const now = await describe(taskId);
    if (!now || !isRunnable(now.state)) return undefined;
    await this.addInCluster(taskId);
    return now;
  }
}

/** Reads the answer of `lua/describe-1.lua`. */
function summaryOfAnswer(taskId: string, answer: ScriptAnswer): TaskSummary {
  const [parentTaskId, bytes] = [answer.text(9), answer.text(10)];
  return summaryOf({
    taskId,
    contextId: answer.text(1),
    agentId: answer.text(2),
    parentTaskId: parentTaskId === '' ? undefined : parentTaskId,
    state: stateOf(answer.text(3)),
    seq: answer.int(4),
    createdAt: Number(answer.text(5)),
    updatedAt: Number(answer.text(6)),
    statusAt: Number(answer.text(8)),
    dueAt: answer.int(11),
    held: answer.int(7) === 1,
    bytes: bytes === '' ? undefined : Number(bytes),
  });
}

function stateOf(text: string): TaskState {
  if (isTaskState(text)) return text;
  throw new AgentLoopError(
    'SCHEMA',
    `A task has the state "${text}", which this version does not know; update millrace.`,
  );
}
