import { Observable, type Subscriber } from 'rxjs';
import { AgentLoopError, type Command, type Delta, type FollowSignal } from '../../core/contracts/index.ts';
import { isTerminal, type JournalRecord } from '../../core/journal/index.ts';
import { OpenAttempt } from '../deltas.ts';
import { notFound, rewound } from '../store-rules.ts';
import { headOf, readPage, readRecord } from './journal.ts';
import type { PostgresDatabase } from './postgres-database.ts';
import { type HeadRow, parsed } from './task-rows.ts';
import type { Feed, WakeUps } from './wake-ups.ts';

interface ReaderDeps {
  readonly database: PostgresDatabase;
  readonly wakeUps: WakeUps;
}

/** `TaskStateStore.follow`: the records from a seq on and the deltas between them. */
export function followTask({ database, wakeUps }: ReaderDeps, taskId: string, from: number): Observable<FollowSignal> {
  return looking<FollowSignal>({
    wakeUps,
    taskId,
    feed: 'record',
    isPatient: false,
    start() {
      const follower = new Follower(database, taskId, from);
      return (subscriber) => follower.look(subscriber);
    },
  });
}

/** `TaskStateStore.commands`: the commands posted before, then each new one. Silent once the task is deleted. */
export function listenCommands({ database, wakeUps }: ReaderDeps, taskId: string): Observable<Command> {
  return looking<Command>({
    wakeUps,
    taskId,
    feed: 'command',
    isPatient: true,
    start() {
      let born: number | undefined;
      let last = 0;
      return async (subscriber) => {
        born ??= (await headOf(database, taskId)).n;
        const rows = await database.query<{ readonly n: number; readonly command: string }>(
          `select c.n, c.command from $S.command c join $S.task t on t.task_id = c.task_id
           where c.task_id = $1 and c.n > $2 and t.n = $3 order by c.n`,
          [taskId, last, born],
          taskId,
        );
        for (const { n, command } of rows) {
          last = n;
          subscriber.next(parsed<Command>(command, taskId, `its command ${n} is damaged`));
          if (subscriber.closed) break;
        }
        return false;
      };
    },
  });
}

interface DeltaRow {
  readonly n: number;
  readonly seq: number;
  readonly deltas: string;
}

class Follower {
  readonly #database: PostgresDatabase;
  readonly #taskId: string;
  readonly #from: number;
  readonly #attempt = new OpenAttempt();
  /** The `n` of the task at the first poll. */
  #born: number | undefined;
  /** The last record that this reader has passed, emitted or before its start. */
  #seq = 0;
  #lastDelta = 0;
  /** Deltas after a record that was not read yet. */
  #waiting: DeltaRow[] = [];

  constructor(database: PostgresDatabase, taskId: string, from: number) {
    this.#database = database;
    this.#taskId = taskId;
    this.#from = from;
  }

