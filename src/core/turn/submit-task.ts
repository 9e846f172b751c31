import { type Context, isSpanContextValid, TraceFlags, trace } from '@opentelemetry/api';
import type { StartOptions, TaskStateStore } from '../contracts/index.ts';
import { type Deadline, journalSchema, ready, type Submission } from '../journal/index.ts';
import { checkSameTurn, otherContext } from './open-turn.ts';
import type { TurnStart } from './run-turn.ts';

/** What a turn is submitted with: all that its journal keeps, so that any process can run it. */
export interface SubmitOptions
  extends Pick<
    StartOptions,
    'taskId' | 'agentId' | 'contextId' | 'parentContext' | 'systemPrompt' | 'maxIterations' | 'metadata' | 'retryPlan'
  > {
  /** Whose turn it is, where a queue is shared by several. Default: nobody's. */
  readonly tenant?: string | undefined;
  /** The place among turns that wait for a worker: 1, the first, to 2^21 - 1. Default: the queue decides. */
  readonly priority?: number | undefined;
  /** Workers of a queue begin the turn then, in milliseconds since 1970. Default: at once. */
  readonly notBefore?: number | undefined;
}

export interface SubmittedTask {
  readonly taskId: string;
  readonly contextId: string;
  /** False where the task was there already. */
  readonly created: boolean;
}

interface SubmitTask {
  readonly store: TaskStateStore;
  readonly deadline: Deadline;
  readonly start: TurnStart;
  /** What the caller says; a task that is there may have another where that is `undefined`. */
  readonly contextId: string | undefined;
  readonly parentContext: Context;
}

/** Writes the journal of a new turn, which nobody runs yet. Errors: `CONFLICT` where the task exists and is another turn; those of the store. */
export async function submitTask({
  store,
  deadline,
  start,
  contextId,
  parentContext,
}: SubmitTask): Promise<SubmittedTask> {
  const { taskId } = start;
  const record = {
    type: 'turn.started' as const,
    schema: journalSchema,
    ...start,
    seq: 1,
    epoch: 0,
    at: deadline.clock.now(),
    submitted: submissionFrom(parentContext),
  };
  const { created, started } = await ready(() => store.create(taskId, record), deadline);
  if (!created) {
    checkSameTurn(record, started);
    if (contextId !== undefined && contextId !== started.contextId) throw otherContext(taskId);
  }
  return { taskId, contextId: started.contextId, created };
}

function submissionFrom(parentContext: Context): Submission {
  const above = trace.getSpanContext(parentContext);
  if (!above || !isSpanContextValid(above)) return {};
  const { traceId, spanId, traceFlags } = above;
  const sampled = (traceFlags & TraceFlags.SAMPLED) === 0 ? { sampled: false as const } : {};
  return { trace: { traceId, spanId, ...sampled } };
}
