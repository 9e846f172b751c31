import { type TaskQuery, type TaskState, taskStates } from '../../core/contracts/index.ts';
import { groupOf } from '../task-summary.ts';
import { listOf } from './lua-scripts.ts';
import type { RedisConnection } from './redis-connection.ts';

/*
 * Indexes of tasks, contexts and artifacts: sorted sets that are not updated atomically with what they name. Entries of what has expired are
 * removed when a list meets them, and by random samples, so that they stay a fraction.
 */

const sampleEvery = 32;
const sampleSize = 128;

/** Returns random members of a set at every 32nd call, to check whether they still exist; else none. */
class Sample {
  readonly #connection: RedisConnection;
  readonly #key: string;
  #calls = 0;

  constructor(connection: RedisConnection, key: string) {
    this.#connection = connection;
    this.#key = key;
  }

  async next(): Promise<readonly string[]> {
    if (++this.#calls % sampleEvery !== 0) return [];
    return listOf(await this.#connection.send('zrandmember', this.#key, sampleSize)).map(String);
  }
}

/** Contexts or artifacts, in the order of their ids: one sorted set. */
export class IdIndex {
  readonly #connection: RedisConnection;
  readonly #key: string;
  readonly #sample: Sample;

  constructor(connection: RedisConnection, key: string) {
    this.#connection = connection;
    this.#key = key;
    this.#sample = new Sample(connection, key);
  }

  async add(id: string): Promise<void> {
    await this.#connection.send('zadd', this.#key, 0, id);
  }

  async remove(id: string): Promise<void> {
    await this.#connection.send('zrem', this.#key, id);
  }

  /** The ids after one, at most `size`. */
  async page(after: string, size: number): Promise<readonly string[]> {
    const start = after === '' ? '-' : `(${after}`;
    return listOf(await this.#connection.send('zrangebylex', this.#key, start, '+', 'LIMIT', 0, size)).map(String);
  }

  /** Called once for each new one. */
  sample(): Promise<readonly string[]> {
    return this.#sample.next();
  }
}

/** The data of a task in the index. */
export interface IndexedTask {
  readonly taskId: string;
  readonly contextId: string;
  /** Absent for a root turn. */
  readonly parentTaskId?: string;
}

/** A part of the index, and the start of a page in it. */
interface IndexPage extends Pick<TaskQuery, 'state' | 'contextId' | 'parentTaskId' | 'byStatus'> {
  /** From 0. */
  readonly offset: number;
  readonly size: number;
}

/**
 * Tasks, the newest first: sorted sets of all tasks, of each context, of each state, of the child turns of each turn, and, by the time of
 * the status, of each group of contexts. On one server the scripts of the state store maintain those of the states.
 */
export class TaskIndex {
  readonly #connection: RedisConnection;
  readonly #prefix: string;
  readonly #sample: Sample;

  constructor(connection: RedisConnection, prefix: string) {
    this.#connection = connection;
    this.#prefix = prefix;
    this.#sample = new Sample(connection, this.#all);
  }

  /** Idempotent. */
  async add(task: IndexedTask, createdAt: number): Promise<void> {
    await Promise.all([
      this.#each(task, (key, member) => this.#connection.send('zadd', key, 'NX', createdAt, member)),
      this.setStatusTime(task, createdAt),
    ]);
  }

  /** Sets the time of a task's last status; an earlier time changes nothing. Does nothing for a context without a group. */
  async setStatusTime(task: IndexedTask, statusAt: number): Promise<void> {
    const group = groupOf(task.contextId);
    if (group !== undefined) await this.#connection.send('zadd', this.#ofGroup(group), 'GT', statusAt, memberOf(task));
  }

  /** Lists a task under its state; idempotent. */
  async enter(task: IndexedTask, state: TaskState, createdAt: number): Promise<void> {
    await this.#connection.send('zadd', this.#ofState(state), 'NX', createdAt, memberOf(task));
  }

  async leave(task: IndexedTask, state: TaskState): Promise<void> {
    await this.#connection.send('zrem', this.#ofState(state), memberOf(task));
  }

  async remove(task: IndexedTask): Promise<void> {
    const group = groupOf(task.contextId);
    await Promise.all([
      ...taskStates.map((state) => this.leave(task, state)),
      this.#each(task, (key, member) => this.#connection.send('zrem', key, member)),
      group === undefined ? undefined : this.#connection.send('zrem', this.#ofGroup(group), memberOf(task)),
    ]);
  }

  /** A page of tasks, newest first; of a group, most recent status first. */
  async page({ state, contextId, parentTaskId, byStatus, offset, size }: IndexPage): Promise<readonly IndexedTask[]> {
    if (byStatus === undefined) {
      const key = this.#keyOf({ state, contextId, parentTaskId });
      return tasksOf(await this.#connection.send('zrevrange', key, offset, offset + size - 1));
    }
    const { group, after, since } = byStatus;
    const newest = after ? Date.parse(after.statusAt) : '+inf';
    const oldest = since === undefined ? '-inf' : Date.parse(since);
    const key = this.#ofGroup(group);
    return tasksOf(await this.#connection.send('zrevrangebyscore', key, newest, oldest, 'LIMIT', offset, size));
  }

  /** The number of tasks before a task, itself included, in a part of the index; if it is not in it, the number of newer tasks. */
  async before(part: Omit<IndexPage, 'offset' | 'size'>, task: IndexedTask, createdAt: number): Promise<number> {
    const key = this.#keyOf(part);
    const rank = await this.#connection.send('zrevrank', key, memberOf(task));
    if (rank !== null) return Number(rank) + 1;
    return Number(await this.#connection.send('zcount', key, `(${createdAt}`, '+inf'));
  }

  #keyOf({ state, contextId, parentTaskId }: Pick<IndexPage, 'state' | 'contextId' | 'parentTaskId'>): string {
    const ofAll = state === undefined ? this.#all : this.#ofState(state);
    const ofContext = contextId === undefined ? ofAll : this.#ofContext(contextId);
    return parentTaskId === undefined ? ofContext : this.#ofParent(parentTaskId);
  }

  /** Called once for each new task. */
  async sample(): Promise<readonly IndexedTask[]> {
    return (await this.#sample.next()).map(taskOf);
  }

  get #all(): string {
    return `${this.#prefix}:tasks`;
  }

  #ofState(state: TaskState): string {
    return `${this.#prefix}:state:${state}`;
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
}

function tasksOf(members: unknown): readonly IndexedTask[] {
  return listOf(members).map(String).map(taskOf);
}

/** Task ids contain neither a space nor `<`. */
export function memberOf({ taskId, contextId, parentTaskId }: IndexedTask): string {
  return `${taskId}${parentTaskId === undefined ? '' : `<${parentTaskId}`} ${contextId}`;
}

function taskOf(member: string): IndexedTask {
  const blank = member.indexOf(' ');
  const [taskId = '', parentTaskId] = member.slice(0, blank).split('<');
  return { taskId, contextId: member.slice(blank + 1), ...(parentTaskId !== undefined && { parentTaskId }) };
}
