import {
  assertCacheKey,
  type CacheSetOptions,
  type CacheStore,
  cacheEntryText,
  cacheEntryValue,
  cacheKeyHash,
  cacheStoreArguments,
} from '../cache/cache-store.ts';
import { assertKnownOptions, checkArguments, type OptionNames } from '../check-arguments.ts';
import { RedisConnection } from './redis-connection.ts';
import { type RedisSideOptions, sideSettings } from './redis-options.ts';

export interface RedisCacheStoreOptions extends RedisSideOptions {
  /** Seconds that a value is kept which is set without `ttlMs`; null keeps it. Default 86,400. */
  readonly ttl?: number | null | undefined;
}

const optionNames: OptionNames<RedisCacheStoreOptions> = { redis: true, ttl: true, prefix: true };

/** What can be worked out again is not worth a long wait. */
const cacheSilenceMs = 1_000;
/** Some thousand years: Redis refuses times that its clock cannot count. */
const longestMs = 1e14;

/**
 * Keeps cached values in Redis: one server, Sentinel's primary, or a cluster; one key a value, `{prefix}:cache:<hash of the key>`.
 *
 * Nothing is connected before the first call. Errors: `INVALID_CONFIG` at construction; `UNAVAILABLE` and `FULL` as in
 * `RedisMessageStore`. A value that cannot be read counts as none.
 *
 * Memory: in Redis, what its times to live allow; a server of its own may evict (`allkeys-lru`), one with journals must not.
 */
export class RedisCacheStore implements CacheStore {
  static {
    checkArguments(RedisCacheStore.prototype, cacheStoreArguments);
  }

  readonly #connection: RedisConnection;
  readonly #prefix: string;
  readonly #ttlMs: number;

  constructor(options: RedisCacheStoreOptions) {
    assertKnownOptions('RedisCacheStore', options, optionNames);
    const { redis, ttl = 86_400 } = options;
    const { prefix } = sideSettings(options, ttl);
    this.#connection = new RedisConnection('RedisCacheStore', redis, { silenceMs: cacheSilenceMs });
    this.#prefix = prefix;
    this.#ttlMs = ttl === null ? Number.POSITIVE_INFINITY : ttl * 1_000;
  }

  async get(key: string): Promise<unknown> {
    const text = await this.#send('get', key);
    return typeof text === 'string' ? cacheEntryValue(text) : undefined;
  }

  async set(key: string, value: unknown, options: CacheSetOptions = {}): Promise<void> {
    const text = cacheEntryText(value, options);
    const { ttlMs = this.#ttlMs } = options;
    const expiry = ttlMs === Number.POSITIVE_INFINITY ? [] : ['PX', Math.min(Math.ceil(ttlMs), longestMs)];
    await this.#send('set', key, text, ...expiry);
  }

  async delete(key: string): Promise<void> {
    await this.#send('unlink', key);
  }

  /** Ends the connection that this store made, and refuses further calls. Again: does nothing. */
  close(): Promise<void> {
    return this.#connection.close();
  }

  async #send(name: string, key: string, ...args: readonly (string | number)[]): Promise<unknown> {
    assertCacheKey(key);
    return this.#connection.send(name, `${this.#prefix}:cache:${cacheKeyHash(key)}`, ...args);
  }
}
