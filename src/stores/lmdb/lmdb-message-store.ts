import { type Clock, systemClock } from '../../core/contracts/index.ts';
import { checkArguments, messageStoreArguments } from '../check-arguments.ts';
import { assertKnownOptions, type OptionNames } from '../known-options.ts';
import { TableMessageStore } from '../messages/table-message-store.ts';
import { LmdbTable } from './lmdb-table.ts';

export interface LmdbMessageStoreOptions {
  /** The folder of the store, made where it is missing; on a local disk. May be that of an `LmdbStateStore`. */
  readonly path: string;
  /** Replaced by tests. Default: the system's. */
  readonly clock?: Clock | undefined;
}

const optionNames: OptionNames<LmdbMessageStoreOptions> = { path: true, clock: true };

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
    assertKnownOptions('LmdbMessageStore', options, optionNames);
    const table = new LmdbTable(options.path);
    super(table, { clock: options.clock ?? systemClock });
    this.#table = table;
  }

  /** Waits for what was sent to be written, and closes the file. Again: does nothing. */
  close(): Promise<void> {
    return this.#table.close();
  }
}
