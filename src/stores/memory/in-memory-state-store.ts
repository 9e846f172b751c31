import { filter, Observable } from 'rxjs';
import {
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
  journalSchema,
  type PersistedLoopState,
  type Stamped,
  type TurnStarted,
  toPersisted,
} from '../../core/journal/index.ts';
import { aClock, assertOptions, type OptionRules } from '../../options/option-rules.ts';
import { aMost, checkArguments, stateStoreArguments } from '../check-arguments.ts';
import { followMessages, withMessagesNow, withReference } from '../messages/referred-messages.ts';
import { InMemoryMessageStore } from '../messages/table-message-store.ts';
import { assertTaskId, busy, childrenIn, ended, fenced, newerSchema, notFound, takesAtOnce } from '../store-rules.ts';
import { listedTasks, MemoryTask } from './memory-task.ts';
import { MemoryTasks } from './memory-tasks.ts';

/** Options of `InMemoryStateStore`. */
export interface InMemoryStateStoreOptions {
  /** Replaced in tests. Leases depend on it. Default: the system clock. */
  readonly clock?: Clock | undefined;
  /** How many ended turns are kept, not counting child turns; beyond it, the one that ended first is deleted. Default: all. */
  readonly maxEndedTasks?: number | undefined;
}

const rules: OptionRules<InMemoryStateStoreOptions> = { clock: aClock, maxEndedTasks: aMost(0) };

/**
 * Stores journals in the memory of this process: for tests, development, and turns that need not outlive it.
 *
 * Every method answers synchronously, without a promise, and throws instead of rejecting; records are shared by reference. Several
 * `AgentLoop`s of one process may use one instance: leases and epochs work as in any other store. A follower's
 * handler runs inside `append` or `publish`.
 *
 * Memory: every record stays until `delete` or, once the turn has ended, until `maxEndedTasks` newer turns have ended too. A child
 * turn stays as long as its parent turn.
 */
export class InMemoryStateStore implements TaskStateStore {
  static {
    checkArguments(InMemoryStateStore.prototype, stateStoreArguments);
  }

  readonly isEphemeral = true;
  readonly #clock: Clock;
  readonly #maxEndedTasks: number;
  readonly #tasks = new MemoryTasks();
  /** Ids of ended tasks, the first to end first. */
  readonly #ended = new Set<string>();
  #messages: MessageStore | undefined;
  /** One count for all tasks, so that a task deleted and created again does not repeat an epoch. */
  #epoch = 0;

  /** Errors: `INVALID_CONFIG`, naming the option. */
  constructor(options: InMemoryStateStoreOptions = {}) {
    assertOptions('InMemoryStateStore', options, rules);
    const { clock = systemClock, maxEndedTasks = Number.POSITIVE_INFINITY } = options;
    this.#clock = clock;
    this.#maxEndedTasks = maxEndedTasks;
  }

  /** Also in the memory of this process. */
  get messages(): MessageStore {
    this.#messages ??= new InMemoryMessageStore();
    return this.#messages;
  }

  refersTo(messages: MessageStore): boolean {
    return messages === this.#messages;
  }

  create(
    taskId: string,
    started: Stamped<TurnStarted>,
  ): { readonly created: boolean; readonly started: Stamped<TurnStarted> } {
    assertTaskId(taskId);
    const existing = this.#tasks.byId.get(taskId);
    if (existing !== undefined) return { created: false, started: existing.started };
    this.#tasks.add(taskId, new MemoryTask(started));
    return { created: true, started };
  }

