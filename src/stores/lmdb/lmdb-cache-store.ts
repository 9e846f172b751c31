import { type Clock, systemClock } from '../../core/contracts/index.ts';
import { atLeastOne } from '../cache/cache-entry.ts';
import { TableCacheStore } from '../cache/table-cache-store.ts';
import { cacheStoreArguments, checkArguments } from '../check-arguments.ts';
import { assertKnownOptions, type OptionNames } from '../known-options.ts';
import { LmdbTable } from './lmdb-table.ts';

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

/**
 * Keeps cached values in an LMDB file, shared by any number of processes of one machine and still there after a restart.
 *
 * `get` answers at once, from the memory map; what it reads is not written down, so beyond `maxEntries` or `maxBytes` what was written
 * longest ago goes first. A value larger than `maxBytes` is not kept at all. An entry whose time is over goes in its turn. Errors as
 * those of `LmdbMessageStore`; an entry that cannot be read counts as none.
 */
export class LmdbCacheStore extends TableCacheStore<'now', 'later'> {
  static {
    checkArguments(LmdbCacheStore.prototype, cacheStoreArguments, ['set', 'delete']);
  }

  readonly #table: LmdbTable;

  /** Errors: `INVALID_CONFIG`, naming the option. */
  constructor(options: LmdbCacheStoreOptions) {
    assertKnownOptions('LmdbCacheStore', options, optionNames);
    const { path, clock = systemClock } = options;
    const maxEntries = atLeastOne('LmdbCacheStore', 'maxEntries', options.maxEntries ?? 10_000);
    const maxBytes = atLeastOne('LmdbCacheStore', 'maxBytes', options.maxBytes ?? 256 * 1024 * 1024);
    const table = new LmdbTable(path);
    super(table, { maxEntries, maxBytes, clock });
    this.#table = table;
  }

  /** Waits for what was sent to be written, and closes the file. Again: does nothing. */
  close(): Promise<void> {
    return this.#table.close();
  }
}
