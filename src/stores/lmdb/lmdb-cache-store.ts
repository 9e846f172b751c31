import type { Key } from 'lmdb';
import { type Clock, systemClock } from '../../core/contracts/index.ts';
import { assertCacheKey, atLeastOne, cacheEntryText, cacheEntryValue, cacheKeyHash } from '../cache/cache-entry.ts';
import type { CacheSetOptions, CacheStore } from '../cache/cache-store.ts';
import { cacheStoreArguments, checkArguments } from '../check-arguments.ts';
import { assertKnownOptions, type OptionNames } from '../known-options.ts';
import { LmdbDatabase } from './lmdb-database.ts';
import { assertStorePath } from './store-path.ts';

export interface LmdbCacheStoreOptions {
  /** The folder of the store, made where it is missing; on a local disk. May be that of other LMDB stores. */
  readonly path: string;
  /** The most entries that are kept. Default 10,000. */
  readonly maxEntries?: number | undefined;
  /** The most that the values of all entries may be, as JSON texts in UTF-8. Default 256 MiB. */
  readonly maxBytes?: number | undefined;
  /** Replaced by tests. Default: the system's. */
  readonly clock?: Clock | undefined;
}

const optionNames: OptionNames<LmdbCacheStoreOptions> = { path: true, maxEntries: true, maxBytes: true, clock: true };

interface Entry {
  /** Its place among those that were written. */
  readonly written: number;
  readonly bytes: number;
  /** Milliseconds since 1970; absent: it does not end. */
  readonly expiresAt?: number;
  /** The value as JSON. */
  readonly text: string;
}

interface Totals {
  readonly written: number;
  readonly entries: number;
  readonly bytes: number;
}

const totalsKey = ['cache-totals'];
const victimsAtOnce = 64;

/**
 * Keeps cached values in an LMDB file, shared by any number of processes of one machine and still there after a restart.
 *
 * `get` answers at once, from the memory map; what it reads is not written down, so beyond `maxEntries` or `maxBytes` what was written
 * longest ago goes first. A value larger than `maxBytes` is not kept at all. An entry whose time is over goes in its turn. Errors as
 * those of `LmdbMessageStore`; an entry that cannot be read counts as none.
 *
 * Keys: `['cache', hash of the key]`, and `['cache-age', written]`, which names the hash and its bytes.
 */
export class LmdbCacheStore implements CacheStore {
  static {
    checkArguments(LmdbCacheStore.prototype, cacheStoreArguments);
  }

  readonly #clock: Clock;
  readonly #maxEntries: number;
  readonly #maxBytes: number;
  readonly #database: LmdbDatabase;

  constructor(options: LmdbCacheStoreOptions) {
    assertKnownOptions('LmdbCacheStore', options, optionNames);
    const { path, maxEntries = 10_000, maxBytes = 256 * 1024 * 1024, clock = systemClock } = options;
    assertStorePath(path);
    this.#maxEntries = atLeastOne('LmdbCacheStore', 'maxEntries', maxEntries);
    this.#maxBytes = atLeastOne('LmdbCacheStore', 'maxBytes', maxBytes);
    this.#clock = clock;
    this.#database = new LmdbDatabase(path);
  }

  get(key: string): unknown {
    assertCacheKey(key);
    const entry = this.#database.read(() => this.#find(entryKey(key)));
    if (entry === undefined || (entry.expiresAt ?? Number.POSITIVE_INFINITY) <= this.#clock.now()) return undefined;
    return cacheEntryValue(entry.text);
  }

  async set(key: string, value: unknown, options: CacheSetOptions = {}): Promise<void> {
    assertCacheKey(key);
    const text = cacheEntryText(value, options);
    const bytes = Buffer.byteLength(text);
    if (bytes > this.#maxBytes) return this.delete(key);
    await this.#database.write(() => {
      const { ttlMs } = options;
      const before = this.#without(key);
      const written = before.written + 1;
      const expiry = ttlMs === undefined ? {} : { expiresAt: this.#clock.now() + ttlMs };
      const entry: Entry = { written, bytes, ...expiry, text };
      this.#database.put(entryKey(key), JSON.stringify(entry));
      this.#database.put(['cache-age', written], `${bytes} ${cacheKeyHash(key)}`);
      this.#putTotals(this.#makeRoom({ written, entries: before.entries + 1, bytes: before.bytes + bytes }, key));
    });
  }

  async delete(key: string): Promise<void> {
    assertCacheKey(key);
    await this.#database.write(() => this.#putTotals(this.#without(key)));
  }

  /** Waits for what was sent to be written, and closes the file. Again: does nothing. */
  close(): Promise<void> {
    return this.#database.close();
  }

  /** Removes the entry of a key, and gives what is left. */
  #without(key: string): Totals {
    const totals = this.#totals();
    const old = this.#find(entryKey(key));
    if (old === undefined) return totals;
    this.#database.remove(entryKey(key));
    this.#database.remove(['cache-age', old.written]);
    return { ...totals, entries: totals.entries - 1, bytes: totals.bytes - old.bytes };
  }

  /** Removes what was written longest ago, but not `kept`, until all is within the limits. */
  #makeRoom({ written, entries, bytes }: Totals, kept: string): Totals {
    const left = { written, entries, bytes };
    const isOver = () => left.entries > this.#maxEntries || left.bytes > this.#maxBytes;
    for (let from = 0; isOver(); ) {
      const range = { start: ['cache-age', from], end: ['cache-age', written], limit: victimsAtOnce };
      const victims = this.#database.range(range).filter(({ value }) => !value.endsWith(` ${cacheKeyHash(kept)}`));
      if (victims.length === 0) break;
      for (const { key, value } of victims) {
        if (!isOver()) break;
        const [size = '0', hash = ''] = value.split(' ');
        this.#database.remove(key);
        this.#database.remove(['cache', hash]);
        left.entries--;
        left.bytes -= Number(size);
      }
      from = numberIn(victims.at(-1)?.key) + 1;
    }
    return left;
  }

  #find(key: Key): Entry | undefined {
    const text = this.#database.get(key);
    const entry = text === undefined ? undefined : cacheEntryValue(text);
    return isEntry(entry) ? entry : undefined;
  }

  #totals(): Totals {
    const text = this.#database.get(totalsKey);
    return text === undefined ? { written: 0, entries: 0, bytes: 0 } : JSON.parse(text);
  }

  #putTotals(totals: Totals): void {
    this.#database.put(totalsKey, JSON.stringify(totals));
  }
}

function entryKey(key: string): Key {
  return ['cache', cacheKeyHash(key)];
}

function numberIn(key: Key | undefined): number {
  return Array.isArray(key) ? Number(key.at(-1)) : 0;
}

function isEntry(value: unknown): value is Entry {
  return typeof value === 'object' && value !== null && 'text' in value && typeof value.text === 'string';
}
