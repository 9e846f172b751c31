import { waitingState } from '../contracts/task-state.ts';
import type { TurnSuspended } from '../journal/records.ts';
import { type LoopState, openQuestions } from '../journal/state.ts';
import type { PauseRequest } from '../ownership/inbox.ts';

/** The record of a turn that stops until somebody resumes it. Without a store only the process that runs it can: it waits. */
export function suspension(state: LoopState, { reason, commands }: PauseRequest, waitsHere = false): TurnSuspended {
  const questions = openQuestions(state);
  const record = {
    type: 'turn.suspended' as const,
    state: waitingState(questions),
    reason,
    questions,
    ...(waitsHere && { hold: {} }),
  };
  return commands.length === 0 ? record : { ...record, commands };
}
