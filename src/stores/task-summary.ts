import type { TaskQuery, TaskState, TaskSummary } from '../core/contracts/index.ts';
import { isTerminal, type JournalRecord } from '../core/journal/index.ts';
import { notFound } from './store-rules.ts';

/** What a store knows of a task. Times are in milliseconds since 1970. */
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

/** What the records of a journal do not say of its task. */
export interface TaskHead {
  readonly state: TaskState;
  /** Milliseconds since 1970: `statusTimeIn` the records. */
  readonly statusAt: number;
  /** Whether an owner holds it. */
  readonly held: boolean;
}

/** The summary of a task whose records are all at hand. The first one is `turn.started`; else it throws a `TypeError`. */
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

/** What a query asks for out of summaries of tasks, the one created last first. For `TaskStateStore.list` of a store without an index. */
export function selectTasks(summaries: readonly TaskSummary[], query: TaskQuery = {}): readonly TaskSummary[] {
  const { runnable = false, limit = 50 } = query;
  const found = tasksAfter(summaries, query, ({ taskId }) => taskId).filter(
    (task) => fits(query, task) && !(runnable && (task.held || !isRunnable(task.state))),
  );
  if (query.byStatus !== undefined) found.sort(byStatusOfSummaries);
  return found.slice(0, limit);
}

/** Of tasks in the order of `list` those after the one that a query names. Errors: `NOT_FOUND`. */
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

/** Whether a task is one that a query asks for, but for whether it is runnable. */
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
interface StatusPlace {
  readonly statusAt: number;
  readonly taskId: string;
}

/** For `sort`: the newest status first, of one time the last task id. */
export function byStatus(a: StatusPlace, b: StatusPlace): number {
  return b.statusAt - a.statusAt || Number(a.taskId < b.taskId) - Number(a.taskId > b.taskId);
}

/**
 * The first `limit` tasks in order, from two indexes that both have all of them: one in that order, one in any. Each step of an index gives one that
 * is asked for, or `undefined`. They are read in turns until one of them ends or the first has found enough, so the cost is that of the shorter one.
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

/** Whether a task of a group is within the part of it that is asked for. */
export function isWithin({ after, since }: StatusQuery, place: StatusPlace): boolean {
  if (since !== undefined && place.statusAt < Date.parse(since)) return false;
  return after === undefined || byStatus({ ...after, statusAt: Date.parse(after.statusAt) }, place) < 0;
}

/**
 * Until when the turn backs off after these records, in milliseconds since 1970; 0 where it does not, `undefined` where none of them says it.
 */
export function dueTimeIn(records: readonly JournalRecord[]): number | undefined {
  for (let index = records.length - 1; index >= 0; index--) {
    const record = records[index];
    if (record?.type === 'turn.suspended') return dueTime(record.hold?.until ?? 0);
    if (record?.type === 'llm.start' || (record && isTerminal(record))) return 0;
  }
  return undefined;
}

/** A time that every store and `Date` can hold. */
function dueTime(until: number): number {
  return Math.min(Math.max(0, Math.ceil(until)), 8.64e15);
}

/** Whether a runnable turn is one that a query asks for, by when it is due; 0: at once. */
export function isDue({ dueBy = Number.POSITIVE_INFINITY }: TaskQuery, dueAt: number): boolean {
  return dueAt <= dueBy;
}

/** Whether a turn in that state is to be run: by its owner, or by anybody where nobody holds it. */
export function isRunnable(state: TaskState): boolean {
  return state === 'submitted' || state === 'working';
}
