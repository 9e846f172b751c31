import { type Clock, type MessageStore, systemClock } from '../../core/contracts/index.ts';
import { aClock, assertOptions, type OptionRules, wholeNumber } from '../../options/option-rules.ts';
import { cacheStoreArguments } from '../cache/cache-store.ts';
import { TableCacheStore } from '../cache/table-cache-store.ts';
import { aTimeToLive, checkArguments, keptMs, messageStoreArguments } from '../check-arguments.ts';
import { notePlace } from '../messages/referred-messages.ts';
import { TableMessageStore } from '../messages/table-message-store.ts';
import { type PushClaimOptions, type PushEntry, pushStoreArguments } from '../push/push-store.ts';
import { TablePushStore } from '../push/table-push-store.ts';
import {
  awaited,
  type Body,
  type KeyPart,
  type Rows,
  type Steps,
  type Table,
  type TableEntry,
  type TableKey,
} from '../table/table.ts';
import { PostgresDatabase, type PostgresOptions, placeOf, postgresRules, type Run } from './postgres-database.ts';
import { decoded, encoded } from './task-rows.ts';

/** Options of `PostgresMessageStore`. */
export interface PostgresMessageStoreOptions extends PostgresOptions {
  /** Replaced in tests. Default: the system clock. */
  readonly clock?: Clock | undefined;
}

const messageRules: OptionRules<PostgresMessageStoreOptions> = { ...postgresRules, clock: aClock };

/**
 * Stores contexts in PostgreSQL, in the tables of a `PostgresStateStore`. Every change is one transaction; those of all processes are
 * serialized. Errors besides the contract's: as those of `PostgresStateStore`. Contexts are kept until `delete`.
 */
export class PostgresMessageStore extends TableMessageStore<'later', 'later'> {
  static {
    checkArguments(PostgresMessageStore.prototype, messageStoreArguments, 'all');
  }

  readonly #table: PostgresTable;

  /** Errors: `INVALID_CONFIG`, `MISSING_PACKAGE`. */
  constructor(options: PostgresMessageStoreOptions) {
    assertOptions('PostgresMessageStore', options, messageRules);
    const { clock = systemClock, ...rest } = options;
    const table = new PostgresTable(new PostgresDatabase('PostgresMessageStore', rest), 'messages');
    super(table, { clock });
    this.#table = table;
    notePlace(this, placeOf(rest));
  }

  /** As that of `PostgresStateStore`: the tables are the same. */
  migrate(): Promise<void> {
    return this.#table.migrate();
  }

  /** Closes the connections once all sent statements are answered. Idempotent. */
  close(): Promise<void> {
    return this.#table.close();
  }
}

/**
 * The conversations of a `PostgresMessageStore`, only read, over the connections of a store of journals. Statements are no transaction: the messages
 * that a journal refers to do not change, and an id tells whether they are still there.
 */
export function conversationsIn(database: PostgresDatabase): MessageStore {
  const table: Table<'later', 'later'> = {
    read: async (prepare) => awaited(prepare()(new PostgresRows((text, values) => database.query(text, values)))),
    write: () => Promise.reject(new TypeError('these conversations are only read')),
  };
  return new TableMessageStore(table, { clock: systemClock });
}

/** Options of `PostgresCacheStore`. */
export interface PostgresCacheStoreOptions extends PostgresOptions {
  /** The maximum number of entries. Default 10,000. */
  readonly maxEntries?: number | undefined;
  /** The maximum size of the values of all entries, as JSON texts in UTF-8. Default 256 MiB. */
  readonly maxBytes?: number | undefined;
  /** Replaced in tests. Default: the system clock. */
  readonly clock?: Clock | undefined;
}

const cacheRules: OptionRules<PostgresCacheStoreOptions> = {
  ...postgresRules,
  maxEntries: wholeNumber(1),
  maxBytes: wholeNumber(1),
  clock: aClock,
};

/**
 * Stores cached values in PostgreSQL, shared by all processes. Beyond `maxEntries` or `maxBytes` the oldest writes are evicted; a value
 * larger than `maxBytes` is not stored at all. An expired entry is evicted as any other. Errors as those of `PostgresMessageStore`; an unreadable entry
 * counts as a miss.
 */
export class PostgresCacheStore extends TableCacheStore<'later', 'later'> {
  static {
    checkArguments(PostgresCacheStore.prototype, cacheStoreArguments, 'all');
  }

  readonly #table: PostgresTable;

