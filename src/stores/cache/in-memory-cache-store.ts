import { type Clock, systemClock } from '../../core/contracts/index.ts';
import { cacheStoreArguments, checkArguments } from '../check-arguments.ts';
import { assertKnownOptions, type OptionNames } from '../known-options.ts';
import { assertCacheKey, atLeastOne, cacheEntryText, cacheEntryValue } from './cache-entry.ts';
import type { CacheSetOptions, CacheStore } from './cache-store.ts';

export interface InMemoryCacheStoreOptions {
  /** The most entries that are kept. Default 1,000. */
  readonly maxEntries?: number | undefined;
  /** The most that the keys and values of all entries may be, as JSON texts in UTF-8. Default 64 MiB. */
  readonly maxBytes?: number | undefined;
  /** Replaced by tests. Default: the system's. */
  readonly clock?: Clock | undefined;
}

const optionNames: OptionNames<InMemoryCacheStoreOptions> = { maxEntries: true, maxBytes: true, clock: true };

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
    assertKnownOptions('InMemoryCacheStore', options, optionNames);
    this.#maxEntries = atLeastOne('InMemoryCacheStore', 'maxEntries', options.maxEntries ?? 1_000);
    this.#maxBytes = atLeastOne('InMemoryCacheStore', 'maxBytes', options.maxBytes ?? 64 * 1024 * 1024);
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
