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

/** Summaries of tasks, found through the index. Entries of deleted tasks are removed from the index on the way. */
export class TaskList {
  readonly #deps: TaskListDeps;
  readonly runnable: RunnableIndex;
  #complete: Promise<void> | undefined;

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
    if (query.byStatus !== undefined) await this.#mend(found);
    return found.slice(0, limit);
  }

  /**
   * Reads the index of the group, in its order, and that of the state alternately: the one that ends first has all tasks, so the cost is that of
   * the shorter one, or of the group's entries before `limit` tasks are found.
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
    await this.#mend(inOrder);
    return inOrder.slice(0, limit);
  }

  /** What a query asks for, page by page of its index: of that of the state, where nothing but the state is asked for. */
  async *#pages(query: TaskQuery): AsyncGenerator<readonly TaskSummary[], undefined> {
    const { limit = 50 } = query;
    const isOfState = query.contextId === undefined && query.parentTaskId === undefined && query.byStatus === undefined;
    const state = isOfState ? query.state : undefined;
    if (state !== undefined) await this.#withOlder();
    const after = await this.#after(query);
    const start = after ? await this.#deps.index.before({ ...query, state }, after, Date.parse(after.createdAt)) : 0;
    for (let offset = start; limit > 0; ) {
      // The first page has what the caller asks for; where that was not enough, later pages are whole ones. Child turns cost nothing.
      const size = offset === start && !query.roots ? Math.min(Math.ceil(limit), listPageSize) : listPageSize;
      const page = await this.#deps.index.page({ ...query, state, offset, size });
      // Those that are gone were removed from the index, so the next page begins earlier.
      const wanted = query.roots ? page.filter(({ parentTaskId }) => parentTaskId === undefined) : page;
      const summaries = await this.#summaries(wanted, state);
      offset += page.length - (wanted.length - summaries.length);
      yield summaries.filter((summary) => fits(query, summary) && !(after && isNotAfter(summary, after)));
      if (page.length < size) return;
    }
  }

  /** The task before the page. Errors: `NOT_FOUND`. */
  async #after({ afterTaskId }: TaskQuery): Promise<TaskSummary | undefined> {
    if (afterTaskId === undefined) return undefined;
    const task = await this.describe(afterTaskId);
    if (task) return task;
    throw notFound(afterTaskId);
  }

  async #listRunnable(query: TaskQuery, limit: number): Promise<readonly TaskSummary[]> {
    await this.#withOlder();
    const found: TaskSummary[] = [];
    for (let from: RunnablePlace | undefined = [0, 0]; from !== undefined && found.length < limit; ) {
      const page: RunnablePage = await this.runnable.page(from, query.dueBy);
      found.push(...page.found.filter((summary) => fits(query, summary)));
      from = page.next;
    }
    if (query.byStatus !== undefined) found.sort(byStatusOfSummaries);
    return found.slice(0, limit);
  }

  /** Sorts tasks of a group: one whose index misses its last status is at its old position. */
  async #mend(found: TaskSummary[]): Promise<void> {
    const before = [...found];
    found.sort(byStatusOfSummaries);
    const moved = found.filter((summary, index) => summary !== before[index]);
    await Promise.all(moved.map((task) => this.#deps.index.tell(task, Date.parse(task.statusAt))));
  }

  /** Called once for each new task: sometimes checks whether some tasks of the index still exist. */
  async sweep(): Promise<void> {
    await this.#summaries(await this.#deps.index.sample());
  }

  /** `state`: whose index names the tasks. */
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
    // It may have come back to the state before it was removed.
    const now = await this.describe(task.taskId);
    if (now?.state !== state) return undefined;
    await index.enter(task, state, Date.parse(now.createdAt));
    return now;
  }

  /** Once for a prefix: adds the tasks that a version without indexes of states and of runnable tasks created. */
  async #withOlder(): Promise<void> {
    this.#complete ??= this.#addOlder();
    try {
      await this.#complete;
    } catch (error) {
      this.#complete = undefined;
      throw error;
    }
  }

  async #addOlder(): Promise<void> {
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

/** Whether a task is the other one or comes before it: of one time the last member of the index is the first. */
function isNotAfter(task: TaskSummary, other: TaskSummary): boolean {
  return task.createdAt === other.createdAt && memberOf(task) >= memberOf(other);
}

interface RunnableIndexDeps {
  readonly connection: RedisConnection;
  readonly prefix: string;
  /** What the head of a task says; undefined where it is gone. */
  describe(taskId: string): Promise<TaskSummary | undefined>;
}

/** What earlier pages had: of the tasks that may be taken, and of those that back off. In a cluster they are in one set. */
type RunnablePlace = readonly [number, number];

interface RunnablePage {
  readonly found: readonly TaskSummary[];
  /** Where the next page begins; undefined at the end. */
  readonly next: RunnablePlace | undefined;
}

const dueScript = new LuaScript('due-1', { flags: 'allow-oom' });
const duePageSize = 100;

/**
 * Which tasks anybody may take: those that were created, answered or given back, and those whose owner let its lease run out. A sorted
 * set, by the time from which on a task may be taken, and a second one of those that back off, by the time until which they do.
 *
 * On one server the scripts of the state store keep it, and a page is one script: its cost is that of what it finds, however many tasks
 * are suspended or have ended. In a cluster, where no script can reach both the set and a task, one set holds every task that may be runnable;
 * a page looks at each of those and drops what is not.
 */
class RunnableIndex {
  readonly #deps: RunnableIndexDeps;
  readonly #key: string;

  constructor(deps: RunnableIndexDeps) {
    this.#deps = deps;
    this.#key = runnableKey(deps.prefix);
  }

  /** In a cluster: says that a task may be runnable. Elsewhere the scripts have said it. */
  async tell(taskId: string): Promise<void> {
    if (isCluster(this.#deps.connection.client)) await this.add(taskId);
  }

  /** Of a task that stands in it already it changes nothing. */
  async add(taskId: string): Promise<void> {
    await this.#deps.connection.send('zadd', this.#key, 'NX', 0, taskId);
  }

  /** The tasks from a place on, that back off until `dueBy` at most; of one server the one that waits longest first. */
  async page(from: RunnablePlace, dueBy = Number.POSITIVE_INFINITY): Promise<RunnablePage> {
    return isCluster(this.#deps.connection.client) ? this.#lookedAt(from[0]) : this.#scripted(from, dueBy);
  }

  async #scripted(from: RunnablePlace, dueBy: number): Promise<RunnablePage> {
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

  async #lookedAt(offset: number): Promise<RunnablePage> {
    const ids = listOf(await this.#deps.connection.send('zrange', this.#key, offset, offset + duePageSize - 1)).map(
      String,
    );
    const states = await Promise.all(ids.map((taskId) => this.#stateOf(taskId)));
    const kept = states.filter((state) => state !== undefined);
    const found = kept.filter(({ held }) => !held);
    return { found, next: ids.length < duePageSize ? undefined : [offset + kept.length, 0] };
  }

  async #stateOf(taskId: string): Promise<TaskSummary | undefined> {
    const { describe } = this.#deps;
    const summary = await describe(taskId);
    if (summary && isRunnable(summary.state)) return summary;
    await this.#deps.connection.send('zrem', this.#key, taskId);
    // It may have been answered before it was removed, and told before that.
    const now = await describe(taskId);
    if (!now || !isRunnable(now.state)) return undefined;
    await this.tell(taskId);
    return now;
  }
}

/** What `lua/describe-1.lua` gives of a task. */
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
