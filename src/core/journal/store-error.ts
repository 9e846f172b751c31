import { AgentLoopError, messageOf } from '../contracts/errors.ts';

/** What a store threw, as an error of ours: one without a code means that the store is broken, not that it is busy. */
export function storeError(thrown: unknown): AgentLoopError {
  if (AgentLoopError.isInstance(thrown)) return thrown;
  return new AgentLoopError(
    'UNAVAILABLE',
    `The store failed: ${messageOf(thrown)}; the task can be resumed once it works.`,
    {
      cause: thrown,
    },
  );
}
