import { assertOptions } from '../../options/option-rules.ts';
import {
  assertCacheKey,
  type CacheSetOptions,
  type CacheStore,
  cacheEntryText,
  cacheEntryValue,
  cacheKeyHash,
  cacheStoreArguments,
} from '../cache/cache-store.ts';
import { checkArguments, keptMs } from '../check-arguments.ts';
import {
  type PushClaimOptions,
  type PushEntry,
  type PushKey,
  type PushProgress,
  type PushStore,
  pushStoreArguments,
} from '../push/push-store.ts';
import { LuaScript, listOf } from './lua-scripts.ts';
import { RedisConnection } from './redis-connection.ts';
import { type RedisSideOptions, secondsOf, sideRules } from './redis-options.ts';

/** Options of `RedisCacheStore`. */
export interface RedisCacheStoreOptions extends RedisSideOptions {
  /** Seconds that a value without `ttlMs` is kept; null keeps it. Default 86,400. */
  readonly ttl?: number | null | undefined;
}

/** What can be worked out again is not worth a long wait. */
const cacheSilenceMs = 1_000;
/** Some thousand years: Redis refuses times that its clock cannot count. */
const longestMs = 1e14;

/**
 * Stores cached values in Redis: one server, Sentinel's primary, or a cluster; one key per value, `{prefix}:cache:<hash of the key>`.
 *
 * Nothing is connected before the first call. Errors: `INVALID_CONFIG` at construction; `UNAVAILABLE` and `FULL` as in
 * `RedisMessageStore`. An unreadable value counts as a miss.
 *
 * Memory: in Redis, as the times to live allow; a dedicated server may evict (`allkeys-lru`), one with journals must not.
 */
export class RedisCacheStore implements CacheStore {
  static {
    checkArguments(RedisCacheStore.prototype, cacheStoreArguments);
  }

  readonly #connection: RedisConnection;
  readonly #prefix: string;
  readonly #ttlMs: number;

  constructor(options: RedisCacheStoreOptions) {
    assertOptions('RedisCacheStore', options, sideRules);
    const { redis, ttl = 86_400, prefix = 'millrace' } = options;
    this.#connection = new RedisConnection('RedisCacheStore', redis, { silenceMs: cacheSilenceMs });
    this.#prefix = prefix;
    this.#ttlMs = keptMs(ttl);
  }

  async get(key: string): Promise<unknown> {
    const text = await this.#send('get', key);
    return typeof text === 'string' ? cacheEntryValue(text) : undefined;
  }

  /** Stores a value, JSON, for `ttlMs`, else for the `ttl` of the store. */
  async set(key: string, value: unknown, options: CacheSetOptions = {}): Promise<void> {
    const text = cacheEntryText(value, options);
    const { ttlMs = this.#ttlMs } = options;
    const expiry = ttlMs === Number.POSITIVE_INFINITY ? [] : ['PX', Math.min(Math.ceil(ttlMs), longestMs)];
    await this.#send('set', key, text, ...expiry);
  }

  async delete(key: string): Promise<void> {
    await this.#send('unlink', key);
  }

  /** Closes the connection that this store opened, and refuses further calls. Idempotent. */
  close(): Promise<void> {
    return this.#connection.close();
  }

  async #send(name: string, key: string, ...args: readonly (string | number)[]): Promise<unknown> {
    assertCacheKey(key);
    return this.#connection.send(name, `${this.#prefix}:cache:${cacheKeyHash(key)}`, ...args);
  }
}

/** Options of `RedisPushStore`. */
export interface RedisPushStoreOptions extends RedisSideOptions {
  /** Seconds that the registrations of a task are kept after their last write; null keeps them. Default 604,800, a week. */
  readonly ttl?: number | null | undefined;
}

/**
 * Stores registrations in Redis 7 or newer: one server, Sentinel's primary, or a cluster, where all of them are in one slot. Times are
 * those of Redis. Nothing is connected before the first call. Errors as those of `RedisMessageStore`.
 *
 * Keys: `{prefix}:{push}:due`, and `{prefix}:{push}:task:<id>`.
 */
export class RedisPushStore implements PushStore {
  static {
    checkArguments(RedisPushStore.prototype, pushStoreArguments);
  }

