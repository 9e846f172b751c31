import type { Cluster, Redis, RedisOptions } from 'ioredis';
import { AgentLoopError, messageOf, shownValue } from '../../core/contracts/index.ts';
import { installedPackage } from '../load-package.ts';

/** A client of ioredis: of one server, of Sentinel's primary, or of a cluster. */
export type RedisClient = Redis | Cluster;

/** A connection target: a URL, options of ioredis (including Sentinel's), or an existing client. */
export type RedisTarget = string | Omit<RedisOptions, 'replyMapping'> | RedisClient;

/** A URL with another protocol, which ioredis would still connect to as Redis. */
const otherProtocol = /^(?!rediss?:)[a-z][a-z0-9+.-]*:\/\//i;

/** Refuses an invalid target: `INVALID_CONFIG`. ioredis would connect to the local server by default. */
export function assertRedisTarget(redis: unknown): asserts redis is RedisTarget {
  if (typeof redis === 'string' && otherProtocol.test(redis)) {
    const scheme = redis.slice(0, redis.indexOf(':'));
    throw invalidTarget(`a URL of the protocol "${scheme}"; give one that begins with redis:// or rediss://.`);
  }
  if ((typeof redis === 'string' && redis !== '') || (typeof redis === 'object' && redis !== null)) return;
  throw invalidTarget(`${shownValue(redis)}; give a URL, options of ioredis, or a client of it.`);
}

function invalidTarget(what: string): AgentLoopError {
  return new AgentLoopError('INVALID_CONFIG', `redis is ${what}`);
}

interface OpenClient {
  readonly client: RedisClient;
  /** Whether the store created it and must close it. */
  readonly own: boolean;
}

interface OpenOptions {
  /**
   * How long Redis may send nothing while responses are pending before the connection counts as lost: a stopped server, a network
   * that drops packets. Then it reconnects, as after any loss. Milliseconds; default 5,000.
   */
  readonly silenceMs?: number;
}

/** How long our own client waits for a response by default. */
export const defaultSilenceMs = 5_000;

/** Connects lazily, at the first command. ioredis is loaded only here, so that what merely knows the store does not load it. */
export function openClient(target: RedisTarget, { silenceMs = defaultSilenceMs }: OpenOptions = {}): OpenClient {
  if (isClient(target)) return { client: withoutKeyPrefix(target), own: false };
  const { Redis: Client } = loadIoredis();
  const options = { ...ownOptions, socketTimeout: silenceMs, sentinelCommandTimeout: silenceMs };
  const client =
    typeof target === 'string' ? new Client(target, options) : new Client({ ...options, ...target, lazyConnect: true });
  // Errors reach the callers of commands; ioredis prints errors without a listener.
  client.on('error', () => {});
  return { client: withoutKeyPrefix(client), own: true };
}

function loadIoredis(): typeof import('ioredis') {
  try {
    return require('ioredis');
  } catch {
    return installedPackage('ioredis');
  }
}

export function isCluster(client: RedisClient): client is Cluster {
  return client.isCluster;
}

/** What commands take. */
export type CommandArgument = string | number | Buffer;

/**
 * Sends one command on any client. In a cluster it goes to the node of its first key. Commands within one tick of this process, including its
 * microtasks, are written to the socket at once: a write costs several times as much as a command.
 */
export function command(client: RedisClient, name: string, ...args: readonly CommandArgument[]): Promise<unknown> {
  if (!isCluster(client)) holdWrites(client);
  return isCluster(client) ? client.call(name, ...args) : client.call(name, ...args);
}

/** The same for binary replies. */
export function bytesCommand(client: RedisClient, name: string, ...args: readonly CommandArgument[]): Promise<unknown> {
  return isCluster(client) ? client.callBuffer(name, ...args) : client.callBuffer(name, ...args);
}

/** Sockets that collect writes. */
const held = new WeakSet<object>();

function holdWrites({ stream }: Redis): void {
  if (!stream?.writable || held.has(stream)) return;
  held.add(stream);
  stream.cork();
  process.nextTick(() => {
    held.delete(stream);
    stream.uncork();
  });
}

/** How long ioredis waits for a socket to close; it waits that long even for a closed one. */
export const disconnectTimeout = 100;

const ownOptions = {
  lazyConnect: true,
  disconnectTimeout,
  // Two reconnects, then the command fails; turns retry until their own deadline.
  maxRetriesPerRequest: 2,
  retryStrategy: (times: number) => Math.min(50 * 2 ** (times - 1), 500),
  // A primary that became a replica: the next connection asks anew where the primary is.
  reconnectOnError: (error: Error) => error.message.startsWith('READONLY'),
};

function isClient(target: RedisTarget): target is RedisClient {
  return typeof target === 'object' && 'isCluster' in target;
}

/** The scripts name keys themselves, which ioredis could not prefix. */
function withoutKeyPrefix(client: RedisClient): RedisClient {
  const { keyPrefix } = client.options;
  if (keyPrefix === undefined || keyPrefix === '') return client;
  throw new AgentLoopError(
    'INVALID_CONFIG',
    `The Redis client has the keyPrefix "${keyPrefix}", which scripts cannot follow; leave it out and give the store a "prefix".`,
  );
}

