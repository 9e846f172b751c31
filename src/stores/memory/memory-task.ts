import type { Subscriber } from 'rxjs';
import type {
  AppendOptions,
  Command,
  Delta,
  FollowSignal,
  Lease,
  PostOptions,
  TaskQuery,
  TaskState,
  TaskSummary,
  Under,
} from '../../core/contracts/index.ts';
import { isTerminal, type JournalRecord, type Stamped, type TurnStarted } from '../../core/journal/index.ts';
import { OpenAttempt } from '../deltas.ts';
import { checkAppend, fenced, notFound } from '../store-rules.ts';
import {
  byStatus,
  dueTimeIn,
  groupOf,
  isDue,
  isRunnable,
  isWithin,
  statusTimeIn,
  summaryOfRecords,
  tasksAfter,
} from '../task-summary.ts';

/** The journal of one task, its head and its readers. The caller passes times, in milliseconds since 1970. */
export class MemoryTask {
  readonly started: Stamped<TurnStarted>;
  readonly records: JournalRecord[];
  status: TaskState = 'submitted';
  /** Milliseconds since 1970. */
  statusAt: number;
  hasEnded = false;
  owner: string | undefined;
  epoch = 0;
  expiresAt = 0;
  /** The length of the lease. */
  leaseMs = 0;
  /** If the lease is free and its last owner never released it: when that owner last renewed it. */
  brokenAt: number | undefined;
  /** The lease of the parent turn under which this one was last acquired; kept when the lease is released. */
  under: Under | undefined;
  readonly commands = new CommandBox();
  readonly #attempt = new OpenAttempt();
  readonly #followers = new Broadcast<FollowSignal>();

  constructor(started: Stamped<TurnStarted>) {
    this.started = started;
    this.statusAt = started.at;
    this.records = [started];
  }

  isHeld(now: number): boolean {
    // A lease that ends later than its length allows does not tell whether its owner runs.
    return this.owner !== undefined && now < this.expiresAt && this.expiresAt - now <= this.leaseMs;
  }

  /** When an owner that never released its lease last renewed it. */
  get abandonedAt(): number | null {
    return this.owner === undefined ? (this.brokenAt ?? null) : this.expiresAt - this.leaseMs;
  }

  grant(lease: Lease, now: number): void {
    this.brokenAt = undefined;
    this.owner = lease.owner;
    this.epoch = lease.epoch;
    this.expiresAt = now + lease.leaseMs;
    this.leaseMs = lease.leaseMs;
    this.#attempt.close();
  }

  /** A lease that ends later than its length allows was acquired before the clock was set back: it lasts its length from now. */
  shorten(now: number): void {
    this.expiresAt = Math.min(this.expiresAt, now + this.leaseMs);
  }

  isOwnedBy(lease: Lease): boolean {
    return this.owner === lease.owner && this.epoch === lease.epoch;
  }

