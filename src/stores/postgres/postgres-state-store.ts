import { randomInt, randomUUID } from 'node:crypto';
import type { Observable } from 'rxjs';
import type {
  AppendOptions,
  Command,
  Delta,
  FollowSignal,
  Lease,
  MessageStore,
  PostOptions,
  ReadOptions,
  StoreCheck,
  TaskQuery,
  TaskStateStore,
  TaskSummary,
  Under,
} from '../../core/contracts/index.ts';
import {
  isTerminal,
  type JournalRecord,
  journalSchema,
  type PersistedLoopState,
  type Stamped,
  type TurnStarted,
} from '../../core/journal/index.ts';
import { anything, assertOptions, type OptionRules } from '../../options/option-rules.ts';
import { aTimeToLive, checkArguments, keptMs, stateStoreArguments } from '../check-arguments.ts';
import { followMessages, isAt, withMessages, withReference } from '../messages/referred-messages.ts';
import {
  assertTaskId,
  busy,
  ended,
  fenced,
  firstSeq,
  loadedState,
  newerSchema,
  notFound,
  recordJson,
  takesAtOnce,
} from '../store-rules.ts';
import { groupOf } from '../task-summary.ts';
import { checkServer } from './check-server.ts';
import { DeltaFeed } from './delta-feed.ts';
import { followTask, listenCommands } from './follow-task.ts';
import { headOf, JournalWriter, readJournal } from './journal.ts';
import { PostgresDatabase, type PostgresOptions, placeOf, postgresRules } from './postgres-database.ts';
import { conversationsIn, PostgresMessageStore } from './postgres-side-stores.ts';
import { assertPostgresTarget, type PostgresTarget } from './postgres-target.ts';
import {
  decoded,
  deleteTask,
  encoded,
  type HeadRow,
  headColumns,
  listStatement,
  postCommand,
  recordOf,
  serverNow,
  summaryOfRow,
  sweepTasks,
} from './task-rows.ts';
import { WakeUps } from './wake-ups.ts';

/** Options of `PostgresStateStore`. */
export interface PostgresStateStoreOptions extends PostgresOptions {
  /** Seconds that a task is kept after its turn has ended; null keeps it. Default 86,400. Unfinished work does not expire. */
  readonly ttl?: number | null | undefined;
  /**
   * How changes of other processes are detected: `true` (default), by a listening connection outside the pool, and a poll each second; another
   * target for that connection, if `postgres` is a transaction-level pooler, which does not deliver notifications; `false`, by a poll
   * every 250 ms.
   */
  readonly listen?: boolean | PostgresTarget | undefined;
}

const rules: OptionRules<PostgresStateStoreOptions> = { ...postgresRules, ttl: aTimeToLive, listen: anything };

/** The maximum increment of an epoch: large enough that an epoch lost in a failover is not granted again. */
const maxEpochStep = 2 ** 31;
/** The interval between deletions of expired tasks. */
const sweepEveryMs = 60_000;

const createStatement = `
with task as (
  insert into $S.task (task_id, context_id, context_group, agent_id, parent_id, schema, state, seq, bytes, created_at, updated_at, status_at, nonce)
  values ($1, $2, $3, $4, $5, $6, 'submitted', 1, $7, $8, $8, $8, $10)
  on conflict do nothing returning task_id)
insert into $S.record (task_id, seq, record) select task_id, 1, $9 from task returning task_id`;

/** The stored task of that id, and the call that created it unless it was acquired since. */
const standingStatement = `
select r.record, t.nonce from $S.record r join $S.task t on t.task_id = r.task_id where r.task_id = $1 and r.seq = 1`;

/**
 * The previous head, and the epoch if the lease was granted. Calls have a nonce: a granted call that is sent again gets
 * the same epoch while it holds the lease, and nothing once it has released it.
 */
