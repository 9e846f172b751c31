import { randomUUID } from 'node:crypto';
import { resolve } from 'node:path';
import type { Observable } from 'rxjs';
import {
  AgentLoopError,
  type AppendOptions,
  type Clock,
  type Command,
  type Delta,
  type FollowSignal,
  type Lease,
  type MessageStore,
  type PostOptions,
  type ReadOptions,
  type StoreCheck,
  systemClock,
  type TaskQuery,
  type TaskStateStore,
  type TaskSummary,
  type Under,
} from '../../core/contracts/index.ts';
import {
  foldRecords,
  type JournalRecord,
  type PersistedLoopState,
  type Stamped,
  type TurnStarted,
  toPersisted,
} from '../../core/journal/index.ts';
import { aClock, anything, assertOptions, milliseconds, type OptionRules } from '../../options/option-rules.ts';
import { aTimeToLive, checkArguments, keptMs, stateStoreArguments } from '../check-arguments.ts';
import { followMessages, isAt, withMessagesNow, withReference } from '../messages/referred-messages.ts';
import { assertTaskId, busy, checkAppend, ended, fenced, firstSeq, recordJson, takesAtOnce } from '../store-rules.ts';
import { DeltaBuffer } from './deltas.ts';
import { followTask, listenCommands, type ReaderDeps, WakeUps } from './follow-task.ts';
import { assertStorePath, checkStore, LmdbDatabase } from './lmdb-database.ts';
import { LmdbMessageStore } from './lmdb-side-stores.ts';
import {
  abandonedAt,
  appended,
  broken,
  endsTooLate,
  granted,
  grown,
  headOf,
  isHeld,
  isOwnedBy,
  released,
  renewed,
  shortened,
  summaryOfHead,
} from './task-head.ts';
import { TaskTable } from './task-table.ts';

/** Options of `LmdbStateStore`. */
export interface LmdbStateStoreOptions {
  /** The folder of the store, created if missing; on a local disk. */
  readonly path: string;
  /**
   * Seconds that a task is kept after its turn has ended; null keeps it. Default null. Unfinished work does not expire, and a child turn is kept
   * as long as its parent turn. Expired tasks are deleted when others are created.
   */
  readonly ttl?: number | null | undefined;
  /** Replaced in tests. Leases depend on it, so all processes need the same. Default: the system clock. */
  readonly clock?: Clock | undefined;
  /** Milliseconds between two polls of `follow` and `commands` for writes of other processes. Default 20. */
  readonly pollMs?: number | undefined;
}

const rules: OptionRules<LmdbStateStoreOptions> = {
  path: anything,
  ttl: aTimeToLive,
  clock: aClock,
  pollMs: milliseconds(1),
};

/**
 * Stores journals in an LMDB file: durable without a server, shared by any number of processes of one machine.
 *
 * Every change (an append with its records, head and index) is one write transaction, and its promise resolves only once that is
 * on the disk; no reader sees a record before. So `kill -9` at any instruction loses no acknowledged append and leaves no partial
 * one. The same holds for a power cut, if the disk keeps what it has confirmed to `fdatasync`. An append that was not
 * acknowledged may be stored or not; if it is, other processes that have the file open see it after the next write of any of them. A process that
 * follows an open task writes every 5 s.
 *
 * Transactions are asynchronous and batched: those that arrive while one is in flight share the next one. Measured
 * against a synchronous transaction per append: the same time for one turn (0.2-0.6 ms on a quiet SSD), a fifth for 50 concurrent
 * turns, and no stall of the event loop, which would otherwise wait for the disk and for the lock of other processes: up to 0.4 s under load.
 * The price: a process that blocks its event loop or is stopped within a transaction blocks the writes of the others. It does not
 * block opening the file and reading.
 *
 * `read`, `load` and `list` answer synchronously, from the memory map; the other methods with promises. Subscribers in this process are notified at
 * once; others find records, commands and deltas at their next poll. Deltas are written only while another process reads them.
 * `publish` never fails; of the open attempt the whole text is kept, of other deltas the last 64. Errors are those of the contract:
 * `FULL` if the disk is full, `UNAVAILABLE` if it cannot be written to, if its folder was deleted or replaced, or after `close`, `POISON` for a damaged file.
 *
 * Memory: the published text of open attempts. Journals stay in the file until `delete`, or until `ttl` after their end; their space is reused.
 * With a `ttl` each `create` deletes at most four expired tasks, each with its child turns, in a transaction before its own: so many that their number shrinks.
 */
export class LmdbStateStore implements TaskStateStore {
  static {
    checkArguments<TaskStateStore>(LmdbStateStore.prototype, stateStoreArguments);
  }

