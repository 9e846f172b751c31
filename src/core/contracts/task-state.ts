import type { Question } from '../journal/records.ts';

/** A2A's task states. */
export type TaskState =
  | 'submitted'
  | 'working'
  | 'input-required'
  | 'auth-required'
  | 'completed'
  | 'failed'
  | 'canceled'
  | 'rejected';

export function isSuspended(state: TaskState): boolean {
  return state === 'input-required' || state === 'auth-required';
}

/** The state of a turn that waits for answers to these questions. */
export function waitingState(questions: readonly Question[]): 'input-required' | 'auth-required' {
  return questions.length > 0 && questions.every(({ kind }) => kind === 'auth') ? 'auth-required' : 'input-required';
}
