import type { Clock } from '../../core/contracts/index.ts';
import type { Answer, Rows, Steps, Table, TableKey, Timing } from '../table/table.ts';
import {
  assertCacheKey,
  type CacheSetOptions,
  type CacheStore,
  cacheEntryText,
  cacheEntryValue,
  cacheKeyHash,
} from './cache-store.ts';

export interface TableCacheOptions {
  readonly maxEntries: number;
  /** The maximum size of all values, as JSON in UTF-8. */
  readonly maxBytes: number;
  readonly clock: Clock;
}

interface Entry {
  /** Its number in the order of writes. */
  readonly written: number;
  readonly bytes: number;
  /** Milliseconds since 1970; absent: it does not expire. */
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
 * Cached values in a table; beyond the limits the oldest writes are evicted. A value larger than `maxBytes` is not stored at all.
 *
 * Keys: `['cache', hash of the key]`, and `['cache-age', written]`, which contains the hash and its bytes.
 */
export class TableCacheStore<Read extends Timing, Write extends Timing> implements CacheStore {
  readonly #table: Table<Read, Write>;
  readonly #options: TableCacheOptions;

  constructor(table: Table<Read, Write>, options: TableCacheOptions) {
    this.#table = table;
    this.#options = options;
  }

  get(key: string): Answer<Read, unknown> {
    return this.#table.read(() => {
      assertCacheKey(key);
      const now = this.#options.clock.now();
      return function* (rows) {
        const entry = yield* find(rows, entryKey(key));
        if (entry === undefined || (entry.expiresAt ?? Number.POSITIVE_INFINITY) <= now) return undefined;
        return cacheEntryValue(entry.text);
      };
    });
  }

  set(key: string, value: unknown, options: CacheSetOptions = {}): Answer<Write, void> {
    return this.#table.write(() => {
      assertCacheKey(key);
      const text = cacheEntryText(value, options);
      const bytes = Buffer.byteLength(text);
      if (bytes > this.#options.maxBytes) return (rows) => remove(rows, key);
      const { ttlMs } = options;
      const expiry = ttlMs === undefined ? {} : { expiresAt: this.#options.clock.now() + ttlMs };
      return (rows) => set(rows, key, { bytes, ...expiry, text }, this.#options);
    });
  }

  delete(key: string): Answer<Write, void> {
    return this.#table.write(() => {
      assertCacheKey(key);
      return (rows) => remove(rows, key);
    });
  }
}

function* set(rows: Rows, key: string, value: Omit<Entry, 'written'>, limits: TableCacheOptions): Steps<void> {
  const before = yield* without(rows, key);
  const written = before.written + 1;
  const entry: Entry = { written, ...value };
  rows.put(entryKey(key), JSON.stringify(entry));
  rows.put(['cache-age', written], `${value.bytes} ${cacheKeyHash(key)}`);
  const totals = { written, entries: before.entries + 1, bytes: before.bytes + value.bytes };
  rows.put(totalsKey, JSON.stringify(yield* makeRoom(rows, totals, limits)));
}

function* remove(rows: Rows, key: string): Steps<void> {
  rows.put(totalsKey, JSON.stringify(yield* without(rows, key)));
}

/** Removes the entry of a key, and returns the new totals. */
function* without(rows: Rows, key: string): Steps<Totals> {
  const text = yield* rows.get(totalsKey);
  const totals: Totals = text === undefined ? { written: 0, entries: 0, bytes: 0 } : JSON.parse(text);
  const old = yield* find(rows, entryKey(key));
  if (old === undefined) return totals;
  rows.remove(entryKey(key));
  rows.remove(['cache-age', old.written]);
  return { ...totals, entries: totals.entries - 1, bytes: totals.bytes - old.bytes };
}

/** Removes the oldest writes, except the last one, until the totals are within the limits. */
function* makeRoom(rows: Rows, totals: Totals, { maxEntries, maxBytes }: TableCacheOptions): Steps<Totals> {
  const left = { ...totals };
  const isOver = () => left.entries > maxEntries || left.bytes > maxBytes;
  while (isOver()) {
    const victims = yield* rows.range(['cache-age'], { to: totals.written, limit: victimsAtOnce });
    if (victims.length === 0) break;
    for (const { key, value } of victims) {
      if (!isOver()) break;
      const [bytes = '0', hash = ''] = value.split(' ');
      rows.remove(key);
      rows.remove(['cache', hash]);
      left.entries--;
      left.bytes -= Number(bytes);
    }
  }
  return left;
}

function* find(rows: Rows, key: TableKey): Steps<Entry | undefined> {
  const text = yield* rows.get(key);
  const entry = text === undefined ? undefined : cacheEntryValue(text);
  return isEntry(entry) ? entry : undefined;
}

function entryKey(key: string): TableKey {
  return ['cache', cacheKeyHash(key)];
}

function isEntry(value: unknown): value is Entry {
  return typeof value === 'object' && value !== null && 'text' in value && typeof value.text === 'string';
}
