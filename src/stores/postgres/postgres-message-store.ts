import { type Clock, systemClock } from '../../core/contracts/index.ts';
import { checkArguments, messageStoreArguments } from '../check-arguments.ts';
import { assertKnownOptions, type OptionNames } from '../known-options.ts';
import { TableMessageStore } from '../messages/table-message-store.ts';
import type { PostgresOptions } from './postgres-database.ts';
import { PostgresTable } from './postgres-table.ts';

export interface PostgresMessageStoreOptions extends PostgresOptions {
  /** Replaced by tests. Default: the system's. */
  readonly clock?: Clock | undefined;
}

const optionNames: OptionNames<PostgresMessageStoreOptions> = {
  postgres: true,
  schema: true,
  migrate: true,
  clock: true,
};

/**
 * Keeps contexts in PostgreSQL, in the tables of a `PostgresStateStore`. Every change is one transaction; those of all processes run one after the
 * other. Errors besides the contract's: as those of `PostgresStateStore`. Contexts are kept until `delete`.
 */
export class PostgresMessageStore extends TableMessageStore<'later', 'later'> {
  static {
    const promising = ['begin', 'append', 'setAgent', 'load', 'list', 'setMetadata', 'contexts', 'delete'] as const;
    checkArguments(PostgresMessageStore.prototype, messageStoreArguments, promising);
  }

  readonly #table: PostgresTable;

  /** Errors: `INVALID_CONFIG`, `MISSING_PACKAGE`. */
  constructor(options: PostgresMessageStoreOptions) {
    assertKnownOptions('PostgresMessageStore', options, optionNames);
    const { clock = systemClock, ...rest } = options;
    const table = new PostgresTable('PostgresMessageStore', 'messages', rest);
    super(table, { clock });
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
