import type { MessageStore } from '../stores/messages/message-store.ts';
import type { RunningTurns } from './running-turns.ts';

/** What agents that work together in this package share, and users do not see. */
export interface AgentInternals {
  /** One table for all agents of a conversation, so that it has one turn at a time. */
  readonly running?: RunningTurns;
  /** The context remembers what was asked and answered, without the calls between. */
  readonly endsOnly?: boolean;
}

/** A context to read along in: what it remembers, under any id, and nothing that is written. */
export function readAlong(store: MessageStore, contextId: string): MessageStore {
  return {
    begin: () => 'open',
    append: () => ({ appended: true }),
    load: async (_, options) => ({ ...(await store.load(contextId, options)), openTurns: [] }),
    setMetadata: () => 0,
    contexts: () => ({ contexts: [] }),
    delete: () => {},
  };
}
