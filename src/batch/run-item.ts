import { AgentLoopError, type Clock, type ErrorCode } from '../core/contracts/index.ts';
import { pause } from '../core/streams/index.ts';
import type { PriceList } from '../providers/models/model-info.ts';
import { attemptId, type PlacedItem, taskIdOf } from './batch-item.ts';
import type { ResolvedRetry } from './batch-options.ts';
import { addSpent, type BatchRow, failedRowOf, nothingSpent, resultIn, rowOf, spentIn } from './batch-row.ts';
import type { BatchTurns } from './batch-runner.ts';
import type { KnownRow } from './results-file.ts';

export interface ItemRun<T> {
  readonly batchId: string;
  readonly turns: BatchTurns<T>;
  readonly retry: ResolvedRetry;
  /** The row of an earlier start that failed, where it is to run again. */
  readonly failed: KnownRow | undefined;
  readonly prices: PriceList | undefined;
  readonly clock: Clock;
  /** Aborted when the batch is left. */
  readonly stop: AbortSignal;
}

/** Errors of a turn that was lost and of no other: its journal is damaged. What else loses a turn, loses those of all items. */
const ofOneTask: readonly ErrorCode[] = ['POISON', 'SCHEMA', 'TERMINAL', 'NOT_FOUND', 'REWOUND'];

/** Losses of a turn that continues elsewhere, or from what the store still has: it is attached to again, and created anew where the store lost all of it. */
const passing: readonly ErrorCode[] = ['FENCED', 'REWOUND', 'NOT_FOUND'];
/** How often, at most. */
const mostRuns = 3;

/**
 * Runs an item until it does not fail, or its attempts are used up; with the same arguments again it continues where it was. Rejects where the
 * turn is lost: with the error that loses it.
 */
export async function runItem<T>(item: PlacedItem, run: ItemRun<T>): Promise<BatchRow<T>> {
  const first = taskIdOf(run.batchId, item.key);
  const past = run.failed?.attempts ?? 0;
  const last = past + run.retry.attempts;
  let before = run.failed?.spent ?? nothingSpent;
  for (let number = past + 1; ; number++) {
    const taskId = attemptId(first, number);
    const retryOf = number === 1 ? undefined : attemptId(first, number - 1);
    try {
      const result = await runAttempt({ item, taskId, contextId: first, retryOf }, run.turns);
      return rowOf({ item, taskId, number, spent: addSpent(before, spentIn(result, run.prices)) }, result);
    } catch (error) {
      const result = resultIn(error);
      if (!result && !isOfOneTask(error)) throw error;
      if (run.stop.aborted && result?.status === 'canceled') throw error;
      before = addSpent(before, spentIn(result, run.prices));
      const mayPass =
        result?.status === 'failed' && AgentLoopError.isInstance(error) && run.retry.on.includes(error.code);
      if (!mayPass || number >= last) return failedRowOf({ item, taskId, number, spent: before }, error, result);
      await pauseUnlessLeft(pauseMs(error, number - past, run.retry), run);
    }
  }
}

function isOfOneTask(error: unknown): boolean {
  return AgentLoopError.isInstance(error) && ofOneTask.includes(error.code);
}

interface AttemptRun {
  readonly item: PlacedItem;
  readonly taskId: string;
  readonly contextId: string;
  readonly retryOf: string | undefined;
}

/** A turn that another process took over, or whose last records the store lost, is that of this batch all the same. */
async function runAttempt<T>({ item, ...ids }: AttemptRun, turns: BatchTurns<T>): ReturnType<BatchTurns<T>['run']> {
  const { messages, metadata } = item;
  for (let run = 1; ; run++) {
    try {
      return await turns.run({ ...ids, messages, metadata });
    } catch (error) {
      const mayPass = AgentLoopError.isInstance(error) && passing.includes(error.code) && !resultIn(error);
      if (!mayPass || run === mostRuns) throw error;
    }
  }
}

function pauseMs({ retryAfterMs }: AgentLoopError, failures: number, { delayMs, maxDelayMs }: ResolvedRetry): number {
  const ms = retryAfterMs ?? delayMs * 2 ** (failures - 1) * (0.5 + Math.random() / 2);
  return Math.min(ms, maxDelayMs);
}

/** Rejects at once where the batch is left. */
async function pauseUnlessLeft(ms: number, { clock, stop }: Pick<ItemRun<unknown>, 'clock' | 'stop'>): Promise<void> {
  await pause(ms, clock, stop);
  if (stop.aborted)
    throw new AgentLoopError('SHUTDOWN', 'The batch stopped while an item waited for its next attempt.');
}
