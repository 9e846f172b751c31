import { AgentLoopError, type TaskQuery, type TaskState, type TaskSummary } from '../../core/contracts/index.ts';
import { byStatusOfSummaries, fits, groupOf, isRunnable, summaryOf } from '../task-summary.ts';
import { evaluate, listOf, luaScript, runnableKey, ScriptAnswer, type ScriptRunner, taskKeys } from './lua-scripts.ts';
import { isCluster, type RedisClient, sendCommand } from './redis-connection.ts';

interface TaskListDeps {
  readonly client: RedisClient;
  readonly index: TaskIndex;
  readonly scripts: ScriptRunner;
  readonly prefix: string;
}

const listPageSize = 100;

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
      const page = await this.#deps.index.page({ ...query, offset, size: listPageSize });
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

interface RunnableIndexDeps {
  readonly client: RedisClient;
  readonly prefix: string;
  readonly tasks: TaskIndex;
  /** What the head of a task says; undefined where it is gone. */
  describe(taskId: string): Promise<TaskSummary | undefined>;
}

interface RunnablePage {
  readonly found: readonly TaskSummary[];
  /** Where the next page begins; undefined at the end. */
  readonly next: number | undefined;
}

const duePageSize = 100;

/**
 * Which tasks anybody may take: those that were created, answered or given back, and those whose owner let its lease run out. One sorted
 * set, by the time from which on a task may be taken.
 *
 * On one server the scripts of the state store keep it, and a page is one script: its cost is that of what it finds, however many tasks
 * are suspended or have ended. In a cluster, where no script can reach both the set and a task, it holds every task that may be runnable;
 * a page looks at each of those and drops what is not.
 */