  /** Errors: `INVALID_CONFIG`, naming the option; `MISSING_PACKAGE`. */
  constructor(options: PostgresCacheStoreOptions) {
    assertOptions('PostgresCacheStore', options, cacheRules);
    const { clock = systemClock, maxEntries = 10_000, maxBytes = 256 * 1024 * 1024, ...rest } = options;
    const table = new PostgresTable(new PostgresDatabase('PostgresCacheStore', rest), 'cache');
    super(table, { maxEntries, maxBytes, clock });
    this.#table = table;
  }

  /** As that of `PostgresStateStore`: the tables are the same. */
  migrate(): Promise<void> {
    return this.#table.migrate();
  }

  /** Closes the connections once all sent statements are answered. Idempotent. */
  close(): Promise<void> {
    return this.#table.close();
  }
}

/** Options of `PostgresPushStore`. */
export interface PostgresPushStoreOptions extends PostgresOptions {
  /** Seconds that a registration is kept after its last delivery; null keeps it. Default 604,800, a week. */
  readonly ttl?: number | null | undefined;
  /** Replaced in tests. Claims depend on it, so the clocks of all processes must agree. Default: the system clock. */
  readonly clock?: Clock | undefined;
}

const pushRules: OptionRules<PostgresPushStoreOptions> = { ...postgresRules, ttl: aTimeToLive, clock: aClock };

/**
 * Stores registrations in PostgreSQL, shared by all processes. Registrations that ended longer than `ttl` ago are removed when another one ends. Errors as
 * those of `PostgresMessageStore`.
 */
export class PostgresPushStore extends TablePushStore<'later', 'later'> {
  static {
    checkArguments(PostgresPushStore.prototype, pushStoreArguments, 'all');
  }

  readonly #table: PostgresTable;

  /** Errors: `INVALID_CONFIG`, `MISSING_PACKAGE`. */
  constructor(options: PostgresPushStoreOptions) {
    assertOptions('PostgresPushStore', options, pushRules);
    const { ttl = 604_800, clock = systemClock, ...rest } = options;
    const table = new PostgresTable(new PostgresDatabase('PostgresPushStore', rest), 'push');
    super(table, { clock, keepMs: keptMs(ttl), keepMost: Number.POSITIVE_INFINITY });
    this.#table = table;
  }

  /** Most polls find nothing, and writing ones block each other. */
  override async claim(options: PushClaimOptions): Promise<readonly PushEntry[]> {
    return (await this.canClaim(options)) ? super.claim(options) : [];
  }

  /** As that of `PostgresStateStore`: the tables are the same. */
  migrate(): Promise<void> {
    return this.#table.migrate();
  }

  /** Closes the connections once all sent statements are answered. Idempotent. */
  close(): Promise<void> {
    return this.#table.close();
  }
}

/** How long a transaction of a stalled process stays open; then it is rolled back, and blocked transactions continue. */
const idleMs = 10_000;

/** Of a part of a key: sorts numbers before strings. Both are less than what `end` is. */
const [numberTag, stringTag, end] = [1, 2, 0xff];

interface Row {
  readonly key: Buffer;
  readonly value: string;
}

/**
 * Rows in the table `row`. Writing transactions take a lock of their `space`, so those of one store are serialized across all processes.
 * Keys are bytes in the order of their parts, independent of the collation of the database.
 */
export class PostgresTable implements Table<'later', 'later'> {
  readonly #database: PostgresDatabase;
  readonly #lock: string;

  /** `space`: the store within the schema. */
  constructor(database: PostgresDatabase, space: string) {
    this.#database = database;
    this.#lock = `begin; set local idle_in_transaction_session_timeout = ${idleMs}; select pg_advisory_xact_lock(hashtext('millrace $S ${space}'))`;
  }

  migrate(): Promise<void> {
    return this.#database.migrate();
  }

  async read<T>(prepare: () => Body<T>): Promise<T> {
    const body = prepare();
    return this.#database.read((run) => awaited(body(new PostgresRows(run))));
  }

  async write<T>(prepare: () => Body<T>): Promise<T> {
    const body = prepare();
    return this.#database.transaction(async (run) => {
      const rows = new PostgresRows(run);
      const answer = await awaited(body(rows));
      await rows.flush();
      return answer;
    }, this.#lock);
  }

  close(): Promise<void> {
    return this.#database.close();
  }
}

/** The rows within one transaction. Changes are sent at the next range, or at the end. */
class PostgresRows implements Rows {
  readonly #run: Run;
  /** By key, in base64: the new value, or null where it was removed. */
  readonly #changes = new Map<string, string | null>();

  constructor(run: Run) {
    this.#run = run;
  }

