import { AgentLoopError, systemClock } from '../../core/contracts/index.ts';
import { settled } from '../../core/streams/index.ts';
import { aBoolean, anything, type OptionRules } from '../../options/option-rules.ts';
import {
  assertPostgresTarget,
  assertSchemaName,
  isBroken,
  newerTables,
  notMigrated,
  openPool,
  type PgClient,
  type PgPool,
  type PooledClient,
  type PostgresTarget,
  postgresError,
  secretOf,
  storeClosed,
} from './postgres-target.ts';

/** Options of all stores in a database. */
export interface PostgresOptions {
  /** A URL (`postgres://user:password@host/database`), or options of `pg`. */
  readonly postgres: PostgresTarget;
  /** The schema of the tables. Default `millrace`. */
  readonly schema?: string | undefined;
  /** Whether the first call migrates the tables, as `migrate()` does. Default false. */
  readonly migrate?: boolean | undefined;
}

/** For the options of a store; the constructor below checks their values. */
export const postgresRules: OptionRules<PostgresOptions> = { postgres: anything, schema: anything, migrate: aBoolean };

/** Runs statements; within a transaction, all on one connection. */
export type Run = <Row>(text: string, values?: readonly unknown[]) => Promise<readonly Row[]>;

/** How long `close` waits for statements in flight, each of which has a limit of its own (`query_timeout`). */
const closeMs = 15_000;
/** How long the server has to close a connection after the goodbye. */
export const goodbyeMs = 2_000;

/** How often an idempotent statement is sent while connections break. */
const maxSends = 3;
const readOnly = 'begin isolation level repeatable read read only';

const defaultSchema = 'millrace';

/** The server and schema of a store. */
export function placeOf({ postgres, schema = defaultSchema }: PostgresOptions): readonly unknown[] {
  return [postgres, schema];
}

/**
 * Statements on a pool of connections. `$S` in a statement is the schema. Statements are not named, since poolers that lend a connection for one
 * transaction cannot keep them. Errors: `UNAVAILABLE`, `FULL`, `SCHEMA`.
 */
export class PostgresDatabase {
  readonly schema: string;
  readonly target: PostgresTarget;
  readonly #owner: string;
  readonly #pool: PgPool;
  readonly #secret: string | undefined;
  readonly #migrates: boolean;
  #ready: Promise<void> | undefined;
  #closing: Promise<void> | undefined;
  /** Statements and transactions in flight. */
  readonly #sent = new Set<Promise<unknown>>();

  /** `owner`: the class, for messages. Errors: `INVALID_CONFIG`, `MISSING_PACKAGE`. */
  constructor(owner: string, { postgres, schema = defaultSchema, migrate = false }: PostgresOptions) {
    assertPostgresTarget('postgres', postgres);
    assertSchemaName(schema);
    this.#owner = owner;
    this.schema = schema;
    this.target = postgres;
    this.#secret = secretOf(postgres);
    this.#migrates = migrate;
    this.#pool = openPool(postgres);
  }

  get isClosed(): boolean {
    return this.#closing !== undefined;
  }

  /**
   * One statement, which is one transaction, after the tables were checked. It must be idempotent: if
   * its connection breaks it is sent on another one, since only the response may be lost. `taskId`: for messages.
   */
  query<Row>(text: string, values: readonly unknown[] = [], taskId?: string): Promise<readonly Row[]> {
    return this.#whenReady(() => this.#run(text, values, { taskId, sends: maxSends }));
  }

  /** The same for a statement that is not idempotent: `UNAVAILABLE` if its connection breaks. */
  queryOnce<Row>(text: string, values: readonly unknown[] = [], taskId?: string): Promise<readonly Row[]> {
    return this.#whenReady(() => this.#run(text, values, { taskId, sends: 1 }));
  }