/** The connection of a store, until it is closed. */
export class RedisConnection {
  readonly #store: string;
  readonly #open: OpenClient;
  #closed = false;

  /** `store` is its name, for errors. Errors: `INVALID_CONFIG`. */
  constructor(store: string, target: RedisTarget, options?: OpenOptions) {
    assertRedisTarget(target);
    this.#store = store;
    this.#open = openClient(target, options);
  }

  get client(): RedisClient {
    return this.#open.client;
  }

  /** Errors: `UNAVAILABLE` after `close`. */
  assertOpen(): void {
    if (!this.#closed) return;
    throw new AgentLoopError('UNAVAILABLE', `This ${this.#store} was closed; create a new one.`);
  }

  /** Sends one command, and returns the reply. Errors: `FULL`, `UNAVAILABLE`. */
  async send(name: string, ...args: readonly CommandArgument[]): Promise<unknown> {
    this.assertOpen();
    try {
      return await command(this.client, name, ...args);
    } catch (thrown) {
      throw redisError(thrown);
    }
  }

  /** Refuses all further calls, and closes the connection that the store opened. Idempotent. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    const { client, own } = this.#open;
    if (!own) return;
    if (client.status === 'ready') await client.quit().catch(() => {});
    client.disconnect();
  }
}

/** What the server or the way to it refuses, by the first word of the reply or of what ioredis says. */
const fullReplies = /^(OOM|MISCONF)\b/;
const refusedCredentials = /^(WRONGPASS|NOAUTH|NOPERM)\b|invalid password|without any password configured/i;
const unknownCommand = /^ERR (unknown command|Unknown subcommand|This instance has cluster support disabled)/i;

/**
 * The error of a failed command: `FULL` if Redis has no space, else `UNAVAILABLE`. Contains Redis' message, but not the
 * command, which may contain a record or a password.
 */
export function redisError(thrown: unknown, taskId?: string): AgentLoopError {
  if (AgentLoopError.isInstance(thrown)) return thrown;
  const said = saidBy(thrown);
  const about = taskId === undefined ? {} : { taskId };
  if (fullReplies.test(said)) {
    return new AgentLoopError('FULL', `Redis is full: "${said}"; free memory or disk, or raise its limit.`, {
      ...about,
      retryable: true,
    });
  }
  if (refusedCredentials.test(said)) {
    return new AgentLoopError(
      'UNAVAILABLE',
      `Redis refuses this client: "${said}"; check user and password, and the rights of the user.`,
      about,
    );
  }
  if (unknownCommand.test(said)) {
    return new AgentLoopError('UNAVAILABLE', `Redis cannot do this: "${said}"; use Redis 7.0 or newer.`, about);
  }
  return new AgentLoopError('UNAVAILABLE', `Redis does not answer: "${said}"; is it running, and can it be reached?`, {
    ...about,
    retryable: true,
  });
}

export function isNoScript(thrown: unknown): boolean {
  return messageOf(thrown).startsWith('NOSCRIPT');
}

export function unconfirmed(taskId: string, confirmed: number, wanted: number): AgentLoopError {
  return new AgentLoopError(
    'UNAVAILABLE',
    `${confirmed} of ${wanted} replicas confirmed the records of task "${taskId}" in time; restore the replicas, or require fewer.`,
    { taskId, retryable: true },
  );
}

/** An append that arrived before an earlier one: retried after it, it succeeds. */
export function overtaken(taskId: string): AgentLoopError {
  return new AgentLoopError(
    'UNAVAILABLE',
    `An append to task "${taskId}" arrived before an earlier one that is still in flight; retry it.`,
    { taskId, retryable: true },
  );
}

export function scriptsLost(taskId: string): AgentLoopError {
  return new AgentLoopError(
    'UNAVAILABLE',
    `Redis had lost the scripts of the store, which are loaded again; retry the append to task "${taskId}".`,
    { taskId, retryable: true },
  );
}

export function torn(taskId: string, head: number, journal: number): AgentLoopError {
  return new AgentLoopError(
    'POISON',
    `The head of task "${taskId}" says ${head} records, its journal ends at ${journal}: Redis lost or evicted keys; check its maxmemory-policy and persistence, then delete the task.`,
    { taskId },
  );
}

export function unreadable(taskId: string, entry: string, why: string): AgentLoopError {
  return new AgentLoopError(
    'POISON',
    `Entry ${entry} of the journal of task "${taskId}" cannot be read: ${why}; the journal is kept for inspection.`,
    { taskId },
  );
}

/** What was said in the end: a cluster's client keeps the reason beside its error, one that ran out of tries names its option. */
export function saidBy(thrown: unknown): string {
  if (!(thrown instanceof Error)) return messageOf(thrown);
  if ('lastNodeError' in thrown && thrown.lastNodeError instanceof Error) return saidBy(thrown.lastNodeError);
  if (thrown.name === 'MaxRetriesPerRequestError') return 'no connection, after several tries';
  return thrown.message === '' && 'code' in thrown ? String(thrown.code) : thrown.message;
}