  *get(key: TableKey): Steps<string | undefined> {
    const bytes = bytesOf(key);
    const changed = this.#changes.get(bytes.toString('base64'));
    if (changed !== undefined) return changed ?? undefined;
    const rows = yield* waitFor(this.#run<Row>('select value from $S.row where key = $1', [bytes]));
    const [row] = rows;
    return row && decoded(row.value);
  }

  *range(
    prefix: TableKey,
    { from, to, limit }: { from?: KeyPart | undefined; to?: KeyPart | undefined; limit?: number | undefined } = {},
  ): Steps<readonly TableEntry[]> {
    if (this.#changes.size > 0) yield* waitFor(this.flush());
    const start = bytesOf(from === undefined ? prefix : [...prefix, from]);
    const stop = to === undefined ? Buffer.concat([bytesOf(prefix), Buffer.of(end)]) : bytesOf([...prefix, to]);
    const rows = yield* waitFor(
      this.#run<Row>('select key, value from $S.row where key >= $1 and key < $2 order by key limit $3', [
        start,
        stop,
        limit === undefined || limit === Number.POSITIVE_INFINITY ? null : limit,
      ]),
    );
    return rows.map(({ key, value }) => ({ key: keyOf(key), value: decoded(value) }));
  }

  put(key: TableKey, value: string): void {
    this.#changes.set(bytesOf(key).toString('base64'), encoded(value));
  }

  remove(key: TableKey): void {
    this.#changes.set(bytesOf(key).toString('base64'), null);
  }

  async flush(): Promise<void> {
    const changes = [...this.#changes];
    this.#changes.clear();
    const removed = changes.flatMap(([key, value]) => (value === null ? [key] : []));
    const put = changes.flatMap(([key, value]) => (value === null ? [] : [{ key, value }]));
    if (removed.length > 0) {
      await this.#run(`delete from $S.row where key = any(select decode(k, 'base64') from unnest($1::text[]) k)`, [
        removed,
      ]);
    }
    if (put.length === 0) return;
    await this.#run(
      `insert into $S.row (key, value) select decode(k, 'base64'), v from unnest($1::text[], $2::text[]) as given (k, v)
       on conflict (key) do update set value = excluded.value`,
      [put.map(({ key }) => key), put.map(({ value }) => value)],
    );
  }
}

/** Awaits a promise as a step of a transaction. */
function* waitFor<T>(promise: Promise<T>): Steps<T> {
  const answers: T[] = [];
  yield promise.then((answer) => {
    answers.push(answer);
  });
  const [answer] = answers;
  if (answers.length === 0) throw new TypeError('A step of a transaction went on before it was answered.');
  // biome-ignore lint/style/noNonNullAssertion: there is one.
  return answer!;
}

/** Numbers are eight bytes that sort as their values; strings end with two zero bytes, and a zero inside is followed by U+10FFFF, so that it sorts after the end. */
function bytesOf(key: TableKey): Buffer {
  const parts: Buffer[] = [];
  for (const part of key) {
    if (typeof part === 'number') {
      const bytes = Buffer.alloc(9);
      bytes[0] = numberTag;
      bytes.writeDoubleBE(part === 0 ? 0 : part, 1);
      // A negative number is inverted whole, another one in its sign.
      const isNegative = part < 0;
      for (let index = 1; index < 9; index++) {
        const byte = bytes[index] ?? 0;
        bytes[index] = isNegative ? byte ^ 0xff : index === 1 ? byte ^ 0x80 : byte;
      }
      parts.push(bytes);
    } else {
      const text = part.replaceAll('\0', '\0\u{10ffff}');
      parts.push(Buffer.of(stringTag), Buffer.from(text), Buffer.of(0, 0));
    }
  }
  return Buffer.concat(parts);
}

function keyOf(bytes: Buffer): TableKey {
  const key: TableKey = [];
  for (let at = 0; at < bytes.length; ) {
    if (bytes[at] === numberTag) {
      const number = Buffer.from(bytes.subarray(at + 1, at + 9));
      const isNegative = ((number[0] ?? 0) & 0x80) === 0;
      for (let index = 0; index < 8; index++) {
        const byte = number[index] ?? 0;
        number[index] = isNegative ? byte ^ 0xff : index === 0 ? byte ^ 0x80 : byte;
      }
      key.push(number.readDoubleBE());
      at += 9;
    } else {
      const stop = bytes.indexOf('\0\0', at + 1);
      key.push(bytes.toString('utf8', at + 1, stop).replaceAll('\0\u{10ffff}', '\0'));
      at = stop + 2;
    }
  }
  return key;
}
