import { randomInt } from 'node:crypto';
import { Observable, type Subscriber } from 'rxjs';
import {
  AgentLoopError,
  type Clock,
  type Command,
  type Delta,
  type FollowSignal,
  type Lease,
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
  isTerminal,
  type JournalRecord,
  type PersistedLoopState,
  type Stamped,
  type TurnStarted,
  toPersisted,
} from '../../core/journal/index.ts';
import { Timer } from '../../core/streams/index.ts';
import { aClock, assertOptions, milliseconds, type OptionRules } from '../../options/option-rules.ts';
import { checkArguments, stateStoreArguments } from '../check-arguments.ts';
import { InTurn } from '../in-turn.ts';
import { CommandBox, listedTasks } from '../memory/memory-task.ts';
import { assertTaskId, busy, childrenIn, ended, fenced, notFound, parentIn, takesAtOnce } from '../store-rules.ts';
import { LiveTask, taskOf } from './live-task.ts';
import {
  assertSnapshotStore,
  PlainStore,
  readSnapshot,
  type SavedTurn,
  type SnapshotStore,
  snapshotOf,
} from './snapshot.ts';

export type { Snapshot, SnapshotStore } from './snapshot.ts';

/** Options of `snapshotStateStore`. */
export interface SnapshotStateStoreOptions {
  /** How often a reader polls for new snapshots of a task that another process runs. Milliseconds; default 1,000. */
  readonly pollMs?: number | undefined;
  /** Replaced in tests. Leases and polls depend on it. Default: the system clock. */
  readonly clock?: Clock | undefined;
}

const rules: OptionRules<SnapshotStateStoreOptions> = { pollMs: milliseconds(1), clock: aClock };

/**
 * Creates a `TaskStateStore` from a user's store that can only `save`, `load` and `delete` one value per task.
 *
 * A snapshot is a `PersistedLoopState` with the records of its fold. It is saved before each iteration, after each model call, when the
 * turn asks, is answered, suspends or ends, and when a process acquires or releases the task. A turn resumes from its last snapshot
 * alone, in any process. Nothing is emitted before it is saved, except for records inside an iteration.
 *
 * The guarantee is weaker than a journal's:
 * - Tool results and intents inside an iteration are not saved one by one. If the process crashes there, every open call of the batch
 *   is in doubt, even one that had its result or had not started, and its `onInDoubt` decides.
 * - Leases hold in this process only, so two processes can acquire one task. A save or a renewal checks first, and an owner whose snapshot
 *   was replaced is `FENCED`; until then both did the work, and two simultaneous saves are not detected.
 * - Commands (`cancel`, `pause`, `steer`) reach a turn that runs in this process. Readers of another process see snapshots, no deltas.
 * - `list` returns the tasks that run here.
 * - Each save writes the whole turn: the written bytes grow with the square of its iterations.
 *
 * Errors: those of the contract; `UNAVAILABLE`, retryable, for an exception of the user's store without a code; `INVALID_CONFIG` at the
 * call. Memory: the records of the turns that run here, and commands for those that do not.
 */
export function snapshotStateStore(store: SnapshotStore, options: SnapshotStateStoreOptions = {}): TaskStateStore {
  assertSnapshotStore(store);
  assertOptions('snapshotStateStore', options, rules);
  const { pollMs = 1_000, clock = systemClock } = options;
  return new SnapshotStateStore(new PlainStore(store), clock, pollMs);
}

/** The maximum increment of an epoch: large enough that two processes do not choose the same. */
const maxEpochStep = 2 ** 31;

class SnapshotStateStore implements TaskStateStore {
  static {
    checkArguments(SnapshotStateStore.prototype, stateStoreArguments);
  }

  readonly #plain: PlainStore;
  readonly #clock: Clock;
  readonly #pollMs: number;
  readonly #live = new Map<string, LiveTask>();
  readonly #commands = new Map<string, CommandBox>();
  /** By task: operations that must end before it is created, acquired or deleted. */
  readonly #underWay = new InTurn();

  constructor(plain: PlainStore, clock: Clock, pollMs: number) {
    this.#plain = plain;
    this.#clock = clock;
    this.#pollMs = pollMs;
  }

