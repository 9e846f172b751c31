import { resolve } from 'node:path';
import { type Clock, systemClock } from '../../core/contracts/index.ts';
import { aClock, anything, assertOptions, type OptionRules, wholeNumber } from '../../options/option-rules.ts';
import { cacheStoreArguments } from '../cache/cache-store.ts';
import { TableCacheStore } from '../cache/table-cache-store.ts';
import { aTimeToLive, checkArguments, keptMs, messageStoreArguments } from '../check-arguments.ts';
import { notePlace } from '../messages/referred-messages.ts';
import { TableMessageStore } from '../messages/table-message-store.ts';
import { type PushClaimOptions, type PushEntry, pushStoreArguments } from '../push/push-store.ts';
import { TablePushStore } from '../push/table-push-store.ts';
import { LmdbTable } from './lmdb-database.ts';

/** Options of `LmdbMessageStore`. */
export interface LmdbMessageStoreOptions {
  /** The folder of the store, created if missing; on a local disk. May be that of an `LmdbStateStore`. */
  readonly path: string;
  /**
   * Seconds that a context is kept after its last write; null keeps it. Default null. A context with open turns does not expire: a turn that waits
   * for an answer finds its context. Expired contexts are deleted when others are written.
   */
  readonly ttl?: number | null | undefined;
  /** Replaced in tests. Default: the system clock. */
  readonly clock?: Clock | undefined;
}

const messageRules: OptionRules<LmdbMessageStoreOptions> = { path: anything, ttl: aTimeToLive, clock: aClock };

/**
 * Stores contexts in an LMDB file, shared by any number of processes of one machine, and by journals in the same file.
 *
 * Every change is one write transaction whose promise resolves once it is on the disk, so after `kill -9` at any instruction a
 * turn is stored as a whole or not at all. `load` and `contexts` answer synchronously, from the memory map. Errors besides the contract's: `INVALID_CONFIG`,
 * `MISSING_PACKAGE`, `UNAVAILABLE` and `POISON` at construction, synchronously; `FULL` if the disk is full, `UNAVAILABLE` if it
 * cannot be written to or after `close`.
 *
 * Memory: the results of `load`. Contexts stay in the file until `delete`, or until `ttl` after their last write; their space is reused. With a `ttl`
 * each change deletes at most four expired contexts.
 */
export class LmdbMessageStore extends TableMessageStore<'now', 'later'> {
  static {
    const promising = ['begin', 'withdraw', 'append', 'setAgent', 'setMetadata', 'delete'] as const;
    checkArguments(LmdbMessageStore.prototype, messageStoreArguments, promising);
  }

  readonly #table: LmdbTable;

  constructor(options: LmdbMessageStoreOptions) {
    assertOptions('LmdbMessageStore', options, messageRules);
    const { path, ttl = null, clock = systemClock } = options;
    const table = new LmdbTable(path);
    super(table, { clock, retention: { keepMs: keptMs(ttl) } });
    this.#table = table;
    notePlace(this, [resolve(options.path)]);
  }

  /** Waits for pending writes, and closes the file. Idempotent. */
  close(): Promise<void> {
    return this.#table.close();
  }
}

/** Options of `LmdbCacheStore`: its folder, and its limits. */
export interface LmdbCacheStoreOptions {
  /** The folder of the store, created if missing; on a local disk. May be that of other LMDB stores. */
  readonly path: string;
  /** The maximum number of entries. Default 10,000. */
  readonly maxEntries?: number | undefined;
  /** The maximum size of the values of all entries, as JSON texts in UTF-8. Default 256 MiB. */
  readonly maxBytes?: number | undefined;
  /** Replaced in tests. Default: the system clock. */
  readonly clock?: Clock | undefined;
}

const cacheRules: OptionRules<LmdbCacheStoreOptions> = {
  path: anything,
  maxEntries: wholeNumber(1),
  maxBytes: wholeNumber(1),
  clock: aClock,
};

/**
 * Stores cached values in an LMDB file, shared by any number of processes of one machine and kept over restarts.
 *
 * `get` answers synchronously, from the memory map; reads are not recorded, so beyond `maxEntries` or `maxBytes` the oldest writes
 * are evicted. A value larger than `maxBytes` is not stored at all. An expired entry is evicted as any other. Errors as
 * those of `LmdbMessageStore`; an unreadable entry counts as a miss.
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

  /** Waits for pending writes, and closes the file. Idempotent. */
  close(): Promise<void> {
    return this.#table.close();
  }
}

/** Options of `LmdbPushStore`. */
export interface LmdbPushStoreOptions {
  /** The folder of the store, created if missing; on a local disk. May be that of other LMDB stores. */
  readonly path: string;
  /** Seconds that a registration is kept after its last delivery; null keeps it. Default 604,800, a week. */
  readonly ttl?: number | null | undefined;
  /** Replaced in tests. Default: the system clock. */
  readonly clock?: Clock | undefined;
}

const pushRules: OptionRules<LmdbPushStoreOptions> = { path: anything, ttl: aTimeToLive, clock: aClock };

/**
 * Stores registrations in an LMDB file, shared by any number of processes of one machine and kept over restarts. Registrations that ended
 * longer than `ttl` ago are removed when another one ends. `get` and `list` answer synchronously. Errors as those of `LmdbMessageStore`.
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

  /** Most polls find nothing, and a write costs a sync of the disk. */
  override async claim(options: PushClaimOptions): Promise<readonly PushEntry[]> {
    return this.canClaim(options) ? super.claim(options) : [];
  }

  /** Waits for pending writes, and closes the file. Idempotent. */
  close(): Promise<void> {
    return this.#table.close();
  }
}
