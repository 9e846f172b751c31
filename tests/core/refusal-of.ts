import { AgentLoopError } from 'millrace';

/** What `act` throws; fails where it throws nothing, or nothing of ours. */
export function refusalOf(act: () => unknown): AgentLoopError {
  try {
    act();
  } catch (error) {
    if (AgentLoopError.isInstance(error)) return error;
    throw error;
  }
  throw new Error('Nothing was refused.');
}
