import { type Clock, systemClock } from '../../core/contracts/index.ts';
import { aClock, anything, assertOptions, type OptionRules, wholeNumber } from '../../core/options/index.ts';
import { cacheStoreArguments } from '../cache/cache-store.ts';
import { TableCacheStore } from '../cache/table-cache-store.ts';
import { aTimeToLive, checkArguments, keptMs, messageStoreArguments } from '../check-arguments.ts';
import { TableMessageStore } from '../messages/table-message-store.ts';
import { type PushClaimOptions, type PushEntry, pushStoreArguments } from '../push/push-store.ts';
import { TablePushStore } from '../push/table-push-store.ts';
import { LmdbTable } from './lmdb-database.ts';

/** Options of `LmdbMessageStore`. */
export interface LmdbMessageStoreOptions {
  /** The folder of the store, made where it is missing; on a local disk. May be that of an `LmdbStateStore`. */
  readonly path: string;
  /** Replaced by tests. Default: the system's. */
  readonly clock?: Clock | undefined;
}

const messageRules: OptionRules<LmdbMessageStoreOptions> = { path: anything, clock: aClock };

/**
 * Keeps contexts in an LMDB file, shared by any number of processes of one machine, also with journals in the same file.
 *
 * Every change is one write transaction whose promise resolves once it is on the disk, so `kill -9` at any instruction leaves all of a
 * turn or nothing. `load` and `contexts` answer at once, from the memory map. Errors besides the contract's: `INVALID_CONFIG`,
 * `MISSING_PACKAGE`, `UNAVAILABLE` and `POISON` at construction, synchronously; `FULL` where the disk is, `UNAVAILABLE` where it
 * cannot be written to or after `close`.
 *
 * Memory: what `load` gives. Contexts stay in the file until `delete`, whose space is used again.
 */
export class LmdbMessageStore extends TableMessageStore<'now', 'later'> {
  static {
    const promising = ['begin', 'append', 'setAgent', 'setMetadata', 'delete'] as const;
    checkArguments(LmdbMessageStore.prototype, messageStoreArguments, promising);
  }

  readonly #table: LmdbTable;

  constructor(options: LmdbMessageStoreOptions) {
    assertOptions('LmdbMessageStore', options, messageRules);
    const table = new LmdbTable(options.path);
    super(table, { clock: options.clock ?? systemClock });
    this.#table = table;
  }

  /** Waits for what was sent to be written, and closes the file. Again: does nothing. */
  close(): Promise<void> {
    return this.#table.close();
  }
}

/** Options of `LmdbCacheStore`: its folder, and how much it holds. */
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

const cacheRules: OptionRules<LmdbCacheStoreOptions> = {
  path: anything,
  maxEntries: wholeNumber(1),
  maxBytes: wholeNumber(1),
  clock: aClock,
};

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
    assertOptions('LmdbCacheStore', options, cacheRules);
    const { path, clock = systemClock, maxEntries = 10_000, maxBytes = 256 * 1024 * 1024 } = options;
    const table = new LmdbTable(path);
    super(table, { maxEntries, maxBytes, clock });
    this.#table = table;
  }

  /** Waits for what was sent to be written, and closes the file. Again: does nothing. */
  close(): Promise<void> {
    return this.#table.close();
  }
}

/** Options of `LmdbPushStore`. */
export interface LmdbPushStoreOptions {
  /** The folder of the store, made where it is missing; on a local disk. May be that of other LMDB stores. */
  readonly path: string;
  /** Seconds that a registration is kept once there is nothing to deliver any more; null keeps it. Default 604,800, a week. */
  readonly ttl?: number | null | undefined;
  /** Replaced by tests. Default: the system's. */
  readonly clock?: Clock | undefined;
}

const pushRules: OptionRules<LmdbPushStoreOptions> = { path: anything, ttl: aTimeToLive, clock: aClock };

/**
 * Keeps registrations in an LMDB file, shared by any number of processes of one machine and still there after a restart. Those that are
 * over for longer than `ttl` go when another is over. `get` and `list` answer at once. Errors as those of `LmdbMessageStore`.
 */
export class LmdbPushStore extends TablePushStore<'now', 'later'> {
  static {
    checkArguments(LmdbPushStore.prototype, pushStoreArguments, ['add', 'delete', 'claim', 'update']);
  }

  readonly #table: LmdbTable;

  constructor(options: LmdbPushStoreOptions) {
    assertOptions('LmdbPushStore', options, pushRules);
    const { path, ttl = 604_800, clock = systemClock } = options;
    const table = new LmdbTable(path);
    super(table, { clock, keepMs: keptMs(ttl), keepMost: Number.POSITIVE_INFINITY });
    this.#table = table;
  }

  /** Most looks find nothing, and a write costs a sync of the disk. */
  override async claim(options: PushClaimOptions): Promise<readonly PushEntry[]> {
    return this.canClaim(options) ? super.claim(options) : [];
  }

  /** Waits for what was sent to be written, and closes the file. Again: does nothing. */
  close(): Promise<void> {
    return this.#table.close();
  }
}