  async create(
    taskId: string,
    started: Stamped<TurnStarted>,
  ): Promise<{ readonly created: boolean; readonly started: Stamped<TurnStarted> }> {
    assertTaskId(taskId);
    return this.#underWay.run(taskId, async () => {
      const there = await this.#plain.load(taskId);
      if (there) return { created: false, started: there.started };
      const { state, records } = readSnapshot(taskId, { journal: [started] });
      await this.#plain.save(taskId, snapshotOf(state, { journal: records, epoch: 0, released: true }));
      return { created: true, started };
    });
  }

  async acquire(taskId: string, owner: string, leaseMs: number, under?: Under): Promise<Lease> {
    return this.#underWay.run(taskId, async () => {
      const now = this.#clock.now();
      const before = this.#running(taskId);
      if (before?.state.isComplete) throw ended(taskId);
      const isTaken = takesAtOnce(taskId, before?.shown.under, under);
      if (!isTaken && before?.shown.isHeld(now)) throw busy(taskId, before.shown.expiresAt - now);
      await before?.release();
      const saved = await this.#saved(taskId);
      if (saved.state.isComplete) throw ended(taskId);
      takesAtOnce(taskId, saved.under, under);
      const epoch = saved.epoch + randomInt(1, maxEpochStep);
      const holder = { plain: this.#plain, now: () => this.#clock.now(), taskId, owner, epoch, leaseMs, under };
      const task = new LiveTask(saved, holder);
      await task.claim();
      this.#live.set(taskId, task);
      before?.drop();
      return task.lease;
    });
  }

  async append(lease: Lease, records: readonly JournalRecord[]): Promise<void> {
    const task = await this.#owned(lease);
    await task.append(lease, records);
  }

  async renew(lease: Lease): Promise<void> {
    const task = await this.#owned(lease);
    await task.renew();
  }

  async release(lease: Lease): Promise<void> {
    const task = this.#running(lease.taskId);
    if (!task?.isOwnedBy(lease)) return;
    await task.release();
    this.#forget(lease.taskId, task);
  }

  /** Another process that runs the task notices at its next save or renewal. Also returns true if the last owner released the task. */
  async breakLease(taskId: string): Promise<boolean> {
    return this.#underWay.run(taskId, async () => {
      const running = this.#running(taskId);
      await running?.verify();
      if (running) this.#forget(taskId, running);
      const { state, records, epoch, released, under } = await this.#saved(taskId);
      if (state.isComplete || epoch === 0) return false;
      const next = { journal: records, epoch: epoch + randomInt(1, maxEpochStep), released };
      await this.#plain.save(taskId, snapshotOf(state, under ? { ...next, under } : next));
      return true;
    });
  }

  commands(taskId: string): Observable<Command> {
    return new Observable((subscriber) => {
      const box = this.#box(taskId);
      box.listen(subscriber);
      subscriber.add(() => {
        if (box.isIdle && this.#commands.get(taskId) === box) this.#commands.delete(taskId);
      });
    });
  }

  async post(taskId: string, command: Command, options?: PostOptions): Promise<Command | undefined> {
    const { state } = (await this.#verified(taskId)) ?? (await this.#saved(taskId));
    if (state.isComplete) throw ended(taskId);
    return this.#box(taskId).post(command, options);
  }

  async read(taskId: string, { from = 1 }: ReadOptions = {}): Promise<readonly JournalRecord[]> {
    return (await this.#records(taskId)).slice(Math.max(1, from) - 1);
  }

  follow(taskId: string, { from = 1 }: ReadOptions = {}): Observable<FollowSignal> {
    const read = () => this.#records(taskId);
    const live = () => this.#running(taskId);
    return followSnapshots({ live, read, clock: this.#clock, pollMs: this.#pollMs }, Math.max(1, from));
  }

  publish(taskId: string, delta: Delta): void {
    this.#running(taskId)?.shown.publish(delta);
  }

  async load(taskId: string): Promise<PersistedLoopState | null> {
    assertTaskId(taskId);
    const found = (await this.#verified(taskId)) ?? (await this.#plain.load(taskId));
    return found ? toPersisted(found.state) : null;
  }

  /** For a task that does not run in this process, its last snapshot: not held, as far as this process knows. */
  async describe(taskId: string): Promise<TaskSummary | null> {
    assertTaskId(taskId);
    const running = await this.#verified(taskId);
    const saved = running ? undefined : await this.#plain.load(taskId);
    const task = running?.shown ?? (saved && taskOf(saved.started, saved.records, saved.state));
    return task?.summary(this.#clock.now()) ?? null;
  }

  list(query: TaskQuery = {}): readonly TaskSummary[] {
    const now = this.#clock.now();
    const known = [...this.#live.values()].filter((task) => !task.isDropped).map(({ shown }) => shown);
    return listedTasks(known, query, now).map((task) => task.summary(now));
  }

  async delete(taskId: string): Promise<void> {
    return this.#delete(taskId, undefined, new Set());
  }

  /** Deletes child turns first, so that a delete that fails in between can be repeated. */
  async #delete(taskId: string, parent: string | undefined, begun: Set<string>): Promise<void> {
    if (begun.has(taskId)) return;
    begun.add(taskId);
    const running = this.#running(taskId)?.shown.records ?? [];
    const saved = await this.#plain.uncheckedRecords(taskId);
    if (parent !== undefined && parentIn(saved) !== parent) return;
    for (const child of childrenIn([...saved, ...running])) await this.#delete(child, taskId, begun);
    await this.#underWay.run(taskId, async () => {
      await this.#plain.delete(taskId);
      const task = this.#live.get(taskId);
      if (task) this.#forget(taskId, task);
      this.#commands.delete(taskId);
    });
  }

  check(): StoreCheck {
    return {
      ok: true,
      warnings: [
        'Snapshots do not exclude a second owner: run each task in one process at a time, or use the LMDB or Redis store.',
        'If a process crashes inside an iteration, all its open tool calls are in doubt; use the LMDB or Redis store to keep each result.',
      ],
    };
  }

  #running(taskId: string): LiveTask | undefined {
    const task = this.#live.get(taskId);
    if (task?.isDropped) this.#live.delete(taskId);
    return task?.isDropped ? undefined : task;
  }

  /** The task if it certainly runs here: after its lease expired, another process may have acquired it. */
  async #verified(taskId: string): Promise<LiveTask | undefined> {
    const task = this.#running(taskId);
    if (task && !task.shown.isHeld(this.#clock.now())) await task.verify();
    return this.#running(taskId);
  }

  async #records(taskId: string): Promise<readonly JournalRecord[]> {
    const task = await this.#verified(taskId);
    return task?.shown.records.slice() ?? (await this.#saved(taskId)).records;
  }

  async #saved(taskId: string): Promise<SavedTurn> {
    assertTaskId(taskId);
    const saved = await this.#plain.load(taskId);
    if (!saved) throw notFound(taskId);
    return saved;
  }

  async #owned(lease: Lease): Promise<LiveTask> {
    const task = this.#running(lease.taskId);
    if (task?.isOwnedBy(lease)) return task;
    await this.#saved(lease.taskId);
    throw fenced(lease);
  }

  #forget(taskId: string, task: LiveTask): void {
    if (this.#live.get(taskId) === task) this.#live.delete(taskId);
    task.drop();
    if (task.state.isComplete) this.#commands.delete(taskId);
  }

  #box(taskId: string): CommandBox {
    const box = this.#commands.get(taskId) ?? new CommandBox();
    this.#commands.set(taskId, box);
    return box;
  }
}

interface FollowDeps {
  /** The task if this process runs it. */
  live(): LiveTask | undefined;
  read(): Promise<readonly JournalRecord[]>;
  readonly clock: Clock;
  readonly pollMs: number;
}

/**
 * The records from a seq on. Of a task that runs in this process, each is emitted after it is saved, with deltas; of another, snapshots are polled
 * every `pollMs`. Follows a task that moves between processes. Unsubscribing stops the poll.
 */
function followSnapshots(deps: FollowDeps, from: number): Observable<FollowSignal> {
  return new Observable((subscriber) => {
    const follower = new Follower(deps, from, subscriber);
    subscriber.add(() => follower.stop());
    follower.look();
  });
}

class Follower {
  readonly #deps: FollowDeps;
  readonly #to: Subscriber<FollowSignal>;
  readonly #from: number;
  /** The last record that this reader has passed, emitted or before its start. */
  #seq = 0;
  readonly #poll: Timer;

  constructor(deps: FollowDeps, from: number, to: Subscriber<FollowSignal>) {
    this.#deps = deps;
    this.#poll = new Timer(deps.clock);
    this.#from = from;
    this.#to = to;
  }

  look(): void {
    if (this.#to.closed) return;
    const task = this.#deps.live();
    if (task) this.#followLive(task);
    else void this.#readOnce();
  }

  stop(): void {
    this.#poll.close();
  }

  #followLive(task: LiveTask): void {
    const signals = new Observable<FollowSignal>((subscriber) => task.shown.follow(subscriber, this.#seq + 1));
    this.#to.add(
      signals.subscribe({
        next: (signal) => this.#take(signal),
        // The task has another owner now, in this process or another, or none.
        error: () => this.look(),
        complete: () => this.#to.complete(),
      }),
    );
  }

  async #readOnce(): Promise<void> {
    try {
      const records = await this.#deps.read();
      for (const record of records) this.#take({ type: 'record', record });
      const last = records.at(-1);
      if (last && isTerminal(last)) return this.#to.complete();
    } catch (error) {
      if (!AgentLoopError.isInstance(error) || !error.retryable) return this.#to.error(error);
    }
    this.#poll.set(this.#deps.pollMs, () => this.look());
  }

  #take(signal: FollowSignal): void {
    if (this.#to.closed) return;
    if (signal.type === 'delta') return this.#to.next(signal);
    const { seq } = signal.record;
    if (seq <= this.#seq) return;
    this.#seq = seq;
    if (seq >= this.#from) this.#to.next(signal);
  }
}
