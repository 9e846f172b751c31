import type { TaskState as WireState } from '@a2a-js/sdk';
import type { TaskState } from '../core/contracts/index.ts';

/** The numbers of the protocol's states; never stored or logged. */
const wireStates: Readonly<Record<TaskState, WireState>> = {
  submitted: 1,
  working: 2,
  completed: 3,
  failed: 4,
  canceled: 5,
  'input-required': 6,
  rejected: 7,
  'auth-required': 8,
};

export function wireState(state: TaskState): WireState {
  return wireStates[state];
}

/** Our name of a state of the protocol; `undefined` for what is none. */
export function stateOf(state: WireState): TaskState | undefined {
  const names: readonly TaskState[] = [
    'submitted',
    'working',
    'completed',
    'failed',
    'canceled',
    'input-required',
    'rejected',
    'auth-required',
  ];
  return names.find((name) => wireStates[name] === state);
}

export function isTerminalState(state: TaskState): boolean {
  return state === 'completed' || state === 'failed' || state === 'canceled' || state === 'rejected';
}

/** Whether a client that waits for the task gets its response now: the task has ended, or needs input. */
export function isAtRest(state: TaskState): boolean {
  return isTerminalState(state) || state === 'input-required' || state === 'auth-required';
}
