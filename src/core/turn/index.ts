// The turn: its loop (`loop.ts`, read first), how it is opened, run, shared, watched and taken over. Exports for code outside of `core`.

export { catchIterationError, completeIteration, startIterationSpan, withTools } from './iteration.ts';
export { loopIterations } from './loop.ts';
export { isAtLastCall, type LastCallLimits, startOfCall } from './next-step.ts';
export {
  checkSameTurn,
  childOf,
  originOf,
  otherContext,
  retryAfterMs,
} from './open-turn.ts';
export { isMarked, isOpening, markOpening, openingMs } from './opening-turns.ts';
export type { Run as TurnDeps } from './run.ts';
export { Run } from './run.ts';
export { catchTurnError, shutdownError, tapAfterTurn } from './run-operators.ts';
export type { Admitted, OnLease, OpenedTurn, RunRequest } from './run-request.ts';
export { drains, resumeRun, startRun } from './run-turn.ts';
export { type SharedTurn, shareTurn } from './share-turn.ts';
