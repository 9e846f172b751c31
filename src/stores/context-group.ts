import type { TaskQuery } from '../core/contracts/index.ts';
import type { JournalRecord } from '../core/journal/index.ts';

/** What is asked of the index by status. */
export type StatusQuery = NonNullable<TaskQuery['byStatus']>;

/** The group that a context belongs to: what stands before the first colon of its id; `undefined` where there is none. */
export function groupOf(contextId: string): string | undefined {
  const colon = contextId.indexOf(':');
  return colon < 0 ? undefined : contextId.slice(0, colon);
}

/** The time of the last of these records with a status, in milliseconds since 1970; `undefined` if none has one. */
export function statusTimeIn(records: readonly JournalRecord[]): number | undefined {
  for (let index = records.length - 1; index >= 0; index--) {
    const record = records[index];
    if (record?.type.startsWith('turn.')) return record.at;
  }
  return undefined;
}

/** What the order of a group goes by. */
export interface StatusPlace {
  readonly statusAt: number;
  readonly taskId: string;
}

/** For `sort`: the newest status first, of one time the last task id. */
export function byStatus(a: StatusPlace, b: StatusPlace): number {
  return b.statusAt - a.statusAt || Number(a.taskId < b.taskId) - Number(a.taskId > b.taskId);
}

/** Whether a task of a group is within the part of it that is asked for. */
export function isWithin({ after, since }: StatusQuery, place: StatusPlace): boolean {
  if (since !== undefined && place.statusAt < Date.parse(since)) return false;
  return after === undefined || byStatus({ ...after, statusAt: Date.parse(after.statusAt) }, place) < 0;
}
