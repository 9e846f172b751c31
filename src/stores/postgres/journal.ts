import { AgentLoopError, type AppendOptions, type Lease, type TaskState } from '../../core/contracts/index.ts';
import { isTerminal, type JournalRecord, journalSchema } from '../../core/journal/index.ts';
import {
  AppendGroup,
  batchFault,
  checkAppend,
  fenced,
  newerSchema,
  notFound,
  openCallAfter,
  recordJson,
} from '../store-rules.ts';
import { dueTimeIn, statusTimeIn } from '../task-summary.ts';
import type { PostgresDatabase } from './postgres-database.ts';
import { contended, damaged } from './postgres-target.ts';
import { encoded, type HeadRow, headColumns, recordOf, serverNow } from './task-rows.ts';

/**
 * One round trip, which writes nothing unless the head matches: the second of two writers waits for the row, and its conditions are then checked
 * again on the first one's result. `$6` is null for an append without records, which only renews the lease and sets the state.
 */
const appendStatement = `
with head as (
  update $S.task set seq = coalesce($7::int, seq), state = $8, expires = ${serverNow} + $4::int8, lease_ms = $4::int8,
    updated_at = coalesce($9::int8, updated_at), status_at = coalesce($10::int8, status_at), call_seq = coalesce($11::int, call_seq),
    bytes = bytes + $12::int8, ended = $13::boolean,
    due_at = coalesce($15::int8, due_at),
    delete_at = case when $13::boolean then ${serverNow} + $14::int8 end
  where task_id = $1 and owner = $2 and epoch = $3::int8 and not ended and seq = coalesce($6::int - 1, seq)
  returning task_id),
records as (
  insert into $S.record (task_id, seq, record)
  select head.task_id, $6::int - 1 + given.place, given.record
  from head, unnest($5::text[]) with ordinality as given (record, place))
select task_id from head`;

interface JournalWriterDeps {
  readonly database: PostgresDatabase;
  /** Milliseconds that a task is kept once its turn has ended; null keeps it. */
  readonly keepMs: number | null;
  /** Called when records are written, before the append is acknowledged. */
  readonly written: (taskId: string) => void;
}

/** The appends of a task that are in flight. */
interface Line {
  /** Resolves when the last step has ended. */
  end: Promise<void> | undefined;
  waiting: number;
  /** Appends that failed with `UNAVAILABLE` while others were in flight, and the last failure. */
  losses: number;
  lost: AgentLoopError | undefined;
}

/**
 * Sends appends. Those of one task are sent in sequence, each on any free connection; those that wait meanwhile are merged into one
 * statement.
 */
export class JournalWriter {
  readonly #deps: JournalWriterDeps;
  /** By task: what is being gathered. */
  readonly #groups = new Map<string, AppendGroup>();
  /** By task: the end of what was sent. */
  readonly #lines = new Map<string, Line>();

  constructor(deps: JournalWriterDeps) {
    this.#deps = deps;
  }

  append(lease: Lease, records: readonly JournalRecord[], options: AppendOptions): Promise<void> {
    const { taskId } = lease;
    const open = this.#groups.get(taskId);
    if (records.length > 0 && batchFault(taskId, records) === undefined) {
      if (open?.take(lease, records, options)) return open.answered;
      const group = new AppendGroup(lease, records, options);
      this.#groups.set(taskId, group);
      // A group that fails with an append before it is not added to either.
      const close = () => {
        if (this.#groups.get(taskId) === group) this.#groups.delete(taskId);
      };
      const done = this.#append(taskId, () => {
        close();
        return this.#write(group.lease, group.records, group.options);
      });
      done.catch(close);
      group.answerWith(done);
      return group.answered;
    }
    this.#groups.delete(taskId);
    return this.#append(taskId, () => this.#write(lease, records, options));
  }

  /** Runs after the earlier steps of this task have settled. */
  inLine<T>(taskId: string, step: () => Promise<T>): Promise<T> {
    const line = this.#lines.get(taskId) ?? { end: undefined, waiting: 0, losses: 0, lost: undefined };
    this.#lines.set(taskId, line);
    line.waiting++;
    const done = line.end ? line.end.then(step) : new Promise<T>((resolve) => process.nextTick(() => resolve(step())));
    const leave = () => {
      if (--line.waiting === 0) this.#lines.delete(taskId);
    };
    line.end = done.then(leave, leave);
    return done;
  }

  /**
   * An append in sequence. If an earlier append fails with `UNAVAILABLE` meanwhile, so does this one: it would otherwise be `REWOUND`, and
   * its owner would stop. An append that is sent after that failure is written.
   */
  #append(taskId: string, write: () => Promise<void>): Promise<void> {
    const losses = this.#lines.get(taskId)?.losses ?? 0;
    return this.inLine(taskId, async () => {
      const line = this.#lines.get(taskId);
      if (line?.lost && line.losses > losses) throw line.lost;
      try {
        await write();
      } catch (error) {
        if (line && AgentLoopError.isInstance(error) && error.code === 'UNAVAILABLE') {
          line.losses++;
          line.lost = error;
        }
        throw error;
      }
    });
  }

  /** Resolves once all sent appends are answered. */
  async settled(): Promise<void> {
    await Promise.all([...this.#lines.values()].map(({ end }) => end));
  }

  /** Later appends start a new group, after this point. */
  closeGroup(taskId: string): void {
    this.#groups.delete(taskId);
  }

  async #write(lease: Lease, given: readonly JournalRecord[], { status }: AppendOptions): Promise<void> {
    const { database, written } = this.#deps;
    const { taskId, owner, epoch } = lease;
    const fault = batchFault(taskId, given);
    let records = given;
    for (let tries = 0; tries < 3; tries++) {
      if (!fault) {
        const rows = await database.query(appendStatement, this.#values(lease, records, status), taskId);
        if (rows.length > 0) return written(taskId);
      }
      const head = await headOf(database, taskId);
      if (head.owner !== encoded(owner) || head.epoch !== epoch) throw fenced(lease);
      const rest = fault ? records : recordsAfter(head.seq, lease, records);
      // They exist already: only the response was lost.
      if (!checkAppend({ seq: head.seq, hasEnded: head.ended }, lease, rest)) return written(taskId);
      if (fault) throw fault;
      records = rest;
    }
    throw contended(taskId);
  }

  #values({ taskId, owner, epoch, leaseMs }: Lease, records: readonly JournalRecord[], status: TaskState): unknown[] {
    const texts = records.map((record) => recordJson(record, taskId));
    const last = records.at(-1);
    return [
      taskId,
      encoded(owner),
      epoch,
      leaseMs,
      texts,
      records[0]?.seq ?? null,
      last?.seq ?? null,
      status,
      last?.at ?? null,
      statusTimeIn(records) ?? null,
      openCallAfter(records) ?? null,
      texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0),
      last !== undefined && isTerminal(last),
      this.#deps.keepMs,
      dueTimeIn(records) ?? null,
    ];
  }
}

