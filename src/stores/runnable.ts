import type { TaskState } from '../core/contracts/index.ts';

/** Whether a turn in that state is to be run: by its owner, or by anybody where nobody holds it. */
export function isRunnable(state: TaskState): boolean {
  return state === 'submitted' || state === 'working';
}
