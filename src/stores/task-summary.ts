import type { TaskQuery, TaskState, TaskSummary } from '../core/contracts/index.ts';
import { isTerminal, type JournalRecord, kindOf } from '../core/journal/index.ts';
import { notFound } from './store-rules.ts';

/** A store's data about a task. Times are in milliseconds since 1970. */
interface SummarizedTask
  extends Omit<TaskSummary, 'createdAt' | 'updatedAt' | 'statusAt' | 'dueAt' | 'parentTaskId' | 'bytes'> {
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly statusAt: number;
  /** 0 or absent for none. */
  readonly dueAt?: number | undefined;
  readonly parentTaskId?: string | undefined;
  readonly bytes?: number | undefined;
}

export function summaryOf(task: SummarizedTask): TaskSummary {
  const { taskId, contextId, agentId, parentTaskId, state, seq, createdAt, updatedAt, statusAt, dueAt, held, bytes } =
    task;
  return {
    taskId,
    contextId,
    agentId,
    ...(parentTaskId !== undefined && { parentTaskId }),
    state,
    seq,
    createdAt: new Date(createdAt).toISOString(),
    updatedAt: new Date(updatedAt).toISOString(),
    statusAt: new Date(statusAt).toISOString(),
    ...(dueAt && { dueAt: new Date(dueAt).toISOString() }),
    held,
    ...(bytes !== undefined && { bytes }),
  };
}

/** The parts of a summary that are not in the records. */
export interface TaskHead {
  readonly state: TaskState;
  /** Milliseconds since 1970: `statusTimeIn` the records. */
  readonly statusAt: number;
  /** Whether an owner holds it. */
  readonly held: boolean;
}

/** The summary of a task with all its records. Throws a `TypeError` if the first one is not `turn.started`. */
export function summaryOfRecords(records: readonly JournalRecord[], head: TaskHead): TaskSummary {
  const [started] = records;
  if (started?.type !== 'turn.started') throw new TypeError('The first record of a journal must be turn.started.');
  const { taskId, contextId, agentId, parent, at } = started;
  const times = { createdAt: at, updatedAt: records.at(-1)?.at ?? at };
  return summaryOf({
    taskId,
    contextId,
    agentId,
    parentTaskId: parent?.taskId,
    dueAt: dueTimeIn(records),
    seq: records.length,
    ...times,
    ...head,
  });
}

/** Applies a query to summaries of tasks, the newest first. For `TaskStateStore.list` of a store without an index. */
export function selectTasks(summaries: readonly TaskSummary[], query: TaskQuery = {}): readonly TaskSummary[] {
  const { runnable = false, limit = 50 } = query;
  const found = tasksAfter(summaries, query, ({ taskId }) => taskId).filter(
    (task) => fits(query, task) && !(runnable && (task.held || !isRunnable(task.state))),
  );
  if (query.byStatus !== undefined) found.sort(byStatusOfSummaries);
  return found.slice(0, limit);
}

/** The tasks after the one that a query names, from tasks in the order of `list`. Errors: `NOT_FOUND`. */
export function tasksAfter<T>(
  tasks: readonly T[],
  { afterTaskId }: TaskQuery,
  idOf: (task: T) => string,
): readonly T[] {
  if (afterTaskId === undefined) return tasks;
  const at = tasks.findIndex((task) => idOf(task) === afterTaskId);
  if (at < 0) throw notFound(afterTaskId);
  return tasks.slice(at + 1);
}

/** Whether a task matches a query, except for `runnable`. */
export function fits(query: TaskQuery, task: TaskSummary): boolean {
  const { state, contextId, parentTaskId, agentId, dueAt } = task;
  if (query.agentId !== undefined && agentId !== query.agentId) return false;
  if (query.runnable && !isDue(query, dueAt === undefined ? 0 : Date.parse(dueAt))) return false;
  if (query.state !== undefined && state !== query.state) return false;
  if (query.roots && parentTaskId !== undefined) return false;
  if (query.parentTaskId !== undefined && parentTaskId !== query.parentTaskId) return false;
  if (query.contextId !== undefined && contextId !== query.contextId) return false;
  if (query.byStatus === undefined) return true;
  return groupOf(contextId) === query.byStatus.group && isWithin(query.byStatus, placeOf(task));
}

