import type { Exchange } from './exchange.ts';
import type { OutgoingMessage } from './wire.ts';

/** All that a page which is loaded again needs. */
export interface ChatState {
  readonly contextId: string;
  readonly exchanges: readonly Exchange[];
  /** What the server has not answered yet. */
  readonly outbox: readonly OutgoingMessage[];
}

const key = 'millrace.chat.v1';

/** How many exchanges a tab remembers; the agent remembers all of them. */
const mostExchanges = 50;

export function newState(): ChatState {
  return { contextId: crypto.randomUUID(), exchanges: [], outbox: [] };
}

export function load(): ChatState {
  const stored = sessionStorage.getItem(key);
  return stored === null ? newState() : JSON.parse(stored);
}

/** If the storage is full the conversation continues, and is lost on reload. */
export function save(state: ChatState): void {
  try {
    sessionStorage.setItem(key, JSON.stringify({ ...state, exchanges: state.exchanges.slice(-mostExchanges) }));
  } catch {
    sessionStorage.removeItem(key);
  }
}
