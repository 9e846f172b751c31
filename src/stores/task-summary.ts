import type { TaskState, TaskSummary } from '../core/contracts/index.ts';
import type { JournalRecord } from '../core/journal/index.ts';

/** What a store knows of a task. Times are in milliseconds since 1970. */
export interface SummarizedTask
  extends Omit<TaskSummary, 'createdAt' | 'updatedAt' | 'statusAt' | 'parentTaskId' | 'bytes'> {
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly statusAt: number;
  readonly parentTaskId?: string | undefined;
  readonly bytes?: number | undefined;
}

export function summaryOf(task: SummarizedTask): TaskSummary {
  const { taskId, contextId, agentId, parentTaskId, state, seq, createdAt, updatedAt, statusAt, held, bytes } = task;
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
    held,
    ...(bytes !== undefined && { bytes }),
  };
}

/** What the records of a journal do not say of its task. */
export interface TaskHead {
  readonly state: TaskState;
  /** Milliseconds since 1970: `statusTimeIn` the records. */
  readonly statusAt: number;
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
    seq: records.length,
    ...times,
    ...head,
  });
}
