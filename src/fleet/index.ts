// Turns on many machines: a queue of task ids, workers that run the turns, and health and dead letters for operators.
export type { QueueConnection } from './connection.ts';
export type { DeadTurn, DeadTurnsQuery } from './dead-turns.ts';
export { type FleetHealth, healthHandler, type Probed, type QueueCounts } from './health.ts';
export type { SchedulePlan, TurnLimits, TurnQueueOptions } from './options.ts';
export type { QueuedTurn, TurnGifts } from './run-job.ts';
export type { WorkerStatus } from './shared-counts.ts';
export {
  type StartedTurn,
  type StartTurnOptions,
  type TurnQueue,
  type TurnTemplate,
  turnQueue,
} from './turn-queue.ts';
export { type TurnWorker, type WorkerOptions, worker } from './worker.ts';
