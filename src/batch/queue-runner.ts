import { filter, firstValueFrom, map, Observable, takeUntil } from 'rxjs';
import {
  AgentLoopError,
  isSuspended,
  type Message,
  systemClock,
  type TaskStateStore,
} from '../core/contracts/index.ts';
import { type LoopState, observeTask, resultOf, TurnError, type TurnResult } from '../core/journal/index.ts';
import { onAbort, pause } from '../core/streams/index.ts';
import type { BatchRunner } from './batch-runner.ts';

const fullPauseMs = 500;

/** The part of a queue of turns that a batch uses. */
export interface BatchQueue {
  /** Creates the turn, unless there is one of this id, and enqueues it; idempotent. */
  start(messages: readonly Message[], options: QueuedTurnOptions): Promise<unknown>;
}

/** What `queueRunner` gives to a queue for each item. */
export interface QueuedTurnOptions {
  readonly agentId: string;
  readonly taskId: string;
  readonly contextId: string;
  readonly metadata?: Readonly<Record<string, unknown>> | undefined;
}

/** Options of `queueRunner`: the agent of the workers and their store. */
export interface QueueRunnerOptions {
  /** The agent of the workers. */
  readonly agentId: string;
  /** The store of the workers. */
  readonly store: TaskStateStore;
}

/**
 * Runs the turns of a batch in other processes, the workers of a queue; this one follows their journals. As many turns are enqueued as the batch has `concurrency`, by
 * default its window. When the batch is left, turns that are enqueued still run; the next start takes their results. An attempt after a failed one
 * begins anew.
 */
export function queueRunner(queue: BatchQueue, { agentId, store }: QueueRunnerOptions): BatchRunner {
  return {
    open: (stop) => ({
      async run({ taskId, contextId, messages, metadata }) {
        const given = { agentId, taskId, contextId, ...(metadata && { metadata }) };
        await startWhereRoom(() => queue.start(messages, given), stop);
        const deadline = { clock: systemClock, ms: 30_000 };
        const over$ = observeTask(store, taskId, deadline).pipe(
          map((signal) => (signal.type === 'commit' ? signal.after : undefined)),
          filter((state) => state !== undefined),
          filter(isOver),
          takeUntil(aborted(stop, taskId)),
        );
        return outcomeOf(await firstValueFrom(over$));
      },
    }),
  };
}

/** Others fill the queue, too (`maxOutstanding`): the batch waits for room. */
async function startWhereRoom(start: () => Promise<unknown>, stop: AbortSignal): Promise<void> {
  for (;;) {
    try {
      await start();
      return;
    } catch (error) {
      const isFull = AgentLoopError.isInstance(error) && error.code === 'FULL';
      if (!isFull || stop.aborted) throw error;
    }
    await pause(fullPauseMs, systemClock, stop);
  }
}

/** It has ended, or waits for somebody. One that waits for a model that is away continues by itself. */
function isOver({ isComplete, outcome }: LoopState): boolean {
  return isComplete || (outcome !== undefined && isSuspended(outcome.state));
}

function outcomeOf(state: LoopState): TurnResult {
  const result = resultOf(state);
  if (state.error) throw new TurnError(result, state.error);
  if (result.status !== 'canceled') return result;
  throw new TurnError(result, { code: 'CANCELED', message: `The turn was cancelled: ${result.reason}.` });
}

/** Errors once the signal is aborted. */
function aborted(signal: AbortSignal, taskId: string): Observable<never> {
  return new Observable((subscriber) => {
    const leave = () =>
      subscriber.error(new AgentLoopError('SHUTDOWN', 'The batch stopped while a worker ran the turn.', { taskId }));
    if (signal.aborted) return leave();
    return onAbort(signal, leave);
  });
}