/** For `sort`: the order of a group. */
export function byStatusOfSummaries(one: TaskSummary, other: TaskSummary): number {
  return byStatus(placeOf(one), placeOf(other));
}

function placeOf({ statusAt, taskId }: TaskSummary) {
  return { statusAt: Date.parse(statusAt), taskId };
}

/** A query of the index by status. */
export type StatusQuery = NonNullable<TaskQuery['byStatus']>;

/** The group of a context: the part of its id before the first colon; `undefined` without a colon. */
export function groupOf(contextId: string): string | undefined {
  const colon = contextId.indexOf(':');
  return colon < 0 ? undefined : contextId.slice(0, colon);
}

/** The time of the last of these records with a status, in milliseconds since 1970; `undefined` if none has one. */
export function statusTimeIn(records: readonly JournalRecord[]): number | undefined {
  for (let index = records.length - 1; index >= 0; index--) {
    const record = records[index];
    if (record && kindOf(record.type)?.changesStatus) return record.at;
  }
  return undefined;
}

/** The sort key of a group. */
interface StatusPlace {
  readonly statusAt: number;
  readonly taskId: string;
}

/** For `sort`: the newest status first, at equal times the last task id. */
export function byStatus(a: StatusPlace, b: StatusPlace): number {
  return b.statusAt - a.statusAt || Number(a.taskId < b.taskId) - Number(a.taskId > b.taskId);
}

/**
 * The first `limit` tasks in order, from two indexes that both contain all of them: one in that order, one in any. Each step of an index yields a
 * matching task, or `undefined`. They are read alternately until one of them ends or the first has found enough, so the cost is that of the shorter one.
 */
export function foundFirst<T>(
  inOrder: Iterator<T | undefined>,
  inAnyOrder: Iterator<T | undefined>,
  { limit, order }: { readonly limit: number; readonly order: (one: T, other: T) => number },
): readonly T[] {
  const [ordered, others]: [T[], T[]] = [[], []];
  while (ordered.length < limit) {
    const [next, other] = [inOrder.next(), inAnyOrder.next()];
    if (next.done) break;
    if (next.value !== undefined) ordered.push(next.value);
    if (other.done) return others.sort(order).slice(0, limit);
    if (other.value !== undefined) others.push(other.value);
  }
  return ordered;
}

/** Whether a task of a group is in the requested range. */
export function isWithin({ after, since }: StatusQuery, place: StatusPlace): boolean {
  if (since !== undefined && place.statusAt < Date.parse(since)) return false;
  return after === undefined || byStatus({ ...after, statusAt: Date.parse(after.statusAt) }, place) < 0;
}

/**
 * Until when the turn backs off after these records, in milliseconds since 1970; 0 if it does not, `undefined` if they do not change it.
 */
export function dueTimeIn(records: readonly JournalRecord[]): number | undefined {
  for (let index = records.length - 1; index >= 0; index--) {
    const record = records[index];
    if (record?.type === 'turn.suspended') return dueTime(record.hold?.until ?? 0);
    if (record?.type === 'llm.start' || (record && isTerminal(record))) return 0;
  }
  return undefined;
}

/** Clamps a time to the range of every store and `Date`. */
function dueTime(until: number): number {
  return Math.min(Math.max(0, Math.ceil(until)), 8.64e15);
}

/** Whether a runnable turn matches a query by its due time; 0: at once. */
export function isDue({ dueBy = Number.POSITIVE_INFINITY }: TaskQuery, dueAt: number): boolean {
  return dueAt <= dueBy;
}

/** Whether a turn in that state is to be run. */
export function isRunnable(state: TaskState): boolean {
  return state === 'submitted' || state === 'working';
}
