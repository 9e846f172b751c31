import { AgentLoopError } from '../../core/contracts/index.ts';

/** What is stored of a context is not what a store writes; `what` names it. */
export function damagedContext(contextId: string, what: string): AgentLoopError {
  return new AgentLoopError(
    'POISON',
    `The context "${contextId}" cannot be read: ${what}; restore the store from a backup, or delete the context.`,
  );
}

/** What a store keeps of a context as JSON; `what` says of which part. Errors: `POISON`. */
export function parsedPart<T>(contextId: string, text: string, what: string): T {
  try {
    return JSON.parse(text);
  } catch {
    throw damagedContext(contextId, what);
  }
}

/** A context that a newer version wrote. */
export function newerContext(contextId: string, layout: number): AgentLoopError {
  return new AgentLoopError(
    'SCHEMA',
    `The context "${contextId}" has layout ${layout}, which this version cannot read; update millrace.`,
  );
}
