import type { Observable, Subscriber } from 'rxjs';
import type { FollowSignal } from '../../core/contracts/index.ts';
import type { JournalRecord } from '../../core/journal/index.ts';
import { notFound } from '../store-errors.ts';
import { DeltaCursor, type PlacedDelta } from './delta-cursor.ts';
import type { DeltaDesk } from './delta-desk.ts';
import type { LmdbDatabase } from './lmdb-database.ts';
import { looking } from './looking.ts';
import type { TaskHead } from './task-head.ts';
import type { TaskTable } from './task-table.ts';
import type { WakeUps } from './wake-ups.ts';

export interface ReaderDeps {
  readonly database: LmdbDatabase;
  readonly tasks: TaskTable;
  readonly deltas: DeltaDesk;
  readonly wakeUps: WakeUps;
}

/** Records read in one look, so that a long journal is never in memory whole. */
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

/** Each delta after the record that it follows; one that is not text and arrives too late is dropped. */
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
