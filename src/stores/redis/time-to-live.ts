import type { TaskState } from '../../core/events.ts';

/** Seconds that a task is kept after its last sign of life; null keeps it. */
export interface TimeToLive {
  readonly whileOpen: number | null;
  readonly afterEnd: number | null;
}

const suspended: ReadonlySet<TaskState> = new Set<TaskState>(['input-required', 'auth-required']);

/** As the scripts take it: below 0 means that the task does not expire. A suspended turn waits for as long as it takes. */
export function secondsToLive(timeToLive: TimeToLive, status: TaskState, hasEnded: boolean): number {
  if (suspended.has(status)) return -1;
  return (hasEnded ? timeToLive.afterEnd : timeToLive.whileOpen) ?? -1;
}
