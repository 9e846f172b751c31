import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll } from '@jest/globals';
import { AgentLoopError } from 'millrace';
import { Owner, startRecord } from 'millrace/internals';
import { RedisStateStore, type RedisStateStoreOptions } from 'millrace/redis';
import type { Lease } from 'millrace/types';
import { eventually } from '../../eventually.ts';
import { type RedisProcess, type RedisProcessOptions, startRedis } from './redis-process.ts';

export interface HeldTask {
  readonly taskId: string;
  readonly owner: Owner;
}

/** One server for all tests of a file, and stores on it that are closed after each. */
export class RedisBench {
  readonly #stores: RedisStateStore[] = [];
  #server: RedisProcess | undefined;

  constructor(options: RedisProcessOptions = {}) {
    beforeAll(async () => {
      this.#server = await startRedis(options);
    });
    afterEach(async () => {
      await Promise.all(this.#stores.splice(0).map((store) => store.close()));
    });
    afterAll(() => this.#server?.remove());
  }

  get server(): RedisProcess {
    if (this.#server === undefined) throw new Error('The server is not up yet.');
    return this.#server;
  }

  open(options: Partial<RedisStateStoreOptions> = {}): RedisStateStore {
    const store = new RedisStateStore({ redis: this.server.url, ...options });
    this.#stores.push(store);
    return store;
  }

  untilReplicas(count: number): Promise<void> {
    return untilReplicas(this.server, count);
  }

  /** The name of a key of a task. */
  key(taskId: string, letter: 'h' | 'j' | 'b' | 'c' | 'd' | 'i'): string {
    return `millrace:{${taskId}}:${letter}`;
  }
}

/** A new task, and the lease on it. */
export async function beginHeld(store: RedisStateStore, leaseMs = 30_000): Promise<HeldTask> {
  const taskId = `task-${randomUUID()}`;
  await store.create(taskId, startRecord(taskId));
  const lease: Lease = await store.acquire(taskId, 'owner-a', leaseMs);
  return { taskId, owner: new Owner(store, lease) };
}

/** Waits until so many replicas have caught up with a primary. */
export async function untilReplicas(primary: RedisProcess, count: number): Promise<void> {
  await eventually(() => (primary.cli('INFO', 'replication').match(/state=online/g)?.length ?? 0) >= count);
}

/** Sends again for as long as the connection is not back. */
export async function sentUntilAnswered<T>(send: () => Promise<T>): Promise<T> {
  let answer: Promise<T> | undefined;
  await eventually(async () => {
    answer = send();
    return answer.then(
      () => true,
      (error: unknown) => {
        if (!AgentLoopError.isInstance(error) || !error.retryable) throw error;
        return false;
      },
    );
  });
  if (answer === undefined) throw new Error('nothing was sent');
  return answer;
}
