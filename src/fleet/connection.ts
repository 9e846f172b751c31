import type * as bullmq from 'bullmq';
import type { Cluster, Redis } from 'ioredis';
import { AgentLoopError, invalidConfig, shownValue, systemClock } from '../core/contracts/index.ts';
import { onAbort, within } from '../core/streams/index.ts';
import { installedPackage } from '../stores/load-package.ts';
import {
  assertRedisTarget,
  isCluster,
  openClient,
  type RedisTarget,
  saidBy,
} from '../stores/redis/redis-connection.ts';

/** The server of the jobs: Redis, or, experimentally, BullMQ's tables in PostgreSQL. */
export type QueueConnection = RedisTarget | { readonly postgres: string };

type Bullmq = typeof bullmq;
/** The methods of a queue that a fleet uses, on either server. */
export type JobQueue = Pick<
  bullmq.Queue,
  | 'add'
  | 'close'
  | 'getFailed'
  | 'getJobCountByTypes'
  | 'getJobCounts'
  | 'getJobs'
  | 'removeGlobalConcurrency'
  | 'removeGlobalRateLimit'
  | 'removeJobScheduler'
  | 'setGlobalConcurrency'
  | 'setGlobalRateLimit'
  | 'toKey'
  | 'upsertJobScheduler'
>;
export type JobWorker = Pick<bullmq.Worker, 'close' | 'pause' | 'run'>;

interface JobWorkerOptions
  extends Pick<
    bullmq.WorkerOptions,
    'name' | 'concurrency' | 'lockDuration' | 'stalledInterval' | 'maxStalledCount' | 'autorun'
  > {
  readonly process: (job: bullmq.Job, token: string | undefined) => Promise<void>;
  readonly onError: (error: Error) => void;
  readonly onLocksLost: (jobIds: readonly string[]) => void;
}

/** The data of a job: everything else is in the journal. Only the job of a schedule contains its template. */
export interface TurnJob {
  readonly taskId: string;
}

const answerWithinMs = 10_000;

/** Opens BullMQ's queues and workers of one name: their keys share a hash slot of a cluster. The constructor loads BullMQ. */
export class QueueConnections {
  readonly bullmq: Bullmq;
  /** Absent in PostgreSQL. */
  readonly redis: Redis | Cluster | undefined;
  readonly #open: ReturnType<typeof openClient> | undefined;
  readonly #postgres: string | undefined;
  readonly #prefix: string;
  readonly #queues = new Map<string, JobQueue>();
  /** For workers, which wait for Redis without a limit. */
  #patient: Redis | Cluster | undefined;
  readonly #closed = new AbortController();

  /** Errors: `INVALID_CONFIG`, `MISSING_PACKAGE`. */
  constructor(connection: QueueConnection, name: string) {
    this.#prefix = `{${name}}`;
    this.#postgres = postgresOf(connection);
    if (this.#postgres === undefined) {
      assertRedisTarget(connection);
      this.#open = openClient(connection);
      this.redis = this.#open.client;
    }
    this.bullmq = loadBullmq();
  }

  /** The queue of an agent. */
  queueOf(agentId: string): JobQueue {
    const known = this.#queues.get(agentId);
    if (known) return known;
    const queue = this.#newQueue(queueName(agentId));
    this.#queues.set(agentId, queue);
    return queue;
  }

  get agentIds(): Iterable<string> {
    return this.#queues.keys();
  }

