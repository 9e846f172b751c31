import {
  AgentLoopError,
  isSuspended,
  type Message,
  type MessageStore,
  type TaskStateStore,
} from '../core/contracts/index.ts';
import { closedMessages, foldRecords, type LoopState } from '../core/journal/index.ts';
import type { Turn } from '../core/turn/index.ts';
import type { BusyPolicy } from './agent-options.ts';

/** What the extension that loads a conversation records of it. */
export const conversationName = 'conversation';

/** A turn of a context that has not ended. */
export interface OpenTurn {
  readonly taskId: string;
  readonly status: 'running' | 'suspended' | 'dead';
  /** Of its last record. */
  readonly seq: number;
}

interface ContextStores {
  readonly messageStore: MessageStore;
  readonly journal: TaskStateStore;
}

/** What is saved of a turn that ended. */
export interface EndedTurn {
  readonly messages: readonly Message[];
  /** When they came to be. ISO 8601. */
  readonly createdAt?: readonly string[];
  /** The agent that answers next, where this turn was handed to it. */
  readonly agentId?: string;
}

/** Who is current changes by a hand-off only: an agent that was named, or chosen for one message, leaves it as it is. */
export function endedTurn(state: LoopState): EndedTurn {
  const { agentId, segment } = state;
  const messages = addedMessages(state);
  return { messages, createdAt: timesOf(messages, state), ...(segment.reason === 'hand_off' && { agentId }) };
}

/**
 * What a turn adds to its context: the caller's messages and its own, in a form that the next turn can use. Nothing for one that never
 * got its history.
 */
function addedMessages(state: LoopState): readonly Message[] {
  const length = historyLength(state);
  if (length === undefined || isBlocked(state)) return [];
  const { taskId, retried } = state.turn;
  // The turn that a retry continues has saved its own, unless it had not begun.
  const saved = dataOf(state)?.taskId === taskId ? undefined : retried?.messages;
  const added = closedMessages(state).slice(saved ?? length);
  return dataOf(state)?.endsOnly === true ? added.filter(isEnd) : added;
}

/** When messages came, by their records. Results of calls that were open at the end, and what stands for them, came with the end. */
function timesOf(messages: readonly Message[], { history, updatedAt }: LoopState): readonly string[] {
  const times = new Map<Message, number>();
  for (let index = 0; index < history.length; index++) {
    const message = history.at(index);
    if (message) times.set(message, history.timeAt(index) ?? updatedAt);
  }
  return messages.map((message) => new Date(times.get(message) ?? updatedAt).toISOString());
}

/** Input that a guardrail or `beforeTurn` refused is not remembered: it would be refused again in every later turn. */
function isBlocked({ error, iteration }: LoopState): boolean {
  return (error?.code === 'GUARDRAIL' || error?.code === 'REJECTED') && iteration === 0;
}

function isEnd(message: Message): boolean {
  return message.role !== 'tool' && !(message.role === 'assistant' && message.toolCalls);
}

/** How many messages of earlier turns a turn began with; `undefined` before it got them. */
export function historyLength(state: LoopState): number | undefined {
  return dataOf(state)?.history;
}

interface ConversationData {
  readonly history: number;
  readonly endsOnly?: boolean;
  /** In a retry: the task that began with this history, where it is not that of the turn that it continues. */
  readonly taskId?: string;
}

function dataOf(state: LoopState): ConversationData | undefined {
  const data = state.changes.data[conversationName];
  return isConversationData(data) ? data : undefined;
}

function isConversationData(data: unknown): data is ConversationData {
  return typeof data === 'object' && data !== null && 'history' in data && typeof data.history === 'number';
}

/**
 * Saves the turns of a context that began before this one and ended without being saved: their process died, or another ended them.
 * Gives the first that has not ended. Errors: those of the stores.
 */
export async function settleTurnsAhead(
  { messageStore, journal }: ContextStores,
  contextId: string,
  taskId: string,
): Promise<OpenTurn | undefined> {
  const { openTurns } = await messageStore.load(contextId, { limit: 0 });
  for (const ahead of openTurns) {
    if (ahead === taskId) return undefined;
    // In this order: a turn that ends between the two is over, and does not look like one whose process died.
    const held = (await journal.describe(ahead))?.held ?? false;
    const state = await stateOf(journal, ahead);
    if (state && !state.isComplete) return { taskId: ahead, status: statusOf(state, held), seq: state.seq };
    const { messages, ...current }: EndedTurn = state ? endedTurn(state) : { messages: [] };
    await messageStore.append(contextId, ahead, messages, current);
  }
  return undefined;
}

