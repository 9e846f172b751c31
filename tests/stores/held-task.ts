import type { JournalRecord, TaskStateStore } from 'millrace';
import { startRecord } from 'millrace/internals';
import type { Lease, TurnRecord } from 'millrace/types';

/** Records as the owner of a lease appends them, the first at a seq. */
export function stamp(lease: Lease, first: number, ...records: readonly TurnRecord[]): readonly JournalRecord[] {
  return records.map((record, index) => ({ ...record, seq: first + index, epoch: lease.epoch, at: first + index }));
}

/** The lease of a new task. */
export async function held(store: TaskStateStore, taskId = 't') {
  await store.create(taskId, startRecord(taskId));
  return store.acquire(taskId, 'owner', 60_000);
}