  /** The contract defines the order of the checks. */
  append(lease: Lease, records: readonly JournalRecord[], options: AppendOptions, now: number): void {
    if (!this.isOwnedBy(lease)) throw fenced(lease);
    if (!checkAppend({ seq: this.records.length, hasEnded: this.hasEnded }, lease, records)) return;
    for (const record of records) {
      this.records.push(record);
      this.#attempt.apply(record);
    }
    this.status = options.status;
    this.statusAt = statusTimeIn(records) ?? this.statusAt;
    this.expiresAt = now + lease.leaseMs;
    const last = records.at(-1);
    this.hasEnded = last !== undefined && isTerminal(last);
    if (this.#followers.size > 0) this.#show(records);
  }

  /** Drops deltas of an older owner or of a closed attempt. */
  publish(delta: Delta): void {
    if (delta.epoch < this.epoch) return;
    if (delta.type === 'llm' && !this.#attempt.accept(delta)) return;
    if (this.#followers.size > 0) this.#followers.emit([{ type: 'delta', delta }]);
  }

  follow(subscriber: Subscriber<FollowSignal>, from: number): void {
    const first: FollowSignal[] = this.records.slice(from - 1).map((record) => ({ type: 'record', record }));
    const delta = this.#attempt.soFar();
    if (delta !== undefined) first.push({ type: 'delta', delta });
    this.#followers.join(subscriber, first);
    if (this.hasEnded) this.#followers.complete();
  }

  /** The task was deleted: notifies its followers. The owner of the lease gets the error at its next append. */
  drop(): void {
    if (this.#followers.size > 0) this.#followers.error(notFound(this.started.taskId));
  }

  summary(now: number): TaskSummary {
    return summaryOfRecords(this.records, { state: this.status, statusAt: this.statusAt, held: this.isHeld(now) });
  }

  #show(records: readonly JournalRecord[]): void {
    this.#followers.emit(records.map((record) => ({ type: 'record', record })));
    if (this.hasEnded) this.#followers.complete();
  }
}

/** The tasks that match a query at a time, in its order, from all tasks in the order of their creation. */
export function listedTasks(tasks: Iterable<MemoryTask>, query: TaskQuery, now: number): readonly MemoryTask[] {
  const {
    state,
    contextId,
    parentTaskId,
    agentId,
    byStatus: index,
    roots = false,
    runnable = false,
    limit = 50,
  } = query;
  const newestFirst = [...tasks].reverse();
  const found = tasksAfter(newestFirst, query, ({ started }) => started.taskId).filter((task) => {
    const { status, started } = task;
    return (
      !(roots && started.parent) &&
      !(runnable && (!isRunnable(status) || task.isHeld(now) || !isDue(query, dueTimeIn(task.records) ?? 0))) &&
      (agentId === undefined || started.agentId === agentId) &&
      (state === undefined || status === state) &&
      (contextId === undefined || started.contextId === contextId) &&
      (parentTaskId === undefined || started.parent?.taskId === parentTaskId) &&
      (index === undefined || (groupOf(started.contextId) === index.group && isWithin(index, placeOf(task))))
    );
  });
  if (index === undefined) return found.slice(0, limit);
  return found.sort((a, b) => byStatus(placeOf(a), placeOf(b))).slice(0, limit);
}

function placeOf({ statusAt, started: { taskId } }: MemoryTask) {
  return { statusAt, taskId };
}

/** The commands of one task, each id once, and their listeners in this process. */
export class CommandBox {
  readonly #commands = new Map<string, Command>();
  readonly #listeners = new Broadcast<Command>();

  /** Whether it has no commands and no listeners. */
  get isIdle(): boolean {
    return this.#commands.size === 0 && this.#listeners.size === 0;
  }

  /** As `TaskStateStore.post`. */
  post(command: Command, { most = Number.POSITIVE_INFINITY }: PostOptions = {}): Command | undefined {
    const first = this.#commands.get(command.id);
    if (first) return first;
    if (this.#commands.size >= most) return undefined;
    this.#commands.set(command.id, command);
    this.#listeners.emit([command]);
    return command;
  }

  listen(subscriber: Subscriber<Command>): void {
    this.#listeners.join(subscriber, [...this.#commands.values()]);
  }
}

interface Reader<T> {
  readonly subscriber: Subscriber<T>;
  queue: T[];
  emitting: boolean;
  end: ((reader: Reader<T>) => void) | undefined;
}

/**
 * Multicasts values: each reader gets every value once and in the same order, also if a reader emits, joins or
 * unsubscribes from inside its own handler. A value is queued only while its reader's handler runs; nothing is kept for later readers.
 */
export class Broadcast<T> {
  readonly #readers = new Set<Reader<T>>();

  /** The number of readers. */
  get size(): number {
    return this.#readers.size;
  }

  /** Emits `first` to a new reader, then all later values. Unsubscribing removes the reader. */
  join(subscriber: Subscriber<T>, first: T[]): void {
    const reader: Reader<T> = { subscriber, queue: first, emitting: false, end: undefined };
    this.#readers.add(reader);
    subscriber.add(() => this.#readers.delete(reader));
    drain(reader);
  }

  /** Emits values to every reader, in order. Values that a reader emits meanwhile come after them. */
  emit(values: readonly T[]): void {
    // All queues first: values that a handler emits are queued after these for every reader.
    for (const reader of this.#readers) for (const value of values) reader.queue.push(value);
    for (const reader of this.#readers) drain(reader);
  }

  /** Completes every reader once it has received the earlier values. */
  complete(): void {
    this.#end((reader) => reader.subscriber.complete());
  }

  /** Errors every reader once it has received the earlier values. */
  error(error: unknown): void {
    this.#end((reader) => reader.subscriber.error(error));
  }

  #end(how: (reader: Reader<T>) => void): void {
    const readers = [...this.#readers];
    this.#readers.clear();
    for (const reader of readers) reader.end = how;
    for (const reader of readers) drain(reader);
  }
}

function drain<T>(reader: Reader<T>): void {
  if (reader.emitting) return;
  reader.emitting = true;
  // Also visits what the handler adds to the queue while it runs.
  for (const value of reader.queue) {
    if (reader.subscriber.closed) break;
    reader.subscriber.next(value);
  }
  reader.queue = [];
  reader.emitting = false;
  reader.end?.(reader);
}
