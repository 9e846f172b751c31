import { backgroundClock, type Delta, type Lease } from '../../core/contracts/index.ts';
import type { JournalRecord } from '../../core/journal/index.ts';
import { Timer } from '../../core/streams/index.ts';
import { deltasJson, mergedDelta } from '../deltas.ts';
import type { PostgresDatabase } from './postgres-database.ts';

/** A delta and the seq of the record that it follows, as far as this store knows it. */
interface Placed {
  readonly seq: number | undefined;
  readonly delta: Delta;
}

const gatherMs = 20;
/** Deltas of a task that wait at most; beyond it the progress of tools is dropped. */
const maxWaiting = 1_000;

/** One statement for the deltas of all tasks. Drops those of an owner that lost its lease, and those of earlier model calls. */
const publishStatement = `
with given as (
  select t.task_id, u.epoch, coalesce(u.seq, t.seq) as seq, u.deltas, u.place
  from unnest($1::text[], $2::int8[], $3::int[], $4::text[]) with ordinality as u (task_id, epoch, seq, deltas, place)
  join $S.task t on t.task_id = u.task_id and t.epoch = u.epoch and not t.ended),
old as (
  delete from $S.delta d using $S.task t
  where d.task_id = any($5::text[]) and t.task_id = d.task_id and (t.ended or (t.call_seq > 0 and d.seq < t.call_seq)))
insert into $S.delta (task_id, seq, epoch, deltas) select task_id, seq, epoch, deltas from given order by place`;

export interface DeltaFeedDeps {
  readonly database: PostgresDatabase;
  readonly sent: (taskId: string) => void;
}

/**
 * Collects the deltas of all tasks for 20 ms and sends them as one statement, with adjacent text merged; one statement is in flight at a time. Failed
 * deltas are dropped: the records contain everything in the end. The table is unlogged, so a crash of the server empties it.
 */
export class DeltaFeed {
  readonly #deps: DeltaFeedDeps;
  #waiting = new Map<string, Placed[]>();
  /** By task: the last record that was appended here, and its lease's epoch. */
  readonly #ends = new Map<string, { readonly epoch: number; readonly seq: number }>();
  /** Tasks whose rows can be deleted. */
  readonly #old = new Set<string>();
  readonly #timer = new Timer(backgroundClock);
  #sending: Promise<void> | undefined;

  constructor(deps: DeltaFeedDeps) {
    this.#deps = deps;
  }

  add(taskId: string, delta: Delta): void {
    const waiting = this.#waiting.get(taskId) ?? [];
    this.#waiting.set(taskId, waiting);
    const end = this.#ends.get(taskId);
    addMerged(waiting, { seq: end?.epoch === delta.epoch ? end.seq : undefined, delta });
    if (waiting.length > maxWaiting) {
      this.#waiting.set(
        taskId,
        waiting.filter(({ delta: { type } }) => type === 'llm'),
      );
    }
    this.#start();
  }

  /** Deltas that are published from now on follow these records. */
  note({ taskId, epoch }: Lease, records: readonly JournalRecord[]): void {
    const last = records.at(-1);
    if (last) this.#ends.set(taskId, { epoch, seq: last.seq });
  }

  /** The task has ended, or this store no longer owns it. */
  forget(taskId: string): void {
    this.#ends.delete(taskId);
    this.#old.add(taskId);
    this.#start();
  }

  isWaiting(taskId: string): boolean {
    return this.#waiting.has(taskId);
  }

  /** Resolves once the collected deltas of a task are sent, so that they precede the next write. */
  async flush(taskId: string): Promise<void> {
    while (this.#waiting.has(taskId)) {
      this.#sending ??= this.#send();
      await this.#sending;
    }
    await this.#sending;
  }

  async close(): Promise<void> {
    await this.#sending;
    if (this.#waiting.size > 0) await this.#send();
    this.#timer.close();
  }

  #start(): void {
    if (this.#timer.isSet) return;
    this.#timer.set(gatherMs, () => {
      this.#sending ??= this.#send();
    });
  }

  async #send(): Promise<void> {
    const waiting = this.#waiting;
    this.#waiting = new Map();
    const batches = [...waiting].flatMap(([taskId, placed]) => batchesOf(taskId, placed));
    const old = [...new Set([...this.#old, ...waiting.keys()])];
    this.#old.clear();
    const { database, sent } = this.#deps;
    try {
      await database.queryOnce(publishStatement, [
        batches.map(({ taskId }) => taskId),
        batches.map(({ epoch }) => epoch),
        batches.map(({ seq }) => seq ?? null),
        batches.map(({ json }) => json),
        old,
      ]);
      for (const taskId of waiting.keys()) sent(taskId);
    } catch {
      // Dropped.
    }
    this.#sending = undefined;
    if (this.#waiting.size > 0) this.#start();
  }
}

/** Merges text and reasoning with the preceding delta of the same call. */
function addMerged(waiting: Placed[], next: Placed): void {
  const last = waiting.at(-1);
  const merged = last?.seq === next.seq && last ? mergedDelta(last.delta, next.delta) : undefined;
  if (merged === undefined) waiting.push(next);
  else waiting[waiting.length - 1] = { seq: next.seq, delta: merged };
}

interface Batch {
  readonly taskId: string;
  readonly epoch: number;
  readonly seq: number | undefined;
  readonly json: string;
}

/** A batch has one epoch, and follows one record. */
function batchesOf(taskId: string, placed: readonly Placed[]): readonly Batch[] {
  const groups: Placed[][] = [];
  for (const each of placed) {
    const last = groups.at(-1);
    if (last?.[0]?.seq === each.seq && last?.[0]?.delta.epoch === each.delta.epoch) last.push(each);
    else groups.push([each]);
  }
  return groups.flatMap((group) => {
    const [first] = group;
    const json = deltasJson(group.map(({ delta }) => delta));
    return first && json !== undefined ? [{ taskId, epoch: first.delta.epoch, seq: first.seq, json }] : [];
  });
}