/** The turn as its journal tells; `undefined` where there is none any more. */
export async function stateOf(journal: TaskStateStore, taskId: string): Promise<LoopState | undefined> {
  try {
    return foldRecords(await journal.read(taskId));
  } catch (error) {
    if (AgentLoopError.isInstance(error) && error.code === 'NOT_FOUND') return undefined;
    throw error;
  }
}

function statusOf({ outcome }: LoopState, held: boolean): OpenTurn['status'] {
  if (outcome && isSuspended(outcome.state)) return 'suspended';
  return held ? 'running' : 'dead';
}

export interface RunningTurn {
  readonly turn: Turn;
  readonly contextId: string;
  /** Whether its end is written by this process. */
  endsHere: boolean;
  /** Resolves once the turn does not run here any more. */
  readonly over: Promise<void>;
}

interface Entry extends RunningTurn {
  readonly finish: () => void;
}

/** The place of a turn that has none in the store yet. */
interface Place {
  readonly contextId: string;
  /** Resolves once the turn is registered in the store, or does not run here any more. */
  readonly registered: Promise<void>;
  readonly register: () => void;
}

/** The turns of an agent that run in this process. */
export class RunningTurns {
  /** In the order in which they had their first event. */
  readonly #entries = new Map<string, Entry>();
  /** In the order in which they started: a store may answer a later one first. */
  readonly #places = new Map<string, Place>();

  get(taskId: string): RunningTurn | undefined {
    return this.#entries.get(taskId);
  }

  /** Of a turn that is attached to twice, the first counts: the others have no entry. */
  add(turn: Turn, contextId: string): RunningTurn | undefined {
    if (this.#entries.has(turn.taskId)) return undefined;
    const [over, finish] = signal();
    const entry = { turn, contextId, endsHere: false, over, finish };
    this.#entries.set(turn.taskId, entry);
    return entry;
  }

  delete(turn: Turn): void {
    const entry = this.#entries.get(turn.taskId);
    if (entry?.turn !== turn) return;
    this.#entries.delete(turn.taskId);
    entry.finish();
  }

  /** Gives a turn its place behind those that started before, where it has none. What it returns gives that up. */
  enter(contextId: string, taskId: string): () => void {
    if (this.#places.has(taskId)) return () => {};
    const [registered, register] = signal();
    const place = { contextId, registered, register };
    this.#places.set(taskId, place);
    return () => {
      if (this.#places.get(taskId) === place) this.#places.delete(taskId);
      register();
    };
  }

  /** The turn is registered in the store, or never will be. */
  register(taskId: string): void {
    this.#places.get(taskId)?.register();
    this.#places.delete(taskId);
  }

  /** The first turn of a context that had its first event before this one. */
  ahead(contextId: string, taskId: string): Pick<Entry, 'turn' | 'over'> | undefined {
    return before(this.#entries, contextId, taskId);
  }

  /** The first turn of a context that started before this one and is not registered in the store yet. */
  unregistered(contextId: string, taskId: string): Pick<Place, 'registered'> | undefined {
    return before(this.#places, contextId, taskId);
  }

  /** The turn that takes the messages of one that would start while it runs. One that is about to end takes none. Errors: `AGENT_BUSY`. */
  steerInstead(
    { contextId, taskId }: { readonly contextId: string; readonly taskId: string },
    messages: readonly Message[],
    busy: BusyPolicy,
  ): Turn | undefined {
    const ahead = this.ahead(contextId, taskId)?.turn;
    if (!ahead || busy === 'queue') return undefined;
    if (busy === 'reject') throw contextBusy(contextId, ahead.taskId, runsHere);
    try {
      for (const message of messages) ahead.steer(message);
      return ahead;
    } catch (error) {
      if (AgentLoopError.isInstance(error) && error.code === 'TERMINAL') return undefined;
      throw error;
    }
  }

  all(): readonly Turn[] {
    return [...this.#entries.values()].map(({ turn }) => turn);
  }
}

function before<T extends { readonly contextId: string }>(
  turns: ReadonlyMap<string, T>,
  contextId: string,
  taskId: string,
): T | undefined {
  for (const [id, turn] of turns) {
    if (id === taskId) return undefined;
    if (turn.contextId === contextId) return turn;
  }
  return undefined;
}

/** A promise, and what resolves it. */
function signal(): readonly [Promise<void>, () => void] {
  let resolve = () => {};
  const promise = new Promise<void>((given) => {
    resolve = given;
  });
  return [promise, resolve];
}

/** A context has one turn at a time. */
export function contextBusy(contextId: string, taskId: string, why: string): AgentLoopError {
  return new AgentLoopError('AGENT_BUSY', `Context "${contextId}" is busy: turn "${taskId}" ${why}.`, {
    retryable: true,
  });
}

export const runsHere = 'runs; wait for it, cancel it, or set busy to "queue" or "steer"';
