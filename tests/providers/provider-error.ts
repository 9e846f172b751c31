import { AgentLoopError } from 'millrace';

/** The coded error that a promise rejects with; anything else fails the test. */
export async function codedError(promise: Promise<unknown>): Promise<AgentLoopError> {
  const error = await promise.then(
    () => new Error('It did not fail.'),
    (thrown: unknown) => thrown,
  );
  if (AgentLoopError.isInstance(error)) return error;
  throw error;
}
