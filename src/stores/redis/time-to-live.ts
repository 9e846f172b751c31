import type { TaskState } from '../../core/contracts/index.ts';

/** By state: seconds that a task is kept after its last record or renewal; null keeps it. */
export type Retention = Readonly<Record<TaskState, number | null>>;

/** Unfinished work does not expire; a task that has ended is kept for so long. */
export function retentionOf(afterEnd: number | null): Retention {
  return {
    submitted: null,
    working: null,
    'input-required': null,
    'auth-required': null,
    completed: afterEnd,
    failed: afterEnd,
    canceled: afterEnd,
    rejected: afterEnd,
  };
}

/** As the scripts take it: below 0 means that the task does not expire. */
export function secondsToLive(retention: Retention, status: TaskState): number {
  return retention[status] ?? -1;
}
