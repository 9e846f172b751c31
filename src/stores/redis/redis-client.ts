import type { Cluster, Redis, RedisOptions } from 'ioredis';
import { AgentLoopError, missingPackage } from '../../core/contracts/index.ts';
import { loadPackage } from '../load-package.ts';

/** A client of ioredis: of one server, of Sentinel's primary, or of a cluster. */
export type RedisClient = Redis | Cluster;

/** What a store connects with: a URL, options of ioredis (Sentinel's among them), or a client that is there. */
export type RedisTarget = string | Omit<RedisOptions, 'replyMapping'> | RedisClient;

export interface OpenClient {
  readonly client: RedisClient;
  /** Whether the store made it and has to end it. */
  readonly own: boolean;
}

export interface OpenOptions {
  /**
   * After how long without a word from Redis, while it owes an answer, a connection counts as lost: a server that is stopped, a network
   * that drops what it is given. Then it is made anew, as after any loss. Milliseconds; default 5,000.
   */
  readonly silenceMs?: number;
}

/** What a client of our own waits for an answer, unless told otherwise. */
export const defaultSilenceMs = 5_000;

/** Connects lazily, at the first command. ioredis is loaded only here, so that what merely knows the store does not load it. */
export function openClient(target: RedisTarget, { silenceMs = defaultSilenceMs }: OpenOptions = {}): OpenClient {
  if (isClient(target)) return { client: withoutKeyPrefix(target), own: false };
  const { Redis: Client } = loadIoredis();
  const options = { ...ownOptions, socketTimeout: silenceMs, sentinelCommandTimeout: silenceMs };
  const client =
    typeof target === 'string' ? new Client(target, options) : new Client({ ...options, ...target, lazyConnect: true });
  // Failures reach whoever sent a command; ioredis prints what nobody listens to.
  client.on('error', () => {});
  return { client: withoutKeyPrefix(client), own: true };
}

/**
 * `require` is for bundlers, which put ioredis into the bundle where they see it; Node has none in an ES module. Errors:
 * `MISSING_PACKAGE`.
 */
function loadIoredis(): typeof import('ioredis') {
  try {
    return require('ioredis');
  } catch {
    return installedIoredis();
  }
}

function installedIoredis(): typeof import('ioredis') {
  try {
    return loadPackage('ioredis');
  } catch (error) {
    throw missingPackage('ioredis', error);
  }
}

/** Ends a connection that a store made. */
export async function closeClient({ client, own }: OpenClient): Promise<void> {
  if (!own) return;
  if (client.status === 'ready') await client.quit().catch(() => {});
  client.disconnect();
}

export function isCluster(client: RedisClient): client is Cluster {
  return client.isCluster;
}

/** What commands take. */
export type CommandArgument = string | number | Buffer;

/**
 * One command, whatever the client. In a cluster it goes to the node of its first key. What is sent in one go of this process, its
 * microtasks included, leaves in one write to the socket: a write costs several times what a command does.
 */
export function command(client: RedisClient, name: string, ...args: readonly CommandArgument[]): Promise<unknown> {
  if (!isCluster(client)) holdWrites(client);
  return isCluster(client) ? client.call(name, ...args) : client.call(name, ...args);
}

/** The same for replies that are bytes. */
export function bytesCommand(client: RedisClient, name: string, ...args: readonly CommandArgument[]): Promise<unknown> {
  return isCluster(client) ? client.callBuffer(name, ...args) : client.callBuffer(name, ...args);
}

/** Sockets that wait for more to write. */
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

/** How long ioredis holds on to a socket that does not close; it waits that long even for one that is closed. */
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