const acquireStatement = `
with t as (select * from $S.task where task_id = $1 for update),
granted as (
  update $S.task set owner = $2, epoch = case when t.nonce = $8 then t.epoch else t.epoch + $3::int8 end, expires = ${serverNow} + $4::int8,
    lease_ms = $4::int8, call_seq = 0, nonce = $8, abandoned_at = null, under_id = coalesce($6, t.under_id),
    under_epoch = case when $6::text is null then t.under_epoch else $7::int8 end
  from t where task.task_id = t.task_id and not t.ended and t.schema <= $5::int
    and case when t.nonce = $8 then t.owner = $2
      else t.owner is null or t.expires <= ${serverNow} or coalesce(t.under_id = $6 and t.under_epoch < $7::int8, false) end
    and not coalesce(t.under_id = $6 and t.under_epoch > $7::int8, false)
  returning task.epoch)
select ${headColumns}, (select granted.epoch::float8 from granted) as granted from t`;

/**
 * Stores journals in PostgreSQL 13 or newer.
 *
 * Every change of a task is one statement and so one atomic transaction. Leases use the server's clock. Nothing is
 * connected before the first call, and no table is created unless `migrate()` is called or the option is set. Appends of one task are sent in
 * sequence; waiting ones are merged. Readers share one listening connection, and a poll.
 *
 * Errors besides the contract's: `UNAVAILABLE` (the server is down, shuts down or is read-only), `FULL` (disk or memory), both retryable;
 * `UNAVAILABLE`, not retryable, if the server refuses the user or the database; `SCHEMA` if the tables are missing, older or newer. `INVALID_CONFIG`
 * and `MISSING_PACKAGE` at construction.
 *
 * Memory in this process: appends in flight, and the last page of each read.
 */
export class PostgresStateStore implements TaskStateStore {
  static {
    checkArguments<TaskStateStore>(PostgresStateStore.prototype, stateStoreArguments);
  }

  readonly #database: PostgresDatabase;
  readonly #writer: JournalWriter;
  readonly #wakeUps: WakeUps;
  readonly #deltas: DeltaFeed;
  readonly #options: PostgresOptions;
  #messages: PostgresMessageStore | undefined;
  readonly #conversations: MessageStore;
  readonly #listen: PostgresTarget | false;
  #sweepAt = 0;
  #closing: Promise<void> | undefined;

