import { AgentLoopError } from 'millrace';

/** What a function throws or rejects with, which has to be an error of ours. Fails where it does neither. */
export async function thrownBy(run: () => unknown): Promise<AgentLoopError> {
  try {
    await run();
  } catch (thrown) {
    if (AgentLoopError.isInstance(thrown)) return thrown;
    throw thrown;
  }
  throw new Error('nothing was thrown');
}
