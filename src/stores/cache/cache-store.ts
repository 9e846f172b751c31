import { createHash } from 'node:crypto';
import {
  AgentLoopError,
  type Clock,
  isObject,
  jsonFlaw,
  type MaybePromise,
  shownValue,
  systemClock,
} from '../../core/contracts/index.ts';
import { aClock, assertOptions, type OptionRule, type OptionRules, wholeNumber } from '../../options/option-rules.ts';
import { anything, checkArguments, number, options, type StoreArguments, text } from '../check-arguments.ts';

/** Options of `set`. */
export interface CacheSetOptions {
  /** How long the value is valid, in milliseconds from now, more than 0. Absent: until it is evicted. */
  readonly ttlMs?: number | undefined;
}

/**
 * JSON values by key that may be lost at any time: the caller recomputes a missing value.
 *
 * Keys are strings of 1 to 512 characters. `get` returns a value that is equal in JSON terms, never the same object: changing
 * it does not change the store. Of two `set` of one key, the later one counts, with its own time to live. A method that can
 * answer at once may return the value instead of a promise; it then throws instead of rejecting. Errors: `INVALID_INPUT` for an invalid key,
 * value or time; `UNAVAILABLE` if the store cannot be reached.
 */
export interface CacheStore {
  /** The value, or `undefined` if there is none or it has expired. */
  get(key: string): MaybePromise<unknown>;
  /** Stores a value, JSON, under a key, replacing the previous one. */
  set(key: string, value: unknown, options?: CacheSetOptions): MaybePromise<void>;
  /** Does nothing if there is none. */
  delete(key: string): MaybePromise<void>;
}

export const cacheStoreArguments: StoreArguments<CacheStore> = {
  get: { of: { key: text } },
  set: { of: { key: text, value: anything, options: options<CacheSetOptions>({ ttlMs: number }) } },
  delete: { of: { key: text } },
};

const longestKey = 512;

/** Errors with `INVALID_INPUT` for an invalid key. */
export function assertCacheKey(key: string): void {
  if (typeof key === 'string' && key !== '' && key.length <= longestKey) return;
  const given = typeof key === 'string' && key !== '' ? `one of ${key.length} characters` : shownValue(key);
  throw invalid(`A cache key must be a string of 1 to ${longestKey} characters, not ${given}.`);
}

/** The stored JSON text of a value. Errors with `INVALID_INPUT` for a value that JSON would lose or change, and for an invalid time. */
export function cacheEntryText(value: unknown, { ttlMs }: CacheSetOptions): string {
  if (ttlMs !== undefined && !(ttlMs > 0 && Number.isFinite(ttlMs))) {
    throw invalid(`ttlMs is ${shownValue(ttlMs)}; use milliseconds above 0, or omit it.`);
  }
  const flaw = jsonFlaw(value, 'the value');
  if (flaw !== undefined) throw invalid(`A cache keeps values of JSON, but ${flaw}.`);
  return JSON.stringify(value);
}

/** The value of such a string; `undefined` for an unreadable one, which counts as a miss. */
export function cacheEntryValue(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Hashes a key of any length and characters to a part of a key of any store. */
export function cacheKeyHash(key: string): string {
  return createHash('sha256').update(key).digest('base64url');
}

/** For options that take a store of the user. */
export const aCacheStore: OptionRule = {
  fits: (value) => isObject(value) && 'get' in value && 'set' in value,
  must: 'be a CacheStore: { get, set, delete }',
};

function invalid(message: string): AgentLoopError {
  return new AgentLoopError('INVALID_INPUT', message);
}

/** Options of `InMemoryCacheStore`: its limits. Beyond them, the least recently used entries are evicted. */
export interface InMemoryCacheStoreOptions {
  /** The maximum number of entries. Default 1,000. */
  readonly maxEntries?: number | undefined;
  /** The maximum size of the keys and values of all entries, as JSON texts in UTF-8. Default 64 MiB. */
  readonly maxBytes?: number | undefined;
  /** Replaced in tests. Default: the system clock. */
  readonly clock?: Clock | undefined;
}

const rules: OptionRules<InMemoryCacheStoreOptions> = {
  maxEntries: wholeNumber(1),
  maxBytes: wholeNumber(1),
  clock: aClock,
};

interface Entry {
  readonly text: string;
  readonly bytes: number;
  /** Milliseconds since 1970. */
  readonly expiresAt: number;
}

/**
 * Stores cached values in the memory of this process and answers synchronously. Beyond `maxEntries` or `maxBytes` the least recently used
 * entries are evicted; a value larger than `maxBytes` is not stored at all. An expired entry is removed when it is read,
 * or evicted as any other. No timers.
 */
export class InMemoryCacheStore implements CacheStore {
  static {
    checkArguments(InMemoryCacheStore.prototype, cacheStoreArguments);
  }

  readonly #maxEntries: number;
  readonly #maxBytes: number;
  readonly #clock: Clock;
  /** In the order of the last use. */
  readonly #entries = new Map<string, Entry>();
  #bytes = 0;

  /** Errors: `INVALID_CONFIG`, naming the option. */
  constructor(options: InMemoryCacheStoreOptions = {}) {
    assertOptions('InMemoryCacheStore', options, rules);
    this.#maxEntries = options.maxEntries ?? 1_000;
    this.#maxBytes = options.maxBytes ?? 64 * 1024 * 1024;
    this.#clock = options.clock ?? systemClock;
  }

  /** The current number of entries, and their bytes. */
  get size(): { readonly entries: number; readonly bytes: number } {
    return { entries: this.#entries.size, bytes: this.#bytes };
  }

  get(key: string): unknown {
    assertCacheKey(key);
    const entry = this.#take(key);
    if (entry === undefined || entry.expiresAt <= this.#clock.now()) return undefined;
    this.#put(key, entry);
    return cacheEntryValue(entry.text);
  }

  /** Stores a copy of a value, JSON. A value larger than the whole cache is not stored. */
  set(key: string, value: unknown, options: CacheSetOptions = {}): void {
    assertCacheKey(key);
    const text = cacheEntryText(value, options);
    const bytes = Buffer.byteLength(key) + Buffer.byteLength(text);
    this.#take(key);
    if (bytes > this.#maxBytes) return;
    this.#put(key, { text, bytes, expiresAt: this.#clock.now() + (options.ttlMs ?? Number.POSITIVE_INFINITY) });
    for (const [oldest] of this.#entries) {
      if (this.#entries.size <= this.#maxEntries && this.#bytes <= this.#maxBytes) break;
      this.#take(oldest);
    }
  }

  delete(key: string): void {
    assertCacheKey(key);
    this.#take(key);
  }

  #put(key: string, entry: Entry): void {
    this.#entries.set(key, entry);
    this.#bytes += entry.bytes;
  }

  #take(key: string): Entry | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    this.#entries.delete(key);
    this.#bytes -= entry.bytes;
    return entry;
  }
}