  constructor(options: PostgresStateStoreOptions) {
    assertOptions('PostgresStateStore', options, rules);
    const { ttl = 86_400, listen = true } = options;
    if (typeof listen !== 'boolean') assertPostgresTarget('listen', listen);
    const { postgres, schema, migrate } = options;
    this.#options = { postgres, schema, migrate };
    this.#database = new PostgresDatabase('PostgresStateStore', this.#options);
    this.#conversations = conversationsIn(this.#database);
    this.#listen = listen === true ? this.#database.target : listen;
    this.#wakeUps = new WakeUps({ database: this.#database, listen: this.#listen });
    this.#deltas = new DeltaFeed({ database: this.#database, sent: (taskId) => this.#wakeUps.ring(taskId, 'record') });
    this.#writer = new JournalWriter({
      database: this.#database,
      keepMs: ttl === null ? null : keptMs(ttl),
      written: (taskId) => this.#wakeUps.ring(taskId, 'record'),
    });
  }

  /** Migrates the tables; several processes may do so at once. Errors: `SCHEMA` if a newer version created them. */
  migrate(): Promise<void> {
    return this.#database.migrate();
  }

  /** In the same schema, with its own connections. Closed with this store. */
  get messages(): MessageStore {
    this.#messages ??= new PostgresMessageStore(this.#options);
    return this.#messages;
  }

  refersTo(messages: MessageStore): boolean {
    return isAt(messages, placeOf(this.#options));
  }

  async create(
    taskId: string,
    started: Stamped<TurnStarted>,
  ): Promise<{ readonly created: boolean; readonly started: Stamped<TurnStarted> }> {
    this.#sweep();
    const { contextId, agentId, schema, at, parent } = started;
    const text = recordJson(started, taskId);
    const group = groupOf(contextId);
    const nonce = randomUUID();
    const values = [
      taskId,
      encoded(contextId),
      group === undefined ? null : encoded(group),
      encoded(agentId),
      parent ? encoded(parent.taskId) : null,
      schema,
      Buffer.byteLength(text),
      at,
      text,
      nonce,
    ];
    for (;;) {
      const created = await this.#database.query(createStatement, values, taskId);
      if (created.length > 0) return { created: true, started };
      const [row] = await this.#database.query<{ readonly record: string; readonly nonce: string | null }>(
        standingStatement,
        [taskId],
        taskId,
      );
      // Created by this call, whose first response was lost.
      if (row?.nonce === nonce) return { created: true, started };
      const standing = row && recordOf(row.record, taskId, 1);
      // Deleted meanwhile: retry.
      if (standing?.type === 'turn.started') return { created: false, started: { ...standing, seq: 1, epoch: 0 } };
    }
  }

  async acquire(taskId: string, owner: string, leaseMs: number, under?: Under): Promise<Lease> {
    const step = randomInt(1, maxEpochStep);
    const [row] = await this.#database.query<HeadRow & { readonly granted: number | null }>(
      acquireStatement,
      [taskId, encoded(owner), step, leaseMs, journalSchema, under?.taskId ?? null, under?.epoch ?? null, randomUUID()],
      taskId,
    );
    if (row === undefined) throw notFound(taskId);
    const { granted, expires, now } = row;
    if (granted === null) {
      if (row.schema > journalSchema) throw newerSchema(taskId, row.schema);
      if (row.ended) throw ended(taskId);
      takesAtOnce(taskId, underOf(row), under);
      throw busy(taskId, Math.max(1, expires - now));
    }
    const abandonedAt = row.owner === null ? row.abandoned_at : expires - row.lease_ms;
    this.#wakeUps.ring(taskId, 'record');
    return { taskId, owner, epoch: granted, seq: row.seq, leaseMs, abandonedAt };
  }

  append(lease: Lease, records: readonly JournalRecord[], options: AppendOptions): Promise<void> {
    const { taskId } = lease;
    // Deltas that were published before precede these records.
    if (this.#deltas.isWaiting(taskId)) {
      this.#writer.closeGroup(taskId);
      this.#writer.inLine(taskId, () => this.#deltas.flush(taskId)).catch(() => {});
    }
    this.#deltas.note(lease, records);
    const appended = this.#writer.append(lease, records.map(withReference), options);
    if (records.some(isTerminal)) {
      appended.then(
        () => this.#deltas.forget(taskId),
        () => {},
      );
    }
    return appended;
  }

  async renew(lease: Lease): Promise<void> {
    const { taskId, owner, epoch, leaseMs } = lease;
    const renewed = await this.#database.query(
      `update $S.task set expires = ${serverNow} + $4::int8, lease_ms = $4::int8 where task_id = $1 and owner = $2 and epoch = $3::int8 returning 1`,
      [taskId, encoded(owner), epoch, leaseMs],
      taskId,
    );
    if (renewed.length > 0) return;
    await headOf(this.#database, taskId);
    throw fenced(lease);
  }

  /** After this store's appends in flight. */
  async release(lease: Lease, abandonedAt?: number): Promise<void> {
    const { taskId, owner, epoch } = lease;
    this.#writer.closeGroup(taskId);
    await this.#writer.inLine(taskId, async () => {
      await this.#deltas.flush(taskId);
      await this.#database.query(
        'update $S.task set owner = null, abandoned_at = $4::int8 where task_id = $1 and owner = $2 and epoch = $3::int8',
        [taskId, encoded(owner), epoch, abandonedAt ?? null],
        taskId,
      );
    });
    this.#deltas.forget(taskId);
  }

  async breakLease(taskId: string): Promise<boolean> {
    const broken = await this.#database.queryOnce(
      `update $S.task set owner = null, epoch = epoch + $2::int8, abandoned_at = expires - lease_ms
       where task_id = $1 and owner is not null and not ended returning 1`,
      [taskId, randomInt(1, maxEpochStep)],
      taskId,
    );
    if (broken.length === 0) await headOf(this.#database, taskId);
    return broken.length > 0;
  }

  /** Errors with `NOT_FOUND` if there is no such task; silent once it is deleted, and while the server is down. */
  commands(taskId: string): Observable<Command> {
    return listenCommands({ database: this.#database, wakeUps: this.#wakeUps }, taskId);
  }

  async post(taskId: string, command: Command, options: PostOptions = {}): Promise<Command | undefined> {
    const standing = await postCommand(this.#database, { taskId, command, options });
    this.#wakeUps.ring(taskId, 'command');
    return standing;
  }

  async read(taskId: string, options: ReadOptions = {}): Promise<readonly JournalRecord[]> {
    assertTaskId(taskId);
    return withMessages(await readJournal(this.#database, taskId, firstSeq(options)), () => this.#conversations);
  }

  /**
   * Waits if the server is down; after 30 s it errors with `UNAVAILABLE`. Errors with `REWOUND` if the server came back without records that
   * were emitted.
   */
  follow(taskId: string, options: ReadOptions = {}): Observable<FollowSignal> {
    const deps = { database: this.#database, wakeUps: this.#wakeUps };
    return followMessages(followTask(deps, taskId, firstSeq(options)), () => this.#conversations);
  }

  /** Collected for 20 ms, and sent before the next append. */
  publish(taskId: string, delta: Delta): void {
    this.#deltas.add(taskId, delta);
  }

  async load(taskId: string): Promise<PersistedLoopState | null> {
    return loadedState(this.read(taskId));
  }

  async describe(taskId: string): Promise<TaskSummary | null> {
    const text = `select ${headColumns} from $S.task t where t.task_id = $1`;
    const [row] = await this.#database.query<HeadRow>(text, [taskId], taskId);
    return row ? summaryOfRow(row) : null;
  }

  /** The newest first, or as `byStatus` says; from indexes that change with the journals. */
  async list(query: TaskQuery = {}): Promise<readonly TaskSummary[]> {
    const { text, values } = listStatement(query);
    const rows = await this.#database.query<HeadRow>(text, values);
    const { afterTaskId } = query;
    if (rows.length === 0 && afterTaskId !== undefined && !(await this.describe(afterTaskId)))
      throw notFound(afterTaskId);
    return rows.map(summaryOfRow);
  }

  /** In one transaction with its child turns. */
  async delete(taskId: string): Promise<void> {
    const gone = await this.#database.transaction((run) => deleteTask(run, taskId));
    for (const member of gone) {
      this.#deltas.forget(member);
      this.#wakeUps.ring(member, 'record');
    }
  }

  /** Checks the version, its tables, persistence, and whether notifications arrive. Errors: `UNAVAILABLE`. */
  check(): Promise<StoreCheck> {
    return checkServer(this.#database, this.#listen);
  }

  /** Waits for all sent statements, errors the readers with `UNAVAILABLE`, and closes the connections. Idempotent. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.#writer.settled();
    await this.#deltas.close();
    await Promise.all([this.#wakeUps.close(() => this.#database.close()), this.#messages?.close()]);
  }

  /** At most every minute, when a task is created. */
  #sweep(): void {
    const now = performance.now();
    if (now < this.#sweepAt) return;
    this.#sweepAt = now + sweepEveryMs;
    sweepTasks(this.#database).catch(() => {});
  }
}

function underOf({ under_id: taskId, under_epoch: epoch }: HeadRow): Under | undefined {
  return taskId === null || epoch === null ? undefined : { taskId: decoded(taskId), epoch };
}
