import { AgentLoopError, type Lease, taskIdPattern, type Under } from '../core/contracts/index.ts';
import { journalSchema } from '../core/journal/index.ts';

/** Refuses a task id that no store may take: `INVALID_INPUT`. */
export function assertTaskId(taskId: string): void {
  if (taskIdPattern.test(taskId)) return;
  throw new AgentLoopError(
    'INVALID_INPUT',
    `The task id ${JSON.stringify(taskId)} cannot be used; take 1 to 128 of the characters A-Z a-z 0-9 _ . : -`,
  );
}

export function notFound(taskId: string): AgentLoopError {
  return new AgentLoopError(
    'NOT_FOUND',
    `The store has no task "${taskId}"; check the id, or start the turn again if the task was deleted or its time ran out.`,
    { taskId },
  );
}

export function fenced(lease: Lease): AgentLoopError {
  return new AgentLoopError(
    'FENCED',
    `The lease of "${lease.owner}" on task "${lease.taskId}" (epoch ${lease.epoch}) was taken over or given back; stop this turn, its results are not recorded.`,
    { taskId: lease.taskId },
  );
}

/** For an `acquire`, which has no lease yet. `epoch`: of the parent's lease that the child turn was taken under. */
export function olderParent(taskId: string, under: Under, epoch: number): AgentLoopError {
  return new AgentLoopError(
    'FENCED',
    `A newer owner of the parent turn "${under.taskId}" (epoch ${epoch}, yours is ${under.epoch}) took the child turn "${taskId}"; stop the parent turn, its results are not recorded.`,
    { taskId },
  );
}

export function rewound(taskId: string, head: number, seq: number): AgentLoopError {
  return new AgentLoopError(
    'REWOUND',
    `Record ${seq} does not follow the journal of task "${taskId}", which ends at ${head}; stop this turn and resume the task from its journal.`,
    { taskId },
  );
}

/** `remainingMs`: how long the lease lasts if nobody renews it. */
export function busy(taskId: string, remainingMs: number): AgentLoopError {
  return new AgentLoopError(
    'BUSY',
    `Task "${taskId}" is held by another owner for ${remainingMs} ms more; follow it, or try again later.`,
    { taskId, retryable: true, retryAfterMs: remainingMs },
  );
}

export function ended(taskId: string): AgentLoopError {
  return new AgentLoopError('TERMINAL', `The turn of task "${taskId}" has ended; start a new one with another id.`, {
    taskId,
  });
}

export function newerSchema(taskId: string, schema: number): AgentLoopError {
  return new AgentLoopError(
    'SCHEMA',
    `The journal of task "${taskId}" has schema ${schema}, this version reads up to ${journalSchema}; update millrace.`,
    { taskId },
  );
}

export function unknownRecord(taskId: string, seq: number, type: string): AgentLoopError {
  return new AgentLoopError(
    'POISON',
    `Record ${seq} of task "${taskId}" has the type "${type}", which this version does not know; name extension records "x.…", or update millrace.`,
    { taskId },
  );
}
