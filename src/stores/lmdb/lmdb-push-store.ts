import { type Clock, invalidConfig, shownValue, systemClock } from '../../core/contracts/index.ts';
import { checkArguments, pushStoreArguments } from '../check-arguments.ts';
import { assertKnownOptions, type OptionNames } from '../known-options.ts';
import type { PushClaimOptions, PushEntry } from '../push/push-store.ts';
import { TablePushStore } from '../push/table-push-store.ts';
import { LmdbTable } from './lmdb-table.ts';

export interface LmdbPushStoreOptions {
  /** The folder of the store, made where it is missing; on a local disk. May be that of other LMDB stores. */
  readonly path: string;
  /** Seconds that a registration is kept once there is nothing to deliver any more; null keeps it. Default 604,800, a week. */
  readonly ttl?: number | null | undefined;
  /** Replaced by tests. Default: the system's. */
  readonly clock?: Clock | undefined;
}

const optionNames: OptionNames<LmdbPushStoreOptions> = { path: true, ttl: true, clock: true };

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
    assertKnownOptions('LmdbPushStore', options, optionNames);
    const { path, ttl = 604_800, clock = systemClock } = options;
    if (ttl !== null && !(Number.isSafeInteger(ttl) && ttl >= 1))
      throw invalidConfig(
        `ttl of LmdbPushStore is ${shownValue(ttl)}`,
        'give a whole number of seconds from 1, or null',
      );
    const table = new LmdbTable(path);
    const keepMs = ttl === null ? Number.POSITIVE_INFINITY : ttl * 1_000;
    super(table, { clock, keepMs, keepMost: Number.POSITIVE_INFINITY });
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