  readonly #connection: RedisConnection;
  readonly #prefix: string;
  readonly #seconds: number;

  constructor(options: RedisPushStoreOptions) {
    assertOptions('RedisPushStore', options, sideRules);
    const { redis, ttl = 604_800, prefix = 'millrace' } = options;
    this.#connection = new RedisConnection('RedisPushStore', redis);
    this.#prefix = `${prefix}:{push}:`;
    this.#seconds = secondsOf(ttl);
  }

  async add(entry: PushEntry, most: number): Promise<boolean> {
    const { cursor, ...fixed } = entry;
    const args = [entry.configId, entry.taskId, JSON.stringify(fixed), most, this.#seconds];
    const [added] = await scripts.add.run(this.#connection, [this.#dueKey, this.#keyOf(entry)], args);
    return added === 1;
  }

  /** One registration; `undefined` if it does not exist. */
  async get(key: PushKey): Promise<PushEntry | undefined> {
    const fields = [`e:${key.configId}`, `c:${key.configId}`];
    const [entry, cursor] = listOf(await this.#connection.send('hmget', this.#keyOf(key), ...fields));
    return entryOf(entry, cursor);
  }

  async list(taskId: string): Promise<readonly PushEntry[]> {
    const values = new Map(fieldsOf(await this.#connection.send('hgetall', this.#keyOf({ taskId }))));
    const ids = [...values.keys()].filter((field) => field.startsWith('e:')).map((field) => field.slice(2));
    return ids.sort().flatMap((id) => entryOf(values.get(`e:${id}`), values.get(`c:${id}`)) ?? []);
  }

  async delete({ taskId, configId }: PushKey): Promise<void> {
    await scripts.delete.run(this.#connection, [this.#dueKey, this.#keyOf({ taskId })], [configId, taskId]);
  }

  async claim({ owner, leaseMs, limit, taskId = '' }: PushClaimOptions): Promise<readonly PushEntry[]> {
    if (limit < 1) return [];
    const taken = await scripts.claim.run(
      this.#connection,
      [this.#dueKey],
      [this.#keyOf({ taskId: '' }), owner, leaseMs, limit, taskId, this.#seconds],
    );
    return pairsOf(taken).flatMap(([entry, cursor]) => entryOf(entry, cursor) ?? []);
  }

  async update(key: PushKey, owner: string, progress: PushProgress): Promise<boolean> {
    const ms = progress.type === 'held' ? progress.leaseMs : progress.type === 'parked' ? progress.afterMs : 0;
    const args = [key.configId, key.taskId, owner, progress.type, ms, progress.cursor ?? '', this.#seconds];
    const [updated] = await scripts.update.run(this.#connection, [this.#dueKey, this.#keyOf(key)], args);
    return updated === 1;
  }

  /** Closes the connection that this store opened, and refuses further calls. Idempotent. */
  close(): Promise<void> {
    return this.#connection.close();
  }

  get #dueKey(): string {
    return `${this.#prefix}due`;
  }

  #keyOf({ taskId }: Pick<PushKey, 'taskId'>): string {
    return `${this.#prefix}task:${taskId}`;
  }
}

const prelude = 'push-prelude';

const scripts = {
  add: new LuaScript('push-add-2', { prelude }),
  claim: new LuaScript('push-claim-1', { prelude }),
  update: new LuaScript('push-update-2', { prelude }),
  delete: new LuaScript('push-delete-2', { prelude, flags: 'allow-oom' }),
};

function entryOf(text: unknown, cursor: unknown): PushEntry | undefined {
  if (typeof text !== 'string') return undefined;
  return { ...JSON.parse(text), ...(typeof cursor === 'string' && cursor !== '' && { cursor }) };
}

/** Of a hash, which comes as a list or, from some clients, as an object. */
function fieldsOf(reply: unknown): readonly [string, unknown][] {
  if (Array.isArray(reply)) return pairsOf(reply);
  return typeof reply === 'object' && reply !== null ? Object.entries(reply) : [];
}

function pairsOf(list: readonly unknown[]): readonly [string, unknown][] {
  return Array.from({ length: list.length / 2 }, (_, index) => [String(list[2 * index]), list[2 * index + 1]]);
}