  readonly #clock: Clock;
  /** How long ended tasks are kept, in milliseconds; may be infinite. */
  readonly #keepMs: number;
  readonly #database: LmdbDatabase;
  readonly #tasks: TaskTable;
  readonly #deltas: DeltaBuffer;
  readonly #wakeUps: WakeUps;
  #messages: LmdbMessageStore | undefined;
  #closing: Promise<void> | undefined;

  /** Opens the file, synchronously. Errors: `INVALID_CONFIG`, `MISSING_PACKAGE`, `UNAVAILABLE`, `SCHEMA`, `POISON`. */
  constructor(options: LmdbStateStoreOptions) {
    assertOptions('LmdbStateStore', options, rules);
    const { path, ttl = null, clock = systemClock, pollMs = 20 } = options;
    assertStorePath(path);
    this.#clock = clock;
    this.#keepMs = keptMs(ttl);
    this.#database = new LmdbDatabase(path);
    this.#tasks = new TaskTable(this.#database);
    const shared = { database: this.#database, tasks: this.#tasks, pollMs };
    this.#wakeUps = new WakeUps(shared);
    this.#deltas = new DeltaBuffer({ ...shared, clock, source: randomUUID() });
    this.#database.read(() => this.#tasks.assertLayout());
  }

  /** In the same file. Closed with this store. */
  get messages(): MessageStore {
    this.#messages ??= new LmdbMessageStore({ path: this.#database.path, clock: this.#clock });
    return this.#messages;
  }

  refersTo(messages: MessageStore): boolean {
    return isAt(messages, [resolve(this.#database.path)]);
  }

  async create(
    taskId: string,
    started: Stamped<TurnStarted>,
  ): Promise<{ readonly created: boolean; readonly started: Stamped<TurnStarted> }> {
    assertTaskId(taskId);
    const text = recordJson(started, taskId);
    // Otherwise at once, so that a `close` right after this call waits for it.
    if (this.#hasExpired()) await this.#deleteExpired();
    const existing = await this.#database.write(() => {
      const before = this.#tasks.findHead(taskId);
      if (before) return this.#tasks.records(before, 1, 1)[0];
      this.#tasks.putRecord(taskId, 1, text);
      this.#tasks.putHead(
        headOf(taskId, started, { born: this.#tasks.nextBorn(), bytes: Buffer.byteLength(text) }),
        undefined,
      );
      return undefined;
    });
    return existing?.type === 'turn.started' ? { created: false, started: existing } : { created: true, started };
  }

  async acquire(taskId: string, owner: string, leaseMs: number, under?: Under): Promise<Lease> {
    const lease = await this.#database.write(() => {
      const head = this.#tasks.readableHead(taskId);
      const now = this.#clock.now();
      if (head.hasEnded) throw ended(taskId);
      if (!takesAtOnce(taskId, head.under, under)) {
        if (isHeld(head, now)) throw busy(taskId, head.expiresAt - now);
        if (endsTooLate(head, now)) {
          // Written, so that the lease expires in time for the next caller, also in another process.
          const shorter = shortened(head, now);
          this.#tasks.putHead(shorter, head);
          return busy(taskId, shorter.expiresAt - now);
        }
      }
      const before = { seq: head.seq, abandonedAt: abandonedAt(head) };
      const grant: Lease = { taskId, owner, epoch: this.#tasks.nextEpoch(), leaseMs, ...before };
      this.#tasks.putHead(granted(head, grant, { now, under }), head);
      return grant;
    });
    if (AgentLoopError.isInstance(lease)) throw lease;
    this.#database.forgetDeadReaders();
    this.#wakeUps.wake(taskId);
    return lease;
  }

  async append(lease: Lease, records: readonly JournalRecord[], options: AppendOptions): Promise<void> {
    const { taskId } = lease;
    const texts = records.map((record) => recordJson(withReference(record), taskId));
    const head = await this.#database.write(() => {
      const before = this.#tasks.head(taskId);
      if (!isOwnedBy(before, lease)) throw fenced(lease);
      if (!checkAppend(before, lease, records)) return before;
      const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
      const after = appended(before, records, { status: options.status, now: this.#clock.now(), lease, bytes });
      for (const [index, text] of texts.entries()) this.#tasks.putRecord(taskId, before.seq + 1 + index, text);
      this.#tasks.putHead(after, before);
      if (after.hasEnded) this.#deltas.remove(taskId);
      return after;
    });
    this.#deltas.settle(head);
    this.#wakeUps.wake(taskId);
  }

  async renew(lease: Lease): Promise<void> {
    await this.#database.write(() => {
      const head = this.#tasks.head(lease.taskId);
      if (!isOwnedBy(head, lease)) throw fenced(lease);
      this.#tasks.putHead(renewed(head, lease, this.#clock.now()), head);
    });
  }

  async release(lease: Lease, abandonedAt?: number): Promise<void> {
    this.#deltas.forget(lease.taskId);
    await this.#database.write(() => {
      const head = this.#tasks.findHead(lease.taskId);
      if (head && isOwnedBy(head, lease)) this.#tasks.putHead(released(head, abandonedAt), head);
    });
  }

  async breakLease(taskId: string): Promise<boolean> {
    this.#deltas.forget(taskId);
    const isBroken = await this.#database.write(() => {
      const head = this.#tasks.head(taskId);
      if (head.owner === undefined || head.hasEnded) return false;
      this.#tasks.putHead(broken(head, this.#tasks.nextEpoch()), head);
      return true;
    });
    if (isBroken) this.#wakeUps.wake(taskId);
    return isBroken;
  }

  /** Errors with `NOT_FOUND` if there is no such task; stays silent once it is deleted. */
  commands(taskId: string): Observable<Command> {
    return listenCommands(this.#readers(), taskId);
  }

  async post(taskId: string, command: Command, options?: PostOptions): Promise<Command | undefined> {
    const standing = await this.#database.write(() => {
      const head = this.#tasks.head(taskId);
      if (head.hasEnded) throw ended(taskId);
      const { command: first, bytes } = this.#tasks.putCommand(taskId, command, options);
      if (bytes > 0) this.#tasks.putHead(grown(head, bytes), head);
      return first;
    });
    this.#wakeUps.wake(taskId);
    return standing;
  }

  read(taskId: string, options: ReadOptions = {}): readonly JournalRecord[] {
    const read = () => this.#tasks.records(this.#tasks.readableHead(taskId), firstSeq(options));
    return withMessagesNow(this.#database.read(read), () => this.messages);
  }

  follow(taskId: string, options: ReadOptions = {}): Observable<FollowSignal> {
    return followMessages(followTask(this.#readers(), taskId, firstSeq(options)), () => this.messages);
  }

  publish(taskId: string, delta: Delta): void {
    try {
      if (this.#deltas.publish(taskId, delta)) this.#wakeUps.wake(taskId);
    } catch {
      // A delta that cannot be emitted is dropped: the record that follows contains it.
    }
  }

  load(taskId: string): PersistedLoopState | null {
    assertTaskId(taskId);
    const isThere = this.#database.read(() => this.#tasks.findHead(taskId)) !== undefined;
    return isThere ? toPersisted(foldRecords(this.read(taskId))) : null;
  }

  describe(taskId: string): TaskSummary | null {
    assertTaskId(taskId);
    const head = this.#database.read(() => this.#tasks.findHead(taskId));
    return head ? summaryOfHead(head, this.#clock.now()) : null;
  }

  /** The newest first. The index changes with the journals, so it is never stale. */
  list(query: TaskQuery = {}): readonly TaskSummary[] {
    const now = this.#clock.now();
    return this.#database.read(() => this.#tasks.list(query, now)).map((head) => summaryOfHead(head, now));
  }

  /** In one transaction with its child turns. Their followers get `NOT_FOUND`. */
  async delete(taskId: string): Promise<void> {
    this.#deltas.forget(taskId);
    await this.#remove(() => this.#tasks.family(taskId));
  }

  /** Deletes a few tasks that ended longer than the time to live ago. A failure is that of the next write, too. */
  #hasExpired(): boolean {
    const before = this.#clock.now() - this.#keepMs;
    return before !== Number.NEGATIVE_INFINITY && this.#database.read(() => this.#tasks.hasExpired(before));
  }

  async #deleteExpired(): Promise<void> {
    const now = this.#clock.now();
    await this.#remove(() => this.#tasks.expired(now - this.#keepMs, now));
  }

  async #remove(members: () => readonly string[]): Promise<void> {
    const gone = await this.#database.write(() => {
      const all = members();
      for (const member of all) {
        this.#tasks.remove(member);
        this.#deltas.remove(member);
      }
      return all;
    });
    for (const member of gone) {
      this.#deltas.forget(member);
      this.#wakeUps.wake(member);
    }
  }

  /** Writes a few bytes to find out whether it can. */
  check(): Promise<StoreCheck> {
    return checkStore(this.#database);
  }

  /** Waits for pending writes, and closes the file. Followers and listeners get `UNAVAILABLE`. Idempotent. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#deltas.stop();
    const closed = this.#database.close();
    this.#wakeUps.wakeAll();
    this.#wakeUps.stop();
    await Promise.all([closed, this.#messages?.close()]);
  }

  #readers(): ReaderDeps {
    return { database: this.#database, tasks: this.#tasks, deltas: this.#deltas, wakeUps: this.#wakeUps };
  }
}
