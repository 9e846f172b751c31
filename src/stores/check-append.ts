import type { AgentLoopError, Lease } from '../core/contracts/index.ts';
import { isKnownType, isTerminal, type JournalRecord, kindOf } from '../core/journal/index.ts';
import { ended, rewound, unknownRecord } from './store-errors.ts';

/** Where a journal ends. */
export interface JournalEnd {
  readonly seq: number;
  /** Whether its last record is a terminal one. */
  readonly hasEnded: boolean;
}

/**
 * Whether records of the journal's owner are to be written: true if they continue at its end, false if this owner wrote
 * all of them before. Errors: `TERMINAL`, `REWOUND`, `POISON`. That the lease is the journal's is checked before.
 */
export function checkAppend(end: JournalEnd, lease: Lease, records: readonly JournalRecord[]): boolean {
  const first = records[0]?.seq ?? Number.POSITIVE_INFINITY;
  if (first <= end.seq && first > lease.seq && first + records.length - 1 <= end.seq) return false;
  if (end.hasEnded) throw ended(lease.taskId);
  let { seq } = end;
  let closed = false;
  for (const record of records) {
    if (record.seq !== seq + 1) throw rewound(lease.taskId, seq, record.seq);
    if (closed) throw ended(lease.taskId);
    if (!isKnownType(record.type)) throw unknownRecord(lease.taskId, record.seq, record.type);
    closed = isTerminal(record);
    seq++;
  }
  return true;
}

/** Why a batch must not be written, whatever the journal says; for stores whose server compares it with the journal. */
export function batchFault(taskId: string, records: readonly JournalRecord[]): AgentLoopError | undefined {
  let previous: JournalRecord | undefined;
  for (const record of records) {
    if (previous !== undefined && record.seq !== previous.seq + 1) return rewound(taskId, previous.seq, record.seq);
    if (previous !== undefined && isTerminal(previous)) return ended(taskId);
    if (!isKnownType(record.type)) return unknownRecord(taskId, record.seq, String(record.type));
    previous = record;
  }
  return undefined;
}

/** The seq of the `llm.start` that the journal is in the middle of after these records; 0 for none, undefined for as before. */
export function openCallAfter(records: readonly JournalRecord[]): number | undefined {
  let open: number | undefined;
  for (const { type, seq } of records) {
    const streams = kindOf(type)?.streams;
    if (streams === 'begins') open = seq;
    else if (streams === 'ends') open = 0;
  }
  return open;
}
