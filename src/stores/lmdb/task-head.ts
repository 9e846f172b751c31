import type { AppendOptions, Lease, TaskState, TaskSummary, Under } from '../../core/contracts/index.ts';
import { isTerminal, type JournalRecord, kindOf, type Stamped, type TurnStarted } from '../../core/journal/index.ts';
import { dueTimeIn, statusTimeIn, summaryOf } from '../task-summary.ts';

/** The open model call of a journal. */
export interface OpenCall {
  /** The seq of its `llm.start`. */
  readonly seq: number;
  readonly iteration: number;
  readonly attempt: number;
}

/** For heads of older versions, which do not contain the length of the lease: the default length. */
const defaultLeaseMs = 30_000;

/** The data of a task beside its journal. Times are in milliseconds since 1970. */
export interface TaskHead {
  readonly taskId: string;
  readonly contextId: string;
  readonly agentId: string;
  /** Absent for a root turn. */
  readonly parentTaskId?: string;
  /** The schema of the journal. */
  readonly schema: number;
  /** The number of the task's creation in this file: distinguishes it from a deleted task with the same id. */
  readonly born: number;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Absent in heads of older versions: as `createdAt`. */
  readonly statusAt?: number;
  readonly status: TaskState;
  /** Until when the turn backs off. Absent if it does not. */
  readonly dueAt?: number;
  readonly seq: number;
  readonly hasEnded: boolean;
  /** Absent: the lease is free. */
  readonly owner?: string;
  readonly epoch: number;
  readonly expiresAt: number;
  /** The length of the lease. Absent in heads of older versions. */
  readonly leaseMs?: number;
  /** If the lease is free and its last owner never released it: when that owner last renewed it. */
  readonly brokenAt?: number;
  readonly call?: OpenCall;
  /** The lease of the parent turn under which this one was last acquired; kept when the lease is released. */
  readonly under?: Under;
  /** The bytes of its records and its commands as JSON. Absent in heads of older versions. */
  readonly bytes?: number;
}

/** `bytes`: of the first record. */
export function headOf(
  taskId: string,
  started: Stamped<TurnStarted>,
  { born, bytes }: Required<Pick<TaskHead, 'born' | 'bytes'>>,
): TaskHead {
  const { contextId, agentId, schema, at, seq, epoch, parent } = started;
  return {
    taskId,
    contextId,
    agentId,
    ...(parent && { parentTaskId: parent.taskId }),
    schema,
    born,
    createdAt: at,
    updatedAt: at,
    statusAt: at,
    status: 'submitted',
    seq,
    hasEnded: false,
    epoch,
    expiresAt: 0,
    bytes,
  };
}

export function isHeld(head: TaskHead, now: number): boolean {
  return head.owner !== undefined && now < head.expiresAt && !endsTooLate(head, now);
}

/**
 * Whether a lease ends later than its length allows: the clock of its owner was ahead of this one, or this one was set back. That
 * does not tell whether the owner still runs.
 */
export function endsTooLate({ owner, expiresAt, leaseMs }: TaskHead, now: number): boolean {
  return owner !== undefined && expiresAt - now > (leaseMs ?? defaultLeaseMs);
}

/** The head with a lease that lasts its length from now. A running owner extends it at its next renewal. */
export function shortened(head: TaskHead, now: number): TaskHead {
  return { ...head, expiresAt: now + (head.leaseMs ?? defaultLeaseMs) };
}

export function isOwnedBy(head: TaskHead, lease: Lease): boolean {
  return head.owner === lease.owner && head.epoch === lease.epoch;
}

/** A new owner starts its own model call. */
export function granted(
  { call: _, brokenAt: __, ...head }: TaskHead,
  lease: Lease,
  { now, under }: { readonly now: number; readonly under: Under | undefined },
): TaskHead {
  const { owner, epoch, leaseMs } = lease;
  const taken = { ...head, owner, epoch, expiresAt: now + leaseMs, leaseMs };
  return under ? { ...taken, under } : taken;
}

export function renewed(head: TaskHead, lease: Lease, now: number): TaskHead {
  return { ...head, expiresAt: now + lease.leaseMs };
}

/** When an owner that never released its lease last renewed it. */
export function abandonedAt({ owner, brokenAt, expiresAt, leaseMs = defaultLeaseMs }: TaskHead): number | null {
  return owner === undefined ? (brokenAt ?? null) : expiresAt - leaseMs;
}

/** The head of a task whose lease was revoked. */
export function broken(head: TaskHead, epoch: number): TaskHead {
  const { expiresAt, leaseMs = defaultLeaseMs } = head;
  return { ...released(head, expiresAt - leaseMs), epoch };
}

export function released({ owner: _, ...head }: TaskHead, brokenAt?: number): TaskHead {
  return brokenAt === undefined ? head : { ...head, brokenAt };
}

/** The head of a task with more stored bytes. An unknown size stays unknown. */
export function grown(head: TaskHead, bytes: number): TaskHead {
  return head.bytes === undefined ? head : { ...head, bytes: head.bytes + bytes };
}

export interface Appended extends Pick<AppendOptions, 'status'> {
  readonly now: number;
  readonly lease: Lease;
  /** Of the records. */
  readonly bytes: number;
}

/** The head after checked records. */
export function appended(
  head: TaskHead,
  records: readonly JournalRecord[],
  { status, now, lease, bytes }: Appended,
): TaskHead {
  const last = records.at(-1);
  const { call: before, dueAt: dueBefore, ...rest } = grown(renewed(head, lease, now), bytes);
  const call = records.reduce(callAfter, before);
  const dueAt = dueTimeIn(records) ?? dueBefore;
  return {
    ...rest,
    status,
    seq: last?.seq ?? head.seq,
    updatedAt: last?.at ?? head.updatedAt,
    statusAt: statusTimeIn(records) ?? statusTimeOf(head),
    hasEnded: last === undefined ? head.hasEnded : isTerminal(last),
    ...(dueAt && { dueAt }),
    ...(call && { call }),
  };
}

export function summaryOfHead(head: TaskHead, now: number): TaskSummary {
  return summaryOf({ ...head, state: head.status, statusAt: statusTimeOf(head), held: isHeld(head, now) });
}

/** The time of the last record with a state. */
export function statusTimeOf({ statusAt, createdAt }: TaskHead): number {
  return statusAt ?? createdAt;
}

function callAfter(call: OpenCall | undefined, record: JournalRecord): OpenCall | undefined {
  if (record.type === 'llm.start') {
    return { seq: record.seq, iteration: record.iteration, attempt: record.attempt };
  }
  return kindOf(record.type)?.streams === 'ends' ? undefined : call;
}