  /** Creates a worker for an agent, without running it. */
  workerOf(agentId: string, { process, onError, onLocksLost, ...options }: JobWorkerOptions): JobWorker {
    const { Worker, createPostgresBackend } = this.bullmq;
    const name = queueName(agentId);
    const postgres = this.#inPostgres;
    if (postgres) {
      const made = new Worker(name, process, { ...options, ...postgres }, createPostgresBackend);
      made.on('error', onError);
      made.on('lockRenewalFailed', onLocksLost);
      return made;
    }
    this.#patient ??= patientClient(this.redis, this.#closed.signal);
    const made = new Worker(name, process, { ...options, connection: this.#patient, prefix: this.#prefix });
    made.on('error', onError);
    made.on('lockRenewalFailed', onLocksLost);
    return made;
  }

  /** A key of the fleet, beside BullMQ's. */
  key(...parts: readonly string[]): string {
    return [this.#prefix, 'fleet', ...parts].join(':');
  }

  /** Calls the queue with a time limit. Errors: `UNAVAILABLE`. */
  async ask<T>(ask: () => Promise<T>): Promise<T> {
    if (this.#closed.signal.aborted) throw unavailable('The queue was closed; create a new one.');
    const { signal } = this.#closed;
    const late = () => unavailable(`The queue did not answer within ${answerWithinMs} ms; is its server running?`);
    try {
      return await within({ ms: answerWithinMs, clock: systemClock, signal, late }, ask);
    } catch (error) {
      if (AgentLoopError.isInstance(error)) throw error;
      if (signal.aborted) throw unavailable('The queue was closed before it answered.');
      throw unavailable(
        `The queue failed: ${saidBy(error)}; check its address and password, and that its server runs.`,
        error,
      );
    }
  }

  /** Whether the server of the queues responds within the time limit. Never rejects. */
  async answers(): Promise<boolean> {
    const [queue] = this.#queues.values();
    if (queue === undefined) return true;
    return this.ask(() => queue.getJobCounts('wait')).then(
      () => true,
      () => false,
    );
  }

  /** Closes its connections; close workers before. */
  async close(): Promise<void> {
    await Promise.allSettled([...this.#queues.values()].map((queue) => queue.close()));
    this.#queues.clear();
    this.#closed.abort();
    if (!this.#open?.own) return;
    const { client } = this.#open;
    if (client.status === 'ready') await client.quit().catch(() => {});
    client.disconnect();
  }

  #newQueue(name: string): JobQueue {
    const { Queue, createPostgresBackend } = this.bullmq;
    const postgres = this.#inPostgres;
    // Errors reach the callers; an `error` event without a listener would end the process.
    const ignore = () => {};
    if (postgres) {
      const made = new Queue(name, postgres, createPostgresBackend);
      made.on('error', ignore);
      return made;
    }
    if (!this.redis)
      throw new AgentLoopError('INTERNAL', 'Internal: the queue has neither a Redis client nor a PostgreSQL address.');
    const made = new Queue(name, { connection: this.redis, prefix: this.#prefix });
    made.on('error', ignore);
    return made;
  }

  get #inPostgres() {
    const connectionString = this.#postgres;
    return connectionString === undefined
      ? undefined
      : { connection: { connectionString, migrate: true }, prefix: this.#prefix };
  }
}

/** BullMQ does not allow a colon in the names of queues. */
function queueName(agentId: string): string {
  return encodeURIComponent(agentId);
}

function postgresOf(connection: QueueConnection): string | undefined {
  if (typeof connection !== 'object' || connection === null || !('postgres' in connection)) return undefined;
  const { postgres } = connection;
  if (typeof postgres === 'string' && /^postgres(ql)?:\/\//.test(postgres)) return postgres;
  throw invalidConfig(`connection.postgres is ${shownValue(postgres)}`, 'give a URL that begins with postgres://');
}

function patientClient(client: Redis | Cluster | undefined, closed: AbortSignal): Redis | Cluster {
  if (client === undefined)
    throw new AgentLoopError('INTERNAL', 'Internal: the queue has neither a Redis client nor a PostgreSQL address.');
  // BullMQ duplicates this client, and drops a duplicate whose server is down when the worker is closed: it would retry forever.
  const retryStrategy = (times: number) => (closed.aborted ? null : Math.min(50 * 2 ** (times - 1), 2_000));
  // A worker waits up to ten seconds for a job: silence does not mean a lost connection.
  const patient = { maxRetriesPerRequest: null, socketTimeout: 30_000, lazyConnect: false };
  const copy = isCluster(client)
    ? client.duplicate([], { redisOptions: patient, clusterRetryStrategy: retryStrategy })
    : client.duplicate({ ...patient, retryStrategy });
  return closedWith(closed, copy);
}

/**
 * Disconnects a client and its duplicates for good: BullMQ keeps a duplicate for each worker, and a worker that is closed while it pauses leaves its
 * duplicate connected.
 */
function closedWith<C extends Redis | Cluster>(closed: AbortSignal, client: C): C {
  const leave = () => client.disconnect();
  onAbort(closed, leave);
  client.on('error', () => {});
  client.on('connect', () => {
    if (closed.aborted) leave();
  });
  const { duplicate } = client;
  const owned = (...args: unknown[]) => closedWith(closed, Reflect.apply(duplicate, client, args));
  return Object.assign(client, { duplicate: owned });
}

function loadBullmq(): Bullmq {
  try {
    return require('bullmq');
  } catch {
    return installedPackage('bullmq');
  }
}

function unavailable(message: string, cause?: unknown): AgentLoopError {
  return new AgentLoopError('UNAVAILABLE', message, { retryable: true, cause });
}
