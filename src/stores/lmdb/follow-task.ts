import { Observable, type Subscriber } from 'rxjs';
import type { Command, FollowSignal } from '../../core/contracts/index.ts';
import type { JournalRecord } from '../../core/journal/index.ts';
import { notFound } from '../store-rules.ts';
import { DeltaCursor, type PlacedDelta } from './delta-log.ts';
import type { DeltaBuffer } from './deltas.ts';
import type { LmdbDatabase } from './lmdb-database.ts';
import type { TaskHead } from './task-head.ts';
import type { TaskTable } from './task-table.ts';

export interface ReaderDeps {
  readonly database: LmdbDatabase;
  readonly tasks: TaskTable;
  readonly deltas: DeltaBuffer;
  readonly wakeUps: WakeUps;
}

/** The number of records per read, so that a long journal is never whole in memory. */
const pageLength = 1_000;

/** `TaskStateStore.follow`: the records from a seq on and the deltas between them. */
export function followTask(deps: ReaderDeps, taskId: string, from: number): Observable<FollowSignal> {
  const { database, tasks, deltas, wakeUps } = deps;
  return looking({
    wakeUps,
    taskId,
    start() {
      const head = database.read(() => tasks.readableHead(taskId));
      const follower = new Follower(deps, head, from);
      const leave = head.hasEnded ? () => {} : deltas.watch(taskId);
      return { leave, look: (subscriber) => follower.look(subscriber) };
    },
  });
}

interface Page {
  readonly head: TaskHead;
  readonly records: readonly JournalRecord[];
  readonly deltas: readonly PlacedDelta[];
  readonly isWhole: boolean;
}

class Follower {
  readonly #deps: ReaderDeps;
  readonly #task: TaskHead;
  readonly #from: number;
  readonly #cursor: DeltaCursor;
  /** The last record that this reader has passed, emitted or before its start. */
  #seq: number;

  constructor(deps: ReaderDeps, head: TaskHead, from: number) {
    this.#deps = deps;
    this.#task = head;
    this.#from = from;
    this.#cursor = new DeltaCursor(head);
    this.#seq = Math.min(from - 1, head.seq);
  }

