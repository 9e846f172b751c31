// The turn: its loop (`loop.ts`, read first), how it is opened, watched, steered, cancelled, forked and retried. Other rooms import from here only.

export { Inbox, incomingMessage } from '../ownership/inbox.ts';
export { type Admission, type Admitted, type OpenedTurn, withAdmission } from './admission.ts';
export { AgentLoop, type ObserveOptions, type ResumeOptions, type RetryTurnOptions } from './agent-loop.ts';
export type { AnswerOptions } from './answer-task.ts';
export type { CancelOptions } from './cancel-task.ts';
export { catchTurnError, tapAfterTurn } from './execute-operators.ts';
export type { ForkedTask } from './fork-task.ts';
export { givenByCaller } from './given-by-caller.ts';
export { catchIterationError, completeIteration, startIterationSpan } from './iteration-operators.ts';
export { loopIterations } from './loop.ts';
export { retryAfterMs } from './open-turn.ts';
export type { Turn } from './turn.ts';
export type { TurnDeps } from './turn-deps.ts';
export type { DiscardedText, TextOptions, TurnStream } from './turn-text.ts';
