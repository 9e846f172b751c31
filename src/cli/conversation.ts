import { type OpenTurn, settleTurnsAhead } from '../agent/open-turns.ts';
import {
  type AgentEvent,
  AgentLoopError,
  type Message,
  partsText,
  type TaskStateStore,
} from '../core/contracts/index.ts';

/** The text of a response that is not complete; empty where none is open. */
export function foldOpenText(open: string, event: AgentEvent): string {
  if (event.kind !== 'artifact-update') return open;
  if (event.lastChunk) return '';
  const text = partsText(event.artifact.parts);
  return event.append ? open + text : text;
}

/** The text of a response that broke off, as the next turn begins with it: what was shown stays, so that the user can refer to it. */
export function interruptedMessage(openText: string): readonly Message[] {
  return openText === '' ? [] : [{ role: 'assistant', content: `${openText} [interrupted]` }];
}

/** The first turn of a conversation that has not ended; none in a new conversation. Errors: those of the store. */
export async function openTurnOf(store: TaskStateStore, contextId: string): Promise<OpenTurn | undefined> {
  return settleTurnsAhead({ messageStore: messagesIn(store), journal: store }, contextId, '');
}

/** How many messages a conversation has. Errors: those of the store. */
export async function lengthOf(store: TaskStateStore, contextId: string): Promise<number> {
  return (await messagesIn(store).load(contextId, { limit: 0 })).total;
}

function messagesIn({ messages }: TaskStateStore): NonNullable<TaskStateStore['messages']> {
  if (messages) return messages;
  throw new AgentLoopError(
    'INVALID_CONFIG',
    'this store does not keep conversations; use --store lmdb, redis://HOST:PORT or postgres://HOST/DATABASE',
  );
}
