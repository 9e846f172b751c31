import { command, type RedisClient } from './redis-client.ts';
import { redisError } from './redis-errors.ts';
import { listOf } from './script-answer.ts';

/** What the index knows of a task. */
export interface IndexedTask {
  readonly taskId: string;
  readonly contextId: string;
}

const sampleEvery = 32;
const sampleSize = 128;

/**
 * Which tasks there are, the newest first: one sorted set of all, one for each context, neither atomic with the journals. Tasks whose
 * time ran out are removed when a list meets them, and by a sample now and then, so that dead entries stay a fraction.
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
    await this.#both(task, (key, member) => this.#send('zadd', key, 'NX', createdAt, member));
  }

  async remove(task: IndexedTask): Promise<void> {
    await this.#both(task, (key, member) => this.#send('zrem', key, member));
  }

  /** A page of tasks, the one created last first; `offset` counts from 0. */
  async page(contextId: string | undefined, offset: number, size: number): Promise<readonly IndexedTask[]> {
    const key = contextId === undefined ? this.#all : this.#ofContext(contextId);
    const members = await this.#send('zrevrange', key, offset, offset + size - 1);
    return listOf(members).map((member) => taskOf(String(member)));
  }

  /** Every 32nd time some tasks by chance, to see whether they are still there; else none. */
  async sample(): Promise<readonly IndexedTask[]> {
    if (++this.#added % sampleEvery !== 0) return [];
    return listOf(await this.#send('zrandmember', this.#all, sampleSize)).map((member) => taskOf(String(member)));
  }

  get #all(): string {
    return `${this.#prefix}:tasks`;
  }

  #ofContext(contextId: string): string {
    return `${this.#prefix}:context:${contextId}`;
  }

  #both(task: IndexedTask, send: (key: string, member: string) => Promise<unknown>): Promise<unknown> {
    // Task ids hold no blank.
    const member = `${task.taskId} ${task.contextId}`;
    return Promise.all([send(this.#all, member), send(this.#ofContext(task.contextId), member)]);
  }

  async #send(name: string, ...args: readonly (string | number)[]): Promise<unknown> {
    try {
      return await command(this.#client, name, ...args);
    } catch (thrown) {
      throw redisError(thrown);
    }
  }
}

function taskOf(member: string): IndexedTask {
  const blank = member.indexOf(' ');
  return { taskId: member.slice(0, blank), contextId: member.slice(blank + 1) };
}
