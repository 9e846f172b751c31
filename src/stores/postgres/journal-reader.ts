import type { JournalRecord } from '../../core/journal/index.ts';
import { journalSchema } from '../../core/journal/index.ts';
import { newerSchema, notFound } from '../store-errors.ts';
import type { PostgresDatabase } from './postgres-database.ts';
import { damaged } from './postgres-errors.ts';
import { type HeadRow, headColumns, recordOf } from './task-rows.ts';

/** Records of one statement, so that a long journal is never in memory whole. */
const pageLength = 500;

export interface Page {
  readonly head: HeadRow;
  readonly records: readonly JournalRecord[];
  /** Whether it reaches the head's seq. */
  readonly isWhole: boolean;
}

type PageRow = HeadRow & { readonly record_seq: number | null; readonly record: string | null };

/** The head and the records from a seq on, of one moment. Errors: `NOT_FOUND`, `SCHEMA`, `POISON`. */
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

/** One record; undefined where there is none. */
export async function readRecord(
  database: PostgresDatabase,
  taskId: string,
  seq: number,
): Promise<JournalRecord | undefined> {
  const text = 'select record from $S.record where task_id = $1 and seq = $2';
  const [row] = await database.query<{ readonly record: string }>(text, [taskId, seq], taskId);
  return row && recordOf(row.record, taskId, seq);
}