  async #run<Row>(
    text: string,
    values: readonly unknown[],
    { taskId, sends }: { readonly taskId?: string | undefined; readonly sends: number },
  ): Promise<readonly Row[]> {
    for (let send = 1; ; send++) {
      if (this.#closing) throw storeClosed(this.#owner);
      try {
        const { rows } = await this.#pool.query<Row>(this.#named(text), values);
        return rows;
      } catch (error) {
        if (send >= sends || !isBroken(error)) throw this.errorOf(error, taskId);
      }
    }
  }

  /**
   * Several statements on one connection, atomically. `begin` may set the transaction's mode. If the connection breaks before the
   * commit is sent, `body` runs again on another one.
   */
  transaction<T>(body: (run: Run) => Promise<T>, begin = 'begin'): Promise<T> {
    return this.#whenReady(() => this.#transaction(body, begin));
  }

  /** Several statements that see one snapshot and write nothing: `body` also runs again if the connection breaks at the commit. */
  read<T>(body: (run: Run) => Promise<T>): Promise<T> {
    return this.#whenReady(() => this.#transaction(body, readOnly));
  }

  /** Migrates the tables. Several processes may do so at once. Errors: `SCHEMA` if they are newer than this version. */
  migrate(): Promise<void> {
    return this.#tracked(this.#migrate());
  }

  async #migrate(): Promise<void> {
    await this.#transaction(async (run) => {
      await run('select pg_advisory_xact_lock(hashtext($1))', [`millrace ${this.schema}`]);
      const [found] = await run<{ readonly is_there: boolean }>(
        'select exists (select from pg_namespace where nspname = $1) as is_there',
        [this.schema],
      );
      if (!found?.is_there) await run('create schema $S');
      await run(
        'create table if not exists $S.migration (version int primary key, applied_at timestamptz not null default clock_timestamp())',
      );
      const version = await this.#version(run);
      if (version > migrations.length) throw newerTables(this.schema, version, migrations.length);
      for (const [index, step] of migrations.entries()) {
        if (index < version) continue;
        await run(step);
        await run('insert into $S.migration (version) values ($1)', [index + 1]);
      }
    }, 'begin');
    this.#ready = Promise.resolve();
  }

  errorOf(thrown: unknown, taskId?: string): AgentLoopError {
    return postgresError(thrown, this.#secret, taskId);
  }

  /** Closes the connections once all sent statements are answered. Idempotent. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** A pool that ends drops the statements that wait for one of its connections: they would never settle. */
  async #close(): Promise<void> {
    await settled(closeMs, systemClock, Promise.allSettled(this.#sent));
    await settled(goodbyeMs, systemClock, this.#pool.end());
  }

  #whenReady<T>(work: () => Promise<T>): Promise<T> {
    this.#ready ??= this.#prepare();
    return this.#tracked(this.#ready.then(work));
  }

  #tracked<T>(work: Promise<T>): Promise<T> {
    this.#sent.add(work);
    return work.finally(() => this.#sent.delete(work));
  }

  /** A failure is not cached: the next call checks again. */
  async #prepare(): Promise<void> {
    try {
      if (this.#migrates) return await this.#migrate();
      const version = await this.#version((text, values) => this.#run(text, values ?? [], { sends: maxSends }));
      if (version > migrations.length) throw newerTables(this.schema, version, migrations.length);
      if (version < migrations.length) {
        throw notMigrated(`the schema "${this.schema}" has version ${version} of ${migrations.length}`);
      }
    } catch (error) {
      this.#ready = undefined;
      throw error;
    }
  }

  async #version(run: Run): Promise<number> {
    const [row] = await run<{ readonly version: number | null }>('select max(version) as version from $S.migration');
    return row?.version ?? 0;
  }

  async #transaction<T>(body: (run: Run) => Promise<T>, begin: string): Promise<T> {
    for (let send = 1; ; send++) {
      if (this.#closing) throw storeClosed(this.#owner);
      const client = await this.#connection();
      let isOver = false;
      const run: Run = async <Row>(text: string, values?: readonly unknown[]) => {
        const { rows } = await client.query<Row>(this.#named(text), values);
        return rows;
      };
      try {
        await run(begin);
        const answer = await body(run);
        isOver = begin !== readOnly;
        await run('commit');
        client.release();
        return answer;
      } catch (error) {
        await this.#rollBack(client);
        if (AgentLoopError.isInstance(error)) throw error;
        if (send >= maxSends || isOver || !isBroken(error)) throw this.errorOf(error);
      }
    }
  }

  async #connection(): Promise<PooledClient> {
    try {
      return await this.#pool.connect();
    } catch (error) {
      throw this.errorOf(error);
    }
  }

  /** A connection whose rollback fails is not used again. */
  async #rollBack(client: Pick<PgClient, 'query'> & PooledClient): Promise<void> {
    try {
      await client.query('rollback');
      client.release();
    } catch {
      client.release(true);
    }
  }

  #named(text: string): string {
    return text.replaceAll('$S', this.schema);
  }
}

/**
 * The tables, as numbered migrations: the n-th brings a database from version n - 1 to n. A released migration is never changed. `$S` is
 * the schema.
 *
 * `task` has no index on columns that every append changes (`seq`, `expires`, `updated_at`, `bytes`), so that its updates stay in the page (HOT).
 * `row` contains the data of the other stores. Records are `text`: `jsonb` refuses U+0000 and does not keep the bytes.
 */
const migrations: readonly string[] = [
  `
create table $S.task (
  task_id text collate "C" primary key,
  n bigserial not null,
  context_id text collate "C" not null,
  context_group text collate "C",
  agent_id text collate "C" not null,
  parent_id text collate "C",
  schema int not null,
  state text collate "C" not null,
  ended boolean not null default false,
  seq int not null,
  call_seq int not null default 0,
  commands int not null default 0,
  bytes bigint not null,
  epoch bigint not null default 0,
  owner text collate "C",
  nonce text collate "C",
  expires bigint not null default 0,
  lease_ms bigint not null default 0,
  abandoned_at bigint,
  under_id text collate "C",
  under_epoch bigint,
  created_at bigint not null,
  updated_at bigint not null,
  status_at bigint not null,
  delete_at bigint
) with (fillfactor = 70);
create unique index task_n on $S.task (n desc);
create index task_state on $S.task (state, n desc);
create index task_context on $S.task (md5(context_id), n desc);
create index task_parent on $S.task (parent_id, n desc) where parent_id is not null;
create index task_group on $S.task (md5(context_group), status_at desc, task_id desc) where context_group is not null;
create index task_open on $S.task (n desc) where state in ('submitted', 'working');
create index task_delete_at on $S.task (delete_at) where delete_at is not null;

create table $S.record (
  task_id text collate "C" not null references $S.task on delete cascade,
  seq int not null,
  record text not null,
  primary key (task_id, seq)
);

create table $S.command (
  task_id text collate "C" not null references $S.task on delete cascade,
  n int not null,
  id text collate "C" not null,
  command text not null,
  primary key (task_id, n),
  unique (task_id, id)
);

create unlogged table $S.delta (
  n bigserial primary key,
  task_id text collate "C" not null,
  seq int not null,
  epoch bigint not null,
  deltas text not null
);
create index delta_task on $S.delta (task_id, n);
`,
  `
create table $S.row (
  key bytea primary key,
  value text not null
);
`,
  `
alter table $S.task add column due_at bigint not null default 0;
create index task_free on $S.task (n desc) where state in ('submitted', 'working') and due_at = 0;
create index task_later on $S.task (due_at) where state in ('submitted', 'working') and due_at > 0;
drop index $S.task_open;
`,
];