  look(subscriber: Subscriber<FollowSignal>): boolean {
    const { database } = this.#deps;
    const before = this.#seq;
    const { head, records, deltas, isWhole } = database.read(() => this.#page());
    this.#seq += records.length;
    for (const signal of inOrder(records, deltas, before)) {
      if (signal.type === 'delta' || signal.record.seq >= this.#from) subscriber.next(signal);
      if (subscriber.closed) return false;
    }
    if (isWhole && head.hasEnded) subscriber.complete();
    return !isWhole;
  }

  #page(): Page {
    const { tasks, deltas } = this.#deps;
    const { taskId, born } = this.#task;
    const head = tasks.readableHead(taskId);
    if (head.born !== born) throw notFound(taskId);
    const records = tasks.records(head, this.#seq + 1, pageLength);
    const isWhole = this.#seq + records.length >= head.seq;
    const view = isWhole && !head.hasEnded ? deltas.find(head) : undefined;
    return { head, records, isWhole, deltas: view ? this.#cursor.advance(view, head) : [] };
  }
}

/** Inserts each delta after the record that it follows; one other than text that arrives too late is dropped. */
function inOrder(records: readonly JournalRecord[], deltas: readonly PlacedDelta[], before: number): FollowSignal[] {
  const signals: FollowSignal[] = [];
  let next = 0;
  const giveBefore = (seq: number) => {
    for (let placed = deltas[next]; placed && placed.seq < seq; placed = deltas[++next]) {
      if (placed.seq >= before || isText(placed)) signals.push({ type: 'delta', delta: placed.delta });
    }
  };
  for (const record of records) {
    giveBefore(record.seq);
    signals.push({ type: 'record', record });
  }
  giveBefore(Number.POSITIVE_INFINITY);
  return signals;
}

function isText({ delta }: PlacedDelta): boolean {
  return delta.type === 'llm' && (delta.chunk.type === 'text' || delta.chunk.type === 'attempt');
}

/**
 * `TaskStateStore.commands`: the commands posted before, then each new one. Errors with `NOT_FOUND` if there is no such task; silent once it is
 * deleted.
 */
export function listenCommands(deps: Omit<ReaderDeps, 'deltas'>, taskId: string): Observable<Command> {
  const { database, tasks, wakeUps } = deps;
  return looking({
    wakeUps,
    taskId,
    start() {
      const { born } = database.read(() => tasks.head(taskId));
      let last = 0;
      return {
        look(subscriber) {
          const commands = database.read(() =>
            tasks.findHead(taskId)?.born === born ? tasks.commands(taskId, last) : [],
          );
          for (const { n, command } of commands) {
            last = n;
            subscriber.next(command);
            if (subscriber.closed) break;
          }
          return false;
        },
      };
    },
  });
}

/** Emits what is new to a reader, and returns true if there may be more at once. Exceptions error the stream. */
type Look<T> = (subscriber: Subscriber<T>) => boolean;

interface LookOptions<T> {
  readonly wakeUps: WakeUps;
  readonly taskId: string;
  /** Called at subscription. `leave` is called on unsubscribe. */
  start(): { readonly look: Look<T>; readonly leave?: () => void };
}

/**
 * Emits the results of polls of the file: one at subscription, one at each wake-up. A poll requested inside
 * a handler runs after the current one. Unsubscribing stops the wake-ups.
 */
function looking<T>({ wakeUps, taskId, start }: LookOptions<T>): Observable<T> {
  return new Observable((subscriber) => {
    const { look, leave } = start();
    let isLooking = false;
    let again = false;
    const lookAgain = () => {
      again = true;
      if (isLooking) return;
      isLooking = true;
      try {
        while (again && !subscriber.closed) {
          again = false;
          if (look(subscriber)) again = true;
        }
      } catch (error) {
        subscriber.error(error);
      }
      isLooking = false;
    };
    subscriber.add(leave);
    subscriber.add(wakeUps.join(taskId, lookAgain));
    lookAgain();
  });
}

interface WakeUpOptions {
  readonly database: LmdbDatabase;
  /** Milliseconds between two polls for changes of other processes. */
  readonly pollMs: number;
}

/**
 * Wakes readers to poll their task: at once after a change of this store, and within `pollMs` after a change of another
 * process. One timer for all of them, none without subscribers; a poll without changes costs some microseconds.
 */
export class WakeUps {
  readonly #options: WakeUpOptions;
  readonly #readers = new Map<string, Set<() => void>>();
  #timer: NodeJS.Timeout | undefined;
  #lastWrite: string | undefined;

  constructor(options: WakeUpOptions) {
    this.#options = options;
  }

  /** Calls `look` from now on, until the returned function is called. */
  join(taskId: string, look: () => void): () => void {
    const readers = this.#readers.get(taskId) ?? new Set();
    this.#readers.set(taskId, readers.add(look));
    this.#start();
    return () => {
      readers.delete(look);
      if (readers.size === 0 && this.#readers.get(taskId) === readers) this.#readers.delete(taskId);
      if (this.#readers.size === 0) this.stop();
    };
  }

  wake(taskId: string): void {
    for (const look of [...(this.#readers.get(taskId) ?? [])]) look();
  }

  wakeAll(): void {
    for (const taskId of [...this.#readers.keys()]) this.wake(taskId);
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #start(): void {
    if (this.#timer) return;
    this.#lastWrite = undefined;
    this.#timer = setInterval(() => this.#look(), this.#options.pollMs);
  }

  #look(): void {
    const write = this.#newestWrite();
    if (write !== undefined && write === this.#lastWrite) return;
    this.#lastWrite = write;
    this.wakeAll();
  }

  /** `undefined` if the file cannot be read: the readers find out why, and error. */
  #newestWrite(): string | undefined {
    try {
      return this.#options.database.lastWrite();
    } catch {
      return undefined;
    }
  }
}
