// Many prompts as one batch: `millrace/batch`.

export type { BatchBudget, BatchItem, BatchOptions, BatchRetry, ItemBasics } from './batch-options.ts';
export type { BatchProgress } from './batch-progress.ts';
export type { BatchRow, CompletedRow, FailedRow, SuspendedRow } from './batch-row.ts';
export { type BatchSource, runBatch } from './batch-run.ts';
export {
  agentRunner,
  type BatchRunner,
  type BatchTurn,
  type BatchTurns,
  type SharedTurnOptions,
} from './batch-runner.ts';
export { type BatchQueue, type QueuedTurnOptions, type QueueRunnerOptions, queueRunner } from './queue-runner.ts';
export { type ReadPromptsOptions, readPrompts } from './read-prompts.ts';