class RunnableIndex {
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
    const [, more, tasks] = await evaluate(client, { script, keys: [this.#key], args: [prefix, offset, duePageSize] });
    const found = listOf(tasks).map((task) => {
      const [taskId, ...described] = listOf(task);
      return summaryOfAnswer(String(taskId), new ScriptAnswer(described, { taskId: String(taskId) }));
    });
    return { found, next: more === 1 ? offset + found.length : undefined };
  }

  async #lookedAt(offset: number): Promise<RunnablePage> {
    const ids = listOf(await this.#send('zrange', this.#key, offset, offset + duePageSize - 1)).map(String);
    const states = await Promise.all(ids.map((taskId) => this.#stateOf(taskId)));
    const kept = states.filter((state) => state !== undefined);
    const next = ids.length < duePageSize ? undefined : offset + kept.length;
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
    for (let offset = 0; ; offset += duePageSize) {
      const page = await tasks.page({ offset, size: duePageSize });
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

/** What the index knows of a task. */
export interface IndexedTask {
  readonly taskId: string;
  readonly contextId: string;
  /** Absent for a turn that no other turn started. */
  readonly parentTaskId?: string;
}

/** A part of the index, and where in it a page begins. */
interface IndexPage extends Pick<TaskQuery, 'contextId' | 'parentTaskId' | 'byStatus'> {
  /** From 0. */
  readonly offset: number;
  readonly size: number;
}

const sampleEvery = 32;

const sampleSize = 128;

/**
 * Which tasks there are, the newest first: one sorted set of all, one for each context and for the child turns of each turn, and one by the
 * time of the status for each group of contexts, none atomic with the journals. Tasks whose time ran out are removed when a list meets them, and by a sample now and then, so
 * that dead entries stay a fraction.
 */
export class TaskIndex {
  readonly #client: RedisClient;
  readonly #prefix: string;
  #added = 0;

  constructor(client: RedisClient, prefix: string) {
    this.#client = client;
    this.#prefix = prefix;
  }

  /** Again for the same task does nothing. */
  async add(task: IndexedTask, createdAt: number): Promise<void> {
    await Promise.all([
      this.#each(task, (key, member) => this.#send('zadd', key, 'NX', createdAt, member)),
      this.tell(task, createdAt),
    ]);
  }

  /** Sets the time of a task's last status; an earlier time changes nothing. Does nothing for a context without a group. */
  async tell(task: IndexedTask, statusAt: number): Promise<void> {
    const group = groupOf(task.contextId);
    if (group !== undefined) await this.#send('zadd', this.#ofGroup(group), 'GT', statusAt, memberOf(task));
  }

  async remove(task: IndexedTask): Promise<void> {
    const group = groupOf(task.contextId);
    await Promise.all([
      this.#each(task, (key, member) => this.#send('zrem', key, member)),
      group === undefined ? undefined : this.#send('zrem', this.#ofGroup(group), memberOf(task)),
    ]);
  }

  /** A page of tasks, newest first; of a group, most recent status first. */
  async page({ contextId, parentTaskId, byStatus, offset, size }: IndexPage): Promise<readonly IndexedTask[]> {
    if (byStatus === undefined) {
      const ofContext = contextId === undefined ? this.#all : this.#ofContext(contextId);
      const key = parentTaskId === undefined ? ofContext : this.#ofParent(parentTaskId);
      return tasksOf(await this.#send('zrevrange', key, offset, offset + size - 1));
    }
    const { group, after, since } = byStatus;
    const newest = after ? Date.parse(after.statusAt) : '+inf';
    const oldest = since === undefined ? '-inf' : Date.parse(since);
    const key = this.#ofGroup(group);
    return tasksOf(await this.#send('zrevrangebyscore', key, newest, oldest, 'LIMIT', offset, size));
  }

  /** Every 32nd time some tasks by chance, to see whether they are still there; else none. */
  async sample(): Promise<readonly IndexedTask[]> {
    if (++this.#added % sampleEvery !== 0) return [];
    return tasksOf(await this.#send('zrandmember', this.#all, sampleSize));
  }

  get #all(): string {
    return `${this.#prefix}:tasks`;
  }

  #ofContext(contextId: string): string {
    return `${this.#prefix}:context:${contextId}`;
  }

  #ofParent(parentTaskId: string): string {
    return `${this.#prefix}:children:${parentTaskId}`;
  }

  #ofGroup(group: string): string {
    return `${this.#prefix}:group:${group}`;
  }

  #each(task: IndexedTask, send: (key: string, member: string) => Promise<unknown>): Promise<unknown> {
    const { contextId, parentTaskId } = task;
    const keys = [this.#all, this.#ofContext(contextId)];
    if (parentTaskId !== undefined) keys.push(this.#ofParent(parentTaskId));
    const member = memberOf(task);
    return Promise.all(keys.map((key) => send(key, member)));
  }

  #send(name: string, ...args: readonly (string | number)[]): Promise<unknown> {
    return sendCommand(this.#client, name, ...args);
  }
}

function tasksOf(members: unknown): readonly IndexedTask[] {
  return listOf(members).map((member) => taskOf(String(member)));
}

/** Task ids hold neither a blank nor the sign. */
function memberOf({ taskId, contextId, parentTaskId }: IndexedTask): string {
  return `${taskId}${parentTaskId === undefined ? '' : `<${parentTaskId}`} ${contextId}`;
}

function taskOf(member: string): IndexedTask {
  const blank = member.indexOf(' ');
  const [taskId = '', parentTaskId] = member.slice(0, blank).split('<');
  return { taskId, contextId: member.slice(blank + 1), ...(parentTaskId !== undefined && { parentTaskId }) };
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
    held: answer.int(7) === 1,
    bytes: bytes === '' ? undefined : Number(bytes),
  });
}

const states: Readonly<Record<TaskState, true>> = {
  submitted: true,
  working: true,
  'input-required': true,
  'auth-required': true,
  completed: true,
  failed: true,
  canceled: true,
  rejected: true,
};

function stateOf(text: string): TaskState {
  if (isState(text)) return text;
  throw new AgentLoopError(
    'SCHEMA',
    `A task has the state "${text}", which this version does not know; update millrace.`,
  );
}

function isState(text: string): text is TaskState {
  return Object.hasOwn(states, text);
}
