// The turn: its loop (`loop.ts`, read first), how it is opened, submitted, watched, steered, cancelled, forked and retried. Exports for code outside of `core`.

export type { ModelCallDeps as TurnDeps } from '../model-call/usage.ts';
export { Inbox, incomingMessage } from '../ownership/inbox.ts';
export { type Admission, type Admitted, admissionOf, type OpenedTurn, withAdmission } from './admission.ts';
export {
  AgentLoop,
  givenByCaller,
  type ResumeOptions,
  type RetryTurnOptions,
} from './agent-loop.ts';
export type { ForkedTask, SubmitOptions, SubmittedTask } from './create-task.ts';
export { loopIterations } from './loop.ts';
export { catchIterationError, completeIteration, startIterationSpan } from './model-step.ts';
export { retryAfterMs } from './open-turn.ts';
export { retryTask } from './retry-task.ts';
export { catchTurnError, tapAfterTurn } from './run-operators.ts';
export { type AnswerOptions, type CancelOptions, endLostChild } from './task-commands.ts';
export type { Turn } from './turn.ts';
export {
  type DiscardedText,
  type ObserveOptions,
  observeEvents,
  type TextOptions,
  type TurnStream,
} from './turn-stream.ts';
