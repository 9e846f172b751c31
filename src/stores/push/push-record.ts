import type { PushClaimOptions, PushEntry, PushProgress } from './push-store.ts';

/** A registration as a store keeps it. */
export interface PushRecord {
  readonly entry: PushEntry;
  /** Who delivers it; absent: nobody. */
  readonly owner?: string;
  /** When it may be claimed, milliseconds since 1970; absent: it is over. */
  readonly dueAt?: number;
  /** Since when it is over. */
  readonly overAt?: number;
}

/** Whether a claim takes it. */
export function isClaimable({ entry, owner, dueAt }: PushRecord, { taskId }: PushClaimOptions, now: number): boolean {
  if (dueAt === undefined || (taskId !== undefined && entry.taskId !== taskId)) return false;
  return dueAt <= now || (taskId !== undefined && owner === undefined);
}

/** The record after a report of its owner. */
export function progressed({ entry: before, owner }: PushRecord, progress: PushProgress, now: number): PushRecord {
  const { cursor = before.cursor } = progress;
  const entry = { ...before, ...(cursor !== undefined && { cursor }) };
  switch (progress.type) {
    case 'held':
      return { entry, ...(owner !== undefined && { owner }), dueAt: now + progress.leaseMs };
    case 'parked':
      return { entry, dueAt: now + progress.afterMs };
    case 'over':
      return { entry, overAt: now };
  }
}
