import { type Clock, systemClock } from '../../core/contracts/index.ts';
import { atLeastOne } from '../cache/cache-entry.ts';
import { TableCacheStore } from '../cache/table-cache-store.ts';
import { cacheStoreArguments, checkArguments } from '../check-arguments.ts';
import { assertKnownOptions, type OptionNames } from '../known-options.ts';
import type { PostgresOptions } from './postgres-database.ts';
import { PostgresTable } from './postgres-table.ts';

export interface PostgresCacheStoreOptions extends PostgresOptions {
  /** The most entries that are kept. Default 10,000. */
  readonly maxEntries?: number | undefined;
  /** The most that the values of all entries may be, as JSON texts in UTF-8. Default 256 MiB. */
  readonly maxBytes?: number | undefined;
  /** Replaced by tests. Default: the system's. */
  readonly clock?: Clock | undefined;
}

const optionNames: OptionNames<PostgresCacheStoreOptions> = {
  postgres: true,
  schema: true,
  migrate: true,
  maxEntries: true,
  maxBytes: true,
  clock: true,
};

/**
 * Keeps cached values in PostgreSQL, shared by all processes. Beyond `maxEntries` or `maxBytes` what was written longest ago goes first; a value
 * larger than `maxBytes` is not kept at all. An entry whose time is over goes in its turn. Errors as those of `PostgresMessageStore`; an entry that
 * cannot be read counts as none.
 */
export class PostgresCacheStore extends TableCacheStore<'later', 'later'> {
  static {
    checkArguments(PostgresCacheStore.prototype, cacheStoreArguments, ['get', 'set', 'delete']);
  }

  readonly #table: PostgresTable;

  /** Errors: `INVALID_CONFIG`, naming the option; `MISSING_PACKAGE`. */
  constructor(options: PostgresCacheStoreOptions) {
    assertKnownOptions('PostgresCacheStore', options, optionNames);
    const { clock = systemClock, maxEntries: entries = 10_000, maxBytes: bytes = 256 * 1024 * 1024, ...rest } = options;
    const maxEntries = atLeastOne('PostgresCacheStore', 'maxEntries', entries);
    const maxBytes = atLeastOne('PostgresCacheStore', 'maxBytes', bytes);
    const table = new PostgresTable('PostgresCacheStore', 'cache', rest);
    super(table, { maxEntries, maxBytes, clock });
    this.#table = table;
  }

  /** As that of `PostgresStateStore`: the tables are the same. */
  migrate(): Promise<void> {
    return this.#table.migrate();
  }

  /** Closes the connections once what was sent is answered. Again: does nothing. */
  close(): Promise<void> {
    return this.#table.close();
  }
}
