import { type Clock, invalidConfig, shownValue, systemClock } from '../../core/contracts/index.ts';
import { checkArguments, pushStoreArguments } from '../check-arguments.ts';
import { assertKnownOptions, type OptionNames } from '../known-options.ts';
import type { PushClaimOptions, PushEntry } from '../push/push-store.ts';
import { TablePushStore } from '../push/table-push-store.ts';
import type { PostgresOptions } from './postgres-database.ts';
import { PostgresTable } from './postgres-table.ts';

export interface PostgresPushStoreOptions extends PostgresOptions {
  /** Seconds that a registration is kept once there is nothing to deliver any more; null keeps it. Default 604,800, a week. */
  readonly ttl?: number | null | undefined;
  /** Replaced by tests. Claims run on it, so the clocks of all processes have to agree. Default: the system's. */
  readonly clock?: Clock | undefined;
}

const optionNames: OptionNames<PostgresPushStoreOptions> = {
  postgres: true,
  schema: true,
  migrate: true,
  ttl: true,
  clock: true,
};

/**
 * Keeps registrations in PostgreSQL, shared by all processes. Those that are over for longer than `ttl` go when another is over. Errors as those of
 * `PostgresMessageStore`.
 */
export class PostgresPushStore extends TablePushStore<'later', 'later'> {
  static {
    const promising = ['add', 'get', 'list', 'delete', 'claim', 'update'] as const;
    checkArguments(PostgresPushStore.prototype, pushStoreArguments, promising);
  }

  readonly #table: PostgresTable;

  /** Errors: `INVALID_CONFIG`, `MISSING_PACKAGE`. */
  constructor(options: PostgresPushStoreOptions) {
    assertKnownOptions('PostgresPushStore', options, optionNames);
    const { ttl = 604_800, clock = systemClock, ...rest } = options;
    if (ttl !== null && !(Number.isSafeInteger(ttl) && ttl >= 1)) {
      throw invalidConfig(
        `ttl of PostgresPushStore is ${shownValue(ttl)}`,
        'give a whole number of seconds from 1, or null',
      );
    }
    const table = new PostgresTable('PostgresPushStore', 'push', rest);
    const keepMs = ttl === null ? Number.POSITIVE_INFINITY : ttl * 1_000;
    super(table, { clock, keepMs, keepMost: Number.POSITIVE_INFINITY });
    this.#table = table;
  }

  /** Most looks find nothing, and those that write wait for each other. */
  override async claim(options: PushClaimOptions): Promise<readonly PushEntry[]> {
    return (await this.canClaim(options)) ? super.claim(options) : [];
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