  async look(to: Subscriber<FollowSignal>): Promise<boolean> {
    const isFirst = this.#born === undefined;
    const page = await readPage(this.#database, this.#taskId, isFirst ? this.#from : this.#seq + 1);
    const { head, records, isWhole } = page;
    this.#born ??= head.n;
    if (head.n !== this.#born) throw notFound(this.#taskId);
    if (!isFirst && head.seq < this.#seq) throw rewound(this.#taskId, head.seq, this.#seq + 1);
    if (isFirst) return this.#begin(to, head, records, isWhole);
    // After the records: deltas published before a record are visible when the record is.
    if (isWhole) this.#waiting.push(...(await this.#deltas(head)));
    for (const record of records) {
      this.#showDeltas(to, record.seq - 1);
      this.#showRecord(to, record);
      if (to.closed) return false;
    }
    if (isWhole) this.#showDeltas(to, head.seq);
    return !isWhole;
  }

  /** Emits the text so far of the open attempt as one delta. */
  async #begin(
    to: Subscriber<FollowSignal>,
    head: HeadRow,
    records: readonly JournalRecord[],
    isWhole: boolean,
  ): Promise<boolean> {
    this.#seq = records.at(-1)?.seq ?? Math.min(this.#from - 1, head.seq);
    const isOpen = isWhole && !head.ended;
    const open = isOpen && head.call_seq > 0 ? await this.#record(records, head.call_seq) : undefined;
    const deltas = isOpen ? await this.#deltas(head) : [];
    for (const record of records) if (record.seq >= this.#from) to.next({ type: 'record', record });
    if (isWhole && head.ended) return this.#end(to);
    if (open) this.#attempt.apply(open);
    this.#waiting = deltas.filter(({ seq }) => seq > head.seq);
    for (const row of deltas) {
      if (row.seq < head.call_seq || row.seq > head.seq) continue;
      for (const delta of this.#deltasIn(row)) if (delta.type === 'llm') this.#attempt.accept(delta);
    }
    const delta = this.#attempt.soFar();
    if (delta) to.next({ type: 'delta', delta });
    // A running turn may have changed since.
    return true;
  }

  #end(to: Subscriber<FollowSignal>): boolean {
    to.complete();
    return false;
  }

  async #record(records: readonly JournalRecord[], seq: number): Promise<JournalRecord | undefined> {
    return records.find((record) => record.seq === seq) ?? readRecord(this.#database, this.#taskId, seq);
  }

  async #deltas(head: HeadRow): Promise<readonly DeltaRow[]> {
    const rows = await this.#database.query<DeltaRow>(
      'select n::float8, seq, deltas from $S.delta where task_id = $1 and n > $2 and epoch = $3 order by n',
      [this.#taskId, this.#lastDelta, head.epoch],
      this.#taskId,
    );
    this.#lastDelta = rows.at(-1)?.n ?? this.#lastDelta;
    return rows;
  }

  #showRecord(to: Subscriber<FollowSignal>, record: JournalRecord): void {
    this.#seq = record.seq;
    this.#attempt.apply(record);
    if (record.seq >= this.#from) to.next({ type: 'record', record });
    if (isTerminal(record)) to.complete();
  }

  /** Emits the deltas that follow the record `seq`, or an earlier one. */
  #showDeltas(to: Subscriber<FollowSignal>, seq: number): void {
    const later: DeltaRow[] = [];
    for (const row of this.#waiting) {
      if (row.seq > seq) later.push(row);
      else for (const delta of this.#deltasIn(row)) this.#showDelta(to, delta);
    }
    this.#waiting = later;
  }

  #showDelta(to: Subscriber<FollowSignal>, delta: Delta): void {
    if (to.closed || (delta.type === 'llm' && !this.#attempt.accept(delta))) return;
    to.next({ type: 'delta', delta });
  }

  #deltasIn({ deltas }: DeltaRow): readonly Delta[] {
    return parsed(deltas, this.#taskId, 'its deltas are damaged');
  }
}

/** How long a reader waits for an unavailable server before it errors. */
const patienceMs = 30_000;

interface LookOptions<T> {
  readonly wakeUps: WakeUps;
  readonly taskId: string;
  readonly feed: Feed;
  /** Whether the reader waits for an unavailable server without a limit. */
  readonly isPatient: boolean;
  /** Called at subscription. Emits what is new to the reader; returns true if there may be more at once. Exceptions error the stream. */
  start(): (subscriber: Subscriber<T>) => Promise<boolean>;
}

/**
 * Emits the results of polls of a task: one at subscription, one at each wake-up, in sequence. After the first successful poll it waits for
 * an unavailable server.
 */
function looking<T>({ wakeUps, taskId, feed, isPatient, start }: LookOptions<T>): Observable<T> {
  return new Observable((subscriber) => {
    const look = start();
    let isLooking = false;
    let again = false;
    let hasLooked = false;
    let awaySince: number | undefined;
    const isToWait = (error: unknown) => {
      if (!hasLooked || !AgentLoopError.isInstance(error)) return false;
      if (error.code !== 'UNAVAILABLE' || !error.retryable) return false;
      awaySince ??= performance.now();
      return isPatient || performance.now() - awaySince < patienceMs;
    };
    const lookAgain = async () => {
      again = true;
      if (isLooking) return;
      isLooking = true;
      try {
        while (again && !subscriber.closed) {
          again = false;
          if (await look(subscriber)) again = true;
          hasLooked = true;
          awaySince = undefined;
        }
      } catch (error) {
        if (!isToWait(error)) subscriber.error(error);
      }
      isLooking = false;
    };
    subscriber.add(wakeUps.join(taskId, feed, () => void lookAgain()));
    void lookAgain();
  });
}