/** The records to write of merged appends that may begin with already stored ones. */
function recordsAfter(seq: number, lease: Lease, records: readonly JournalRecord[]): readonly JournalRecord[] {
  const [first, last] = [records[0]?.seq ?? 0, records.at(-1)?.seq ?? 0];
  return first > lease.seq && first <= seq && last > seq ? records.slice(seq - first + 1) : records;
}

/** Errors: `NOT_FOUND`. */
export async function headOf(database: PostgresDatabase, taskId: string): Promise<HeadRow> {
  const text = `select ${headColumns} from $S.task t where t.task_id = $1`;
  const [head] = await database.query<HeadRow>(text, [taskId], taskId);
  if (head === undefined) throw notFound(taskId);
  return head;
}

/** The number of records per statement, so that a long journal is never whole in memory. */
const pageLength = 500;

interface Page {
  readonly head: HeadRow;
  readonly records: readonly JournalRecord[];
  /** Whether it reaches the head's seq. */
  readonly isWhole: boolean;
}

type PageRow = HeadRow & { readonly record_seq: number | null; readonly record: string | null };

/** A consistent snapshot of the head and the records from a seq on. Errors: `NOT_FOUND`, `SCHEMA`, `POISON`. */
export async function readPage(database: PostgresDatabase, taskId: string, from: number): Promise<Page> {
  const rows = await database.query<PageRow>(
    `select ${headColumns}, r.seq as record_seq, r.record
     from $S.task t left join lateral (
       select seq, record from $S.record where task_id = t.task_id and seq >= $2 and seq <= t.seq order by seq limit ${pageLength}) r on true
     where t.task_id = $1 order by r.seq`,
    [taskId, Math.min(from, 2 ** 31 - 1)],
    taskId,
  );
  const [head] = rows;
  if (head === undefined) throw notFound(taskId);
  if (head.schema > journalSchema) throw newerSchema(taskId, head.schema);
  const records = rows.flatMap(({ record_seq: seq, record }, index) => {
    if (seq === null || record === null) return [];
    if (seq !== from + index) throw damaged(taskId, `record ${from + index} is missing`);
    return [recordOf(record, taskId, seq)];
  });
  const isWhole = from + records.length > head.seq;
  if (!isWhole && records.length < pageLength) {
    throw damaged(taskId, `record ${from + records.length} of ${head.seq} is missing`);
  }
  return { head, records, isWhole };
}

/** The records from a seq on, up to where the journal ended when the first page was read. */
export async function readJournal(
  database: PostgresDatabase,
  taskId: string,
  from: number,
): Promise<readonly JournalRecord[]> {
  const { head, records: first, isWhole } = await readPage(database, taskId, from);
  const records = [...first];
  for (let whole = isWhole; !whole; ) {
    const page = await readPage(database, taskId, from + records.length);
    if (page.head.n !== head.n) throw notFound(taskId);
    records.push(...page.records.filter(({ seq }) => seq <= head.seq));
    whole = page.isWhole || from + records.length > head.seq;
  }
  return records;
}

/** One record; `undefined` if there is none. */
export async function readRecord(
  database: PostgresDatabase,
  taskId: string,
  seq: number,
): Promise<JournalRecord | undefined> {
  const text = 'select record from $S.record where task_id = $1 and seq = $2';
  const [row] = await database.query<{ readonly record: string }>(text, [taskId, seq], taskId);
  return row && recordOf(row.record, taskId, seq);
}