  acquire(taskId: string, owner: string, leaseMs: number, under?: Under): Lease {
    const task = this.#readable(taskId);
    const now = this.#clock.now();
    if (task.hasEnded) throw ended(taskId);
    task.shorten(now);
    if (!takesAtOnce(taskId, task.under, under) && task.isHeld(now)) throw busy(taskId, task.expiresAt - now);
    task.under = under ?? task.under;
    const { abandonedAt } = task;
    const lease: Lease = { taskId, owner, epoch: ++this.#epoch, seq: task.records.length, leaseMs, abandonedAt };
    task.grant(lease, now);
    return lease;
  }

  append(lease: Lease, records: readonly JournalRecord[], options: AppendOptions): void {
    const task = this.#tasks.byId.get(lease.taskId) ?? missing(lease.taskId);
    // Without a function for each record: this is the hot path.
    let written = records;
    for (const record of records) if ('effects' in record) written = written.map(withReference);
    task.append(lease, written, options, this.#clock.now());
    if (task.hasEnded) this.#retire(lease.taskId, task);
  }

  renew(lease: Lease): void {
    const task = this.#tasks.byId.get(lease.taskId) ?? missing(lease.taskId);
    if (!task.isOwnedBy(lease)) throw fenced(lease);
    task.expiresAt = this.#clock.now() + lease.leaseMs;
  }

  release(lease: Lease, abandonedAt?: number): void {
    const task = this.#tasks.byId.get(lease.taskId);
    if (!task?.isOwnedBy(lease)) return;
    task.owner = undefined;
    task.brokenAt = abandonedAt;
  }

  breakLease(taskId: string): boolean {
    const task = this.#tasks.byId.get(taskId) ?? missing(taskId);
    if (task.owner === undefined || task.hasEnded) return false;
    task.brokenAt = task.expiresAt - task.leaseMs;
    task.owner = undefined;
    task.epoch = ++this.#epoch;
    return true;
  }

  /** Errors with `NOT_FOUND` if there is no such task; stays silent once it is deleted. */
  commands(taskId: string): Observable<Command> {
    return new Observable((subscriber) =>
      (this.#tasks.byId.get(taskId) ?? missing(taskId)).commands.listen(subscriber),
    );
  }

  post(taskId: string, command: Command, options?: PostOptions): Command | undefined {
    const task = this.#tasks.byId.get(taskId) ?? missing(taskId);
    if (task.hasEnded) throw ended(taskId);
    return task.commands.post(command, options);
  }

  read(taskId: string, options: ReadOptions = {}): readonly JournalRecord[] {
    const records = this.#readable(taskId).records.slice(startOf(options) - 1);
    return withMessagesNow(records, () => this.messages);
  }

  follow(taskId: string, options: ReadOptions = {}): Observable<FollowSignal> {
    const from = startOf(options);
    const signals = new Observable<FollowSignal>((subscriber) => this.#readable(taskId).follow(subscriber, from));
    const asked$ = signals.pipe(filter((signal) => signal.type === 'delta' || signal.record.seq >= from));
    return followMessages(asked$, () => this.messages);
  }

  publish(taskId: string, delta: Delta): void {
    this.#tasks.byId.get(taskId)?.publish(delta);
  }

  load(taskId: string): PersistedLoopState | null {
    assertTaskId(taskId);
    return this.#tasks.byId.has(taskId) ? toPersisted(foldRecords(this.read(taskId))) : null;
  }

  describe(taskId: string): TaskSummary | null {
    assertTaskId(taskId);
    return this.#tasks.byId.get(taskId)?.summary(this.#clock.now()) ?? null;
  }

  /** The newest first. */
  list(query: TaskQuery = {}): readonly TaskSummary[] {
    const now = this.#clock.now();
    return listedTasks(this.#tasks.among(query), query, now).map((task) => task.summary(now));
  }

  /** Its followers get `NOT_FOUND`. */
  delete(taskId: string): void {
    const task = this.#tasks.byId.get(taskId);
    if (task === undefined) return;
    this.#tasks.delete(taskId);
    this.#ended.delete(taskId);
    for (const child of childrenIn(task.records)) {
      if (this.#tasks.byId.get(child)?.started.parent?.taskId === taskId) this.delete(child);
    }
    task.drop();
  }

  check(): StoreCheck {
    return {
      ok: true,
      warnings: ['Journals in memory end with this process; use a durable store where a turn has to outlive it.'],
    };
  }

  #readable(taskId: string): MemoryTask {
    const task = this.#tasks.byId.get(taskId) ?? missing(taskId);
    if (task.started.schema > journalSchema) throw newerSchema(taskId, task.started.schema);
    return task;
  }

  #retire(taskId: string, task: MemoryTask): void {
    const { parent } = task.started;
    if (this.#tasks.byId.get(taskId) !== task || (parent && this.#tasks.byId.has(parent.taskId))) return;
    this.#ended.add(taskId);
    for (const oldest of this.#ended) {
      if (this.#ended.size <= this.#maxEndedTasks) return;
      this.delete(oldest);
    }
  }
}

/** Errors: `INVALID_INPUT` for an id that no task can have, else `NOT_FOUND`. */
function missing(taskId: string): never {
  assertTaskId(taskId);
  throw notFound(taskId);
}

/** A first seq below 1 means the journal's start. */
function startOf(options: ReadOptions): number {
  return Math.max(1, options.from ?? 1);
}
