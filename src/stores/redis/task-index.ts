import type { TaskQuery } from '../../core/contracts/index.ts';
import { groupOf } from '../context-group.ts';
import type { RedisClient } from './redis-client.ts';
import { listOf } from './script-answer.ts';
import { sendCommand } from './send-command.ts';

/** What the index knows of a task. */
export interface IndexedTask {
  readonly taskId: string;
  readonly contextId: string;
  /** Absent for a turn that no other turn started. */
  readonly parentTaskId?: string;
}

/** A part of the index, and where in it a page begins. */
export interface IndexPage extends Pick<TaskQuery, 'contextId' | 'parentTaskId' | 'byStatus'> {
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
