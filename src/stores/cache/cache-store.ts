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
import { aClock, assertOptions, type OptionRule, type OptionRules, wholeNumber } from '../../core/options/index.ts';
import { anything, checkArguments, number, options, type StoreArguments, text } from '../check-arguments.ts';

/** Options of `set`. */
export interface CacheSetOptions {
  /** How long the value may be given, in milliseconds from now, more than 0. Absent: until the store needs the room. */
  readonly ttlMs?: number | undefined;
}

/**
 * Values of JSON under keys, that may be lost at any time: what is not there is worked out again.
 *
 * Keys are texts of 1 to 512 characters. A value is given back equal in JSON terms, never the same object: who changes what
 * `get` gave changes nothing in the store. Two `set` of one key: the later one counts, with its own time to live. A method that can
 * answer at once may return the value instead of a promise; it then throws instead of rejecting. Errors: `INVALID_INPUT` for a key, a
 * value or a time that no store can hold; `UNAVAILABLE` where the store cannot be reached.
 */
export interface CacheStore {
  /** The value, or undefined where there is none or its time is over. */
  get(key: string): MaybePromise<unknown>;
  /** Keeps a value, JSON, under a key in place of the one before. */
  set(key: string, value: unknown, options?: CacheSetOptions): MaybePromise<void>;
  /** Does nothing where there is none. */
  delete(key: string): MaybePromise<void>;
}

export const cacheStoreArguments: StoreArguments<CacheStore> = {
  get: { of: { key: text } },
  set: { of: { key: text, value: anything, options: options<CacheSetOptions>({ ttlMs: number }) } },
  delete: { of: { key: text } },
};

const longestKey = 512;

/** Errors with `INVALID_INPUT` for what is no key of a cache. */
export function assertCacheKey(key: string): void {
  if (typeof key === 'string' && key !== '' && key.length <= longestKey) return;
  const given = typeof key === 'string' && key !== '' ? `one of ${key.length} characters` : shownValue(key);
  throw invalid(`A cache key must be a string of 1 to ${longestKey} characters, not ${given}.`);
}

/** The value as the JSON text that a store keeps. Errors with `INVALID_INPUT` for what JSON would lose or change, and for a wrong time. */
export function cacheEntryText(value: unknown, { ttlMs }: CacheSetOptions): string {
  if (ttlMs !== undefined && !(ttlMs > 0 && Number.isFinite(ttlMs))) {
    throw invalid(`ttlMs is ${shownValue(ttlMs)}; give milliseconds above 0, or leave it out.`);
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

/** A key of any length and with any characters, in a form that is good for a part of a key of any store. */
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

/** Options of `InMemoryCacheStore`: how much it holds. Beyond it, the entries that were used longest ago go first. */
export interface InMemoryCacheStoreOptions {
  /** The most entries that are kept. Default 1,000. */
  readonly maxEntries?: number | undefined;
  /** The most that the keys and values of all entries may be, as JSON texts in UTF-8. Default 64 MiB. */
  readonly maxBytes?: number | undefined;
  /** Replaced by tests. Default: the system's. */
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
 * Keeps cached values in the memory of this process and answers at once. Beyond `maxEntries` or `maxBytes` what was not used for
 * the longest time goes first; a value larger than `maxBytes` is not kept at all. An entry whose time is over goes when it is asked
 * for, or in its turn. No timers.
 */
export class InMemoryCacheStore implements CacheStore {
  static {
    checkArguments(InMemoryCacheStore.prototype, cacheStoreArguments);
  }

  readonly #maxEntries: number;
  readonly #maxBytes: number;
  readonly #clock: Clock;
  /** What was used last stands last. */
  readonly #entries = new Map<string, Entry>();
  #bytes = 0;

  /** Errors: `INVALID_CONFIG`, naming the option. */
  constructor(options: InMemoryCacheStoreOptions = {}) {
    assertOptions('InMemoryCacheStore', options, rules);
    this.#maxEntries = options.maxEntries ?? 1_000;
    this.#maxBytes = options.maxBytes ?? 64 * 1024 * 1024;
    this.#clock = options.clock ?? systemClock;
  }

  /** Entries now, and their bytes. */
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

  /** Keeps a copy of a value, JSON. One that is larger than the whole cache is not kept. */
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
