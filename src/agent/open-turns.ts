import {
  AgentLoopError,
  addedName,
  isSuspended,
  type Message,
  type MessageStore,
  type TaskStateStore,
} from '../core/contracts/index.ts';
import { closedMessages, foldRecords, type LoopState } from '../core/journal/index.ts';
import type { Turn } from '../tasks/turn.ts';
import type { BusyPolicy } from './agent-options.ts';
import { following } from './branches.ts';
import { type EndedTurn, storeTurn } from './store-turn.ts';

/** The name of the extension that loads a conversation, in its records. */
export const conversationName = 'conversation';

/** An open turn of a context. */
export interface OpenTurn {
  readonly taskId: string;
  readonly status: 'running' | 'suspended' | 'dead';
  /** The seq of its last record. */
  readonly seq: number;
}

interface ContextStores {
  readonly messageStore: MessageStore;
  readonly journal: TaskStateStore;
}

/** Only a hand-off changes the current agent: an agent that was named, or chosen for one message, does not. */
export function endedTurn(state: LoopState): EndedTurn {
  const { agentId, segment } = state;
  const messages = addedMessages(state);
  const marked = state.history.hasAdded ? messages.map((message) => withAuthor(message, state)) : messages;
  return {
    messages: following(marked, branchOf(state)),
    createdAt: timesOf(messages, state),
    ...(segment.reason === 'hand_off' && { agentId }),
  };
}

/** The number of messages of the context up to the predecessor of a turn that begins a branch. A retry follows the messages of the turn that failed. */
function branchOf(state: LoopState): number | undefined {
  const { follows, copied, retried } = state.turn;
  const data = dataOf(state);
  if (!follows || !data || firstAdded(state) !== data.history) return undefined;
  const isFork = copied !== undefined && !retried;
  return data.branches || isFork ? data.end : undefined;
}

/**
 * The messages that a turn adds to its context: the caller's and its own, in a form that the next turn can use. Empty for a turn that never
 * received its history.
 */
function addedMessages(state: LoopState): readonly Message[] {
  const first = firstAdded(state);
  if (first === undefined || isBlocked(state)) return [];
  const added = closedMessages(state).slice(first);
  return dataOf(state)?.endsOnly === true ? added.filter(isEnd) : added;
}

/** The position of the first message that the turn adds; `undefined` before it received its history. */
function firstAdded(state: LoopState): number | undefined {
  const length = historyLength(state);
  const { taskId, retried } = state.turn;
  // The retried turn has saved its own messages, unless it had not started.
  const saved = dataOf(state)?.taskId === taskId ? undefined : retried?.messages;
  return length === undefined ? undefined : (saved ?? length);
}

/** Marks a message that is not the user's although its role is `user`, for pages that show the conversation. */
function withAuthor(message: Message, { history }: LoopState): Message {
  if (message.role !== 'user' || !history.isAdded(message)) return message;
  return { ...message, metadata: { ...message.metadata, [addedName]: true } };
}

/** When messages arrived, from their records. Results of calls that were open at the end, and their placeholders, arrived with the end. */
function timesOf(messages: readonly Message[], state: LoopState): readonly string[] {
  const { history, updatedAt } = state;
  const times = new Map<Message, number>();
  for (let index = firstAdded(state) ?? 0; index < history.length; index++) {
    const message = history.at(index);
    if (message) times.set(message, history.timeAt(index) ?? updatedAt);
  }
  return messages.map((message) => new Date(times.get(message) ?? updatedAt).toISOString());
}

/** Input that a guardrail or `beforeTurn` refused is not saved: it would be refused again in every later turn. */
function isBlocked({ error, iteration }: LoopState): boolean {
  return (error?.code === 'GUARDRAIL' || error?.code === 'REJECTED') && iteration === 0;
}

function isEnd(message: Message): boolean {
  return message.role !== 'tool' && !(message.role === 'assistant' && message.toolCalls);
}

/** The number of messages of earlier turns at the start of a turn; `undefined` before it received them. */
export function historyLength(state: LoopState): number | undefined {
  return dataOf(state)?.history;
}

interface ConversationData {
  readonly history: number;
  readonly endsOnly?: boolean;
  /** The number of messages of the context up to the predecessor of the turn. Absent in journals of earlier versions. */
  readonly end?: number;
  /** Others were stored after the predecessor. */
  readonly branches?: boolean;
  /** In a retry: the task that started with this history, if it is not the retried turn. */
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
 * Saves the turns of a context that started before this one and ended without being saved: their process crashed, or another process ended them.
 * Returns the first that has not ended. Errors: those of the stores.
 */
export async function settleTurnsAhead(
  { messageStore, journal }: ContextStores,
  contextId: string,
  taskId: string,
): Promise<OpenTurn | undefined> {
  const { openTurns } = await messageStore.load(contextId, { limit: 0 });
  for (const ahead of openTurns) {
    if (ahead === taskId) return undefined;
    // In this order: a turn that ends between the two calls is over, and does not look like one whose process crashed.
    const held = (await journal.describe(ahead))?.held ?? false;
    const state = await stateOf(journal, ahead);
    if (state && !state.isComplete) return { taskId: ahead, status: statusOf(state, held), seq: state.seq };
    // A turn that was refused has no journal.
    if (!state && messageStore.withdraw) await messageStore.withdraw(contextId, ahead);
    else {
      const ended = state ? endedTurn(state) : { messages: [] };
      // Only if it is registered: the context may have been deleted meanwhile.
      await storeTurn(
        ({ messages, ...current }) => messageStore.append(contextId, ahead, messages, { ...current, registered: true }),
        ended,
      );
    }
  }
  return undefined;
}

/** The state of a turn from its journal; `undefined` if that was deleted. */
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
  /** Whether this process records its end. */
  endsHere: boolean;
  /** Resolves once the turn no longer runs here. */
  readonly over: Promise<void>;
}

interface Entry extends RunningTurn {
  readonly finish: () => void;
}

/** The place of a turn that is not registered in the store yet. */
interface Place {
  readonly contextId: string;
  /** Resolves once the turn is registered in the store, or no longer runs here. */
  readonly registered: Promise<void>;
  readonly register: () => void;
}

/** The turns of an agent that run in this process. */
export class RunningTurns {
  /** In the order of their first events. */
  readonly #entries = new ByContext<Entry>();
  /** In the order of their starts: a store may answer a later one first. */
  readonly #places = new ByContext<Place>();

  get(taskId: string): RunningTurn | undefined {
    return this.#entries.get(taskId);
  }

  /** If a turn is attached to twice, only the first gets an entry. */
  add(turn: Turn, contextId: string): RunningTurn | undefined {
    if (this.#entries.has(turn.taskId)) return undefined;
    const [over, finish] = signal();
    const entry = { turn, contextId, endsHere: false, over, finish };
    this.#entries.add(turn.taskId, entry);
    return entry;
  }

  delete(turn: Turn): void {
    const entry = this.#entries.get(turn.taskId);
    if (entry?.turn !== turn) return;
    this.#entries.delete(turn.taskId);
    entry.finish();
  }

  /** Adds a place for a turn after those that started before, once. Returns a function that removes it. */
  enter(contextId: string, taskId: string): () => void {
    if (this.#places.has(taskId)) return () => {};
    const [registered, register] = signal();
    const place = { contextId, registered, register };
    this.#places.add(taskId, place);
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

  /** The first turn of a context whose first event was before that of this one. */
  ahead(contextId: string, taskId: string): Pick<Entry, 'turn' | 'over'> | undefined {
    return this.#entries.before(contextId, taskId);
  }

  /** The first turn of a context that started before this one and is not registered in the store yet. */
  unregistered(contextId: string, taskId: string): Pick<Place, 'registered'> | undefined {
    return this.#places.before(contextId, taskId);
  }

  /** Adds the messages of a new turn to the running one, and returns it; `undefined` if that one reads no more. Errors: `AGENT_BUSY`. */
  steerInstead(
    { contextId, taskId }: { readonly contextId: string; readonly taskId: string },
    messages: readonly Message[],
    busy: BusyPolicy,
  ): Turn | undefined {
    const ahead = this.ahead(contextId, taskId)?.turn;
    if (!ahead || busy === 'queue') return undefined;
    if (busy === 'reject') throw contextBusy(contextId, ahead.taskId, runsHere);
    if (!ahead.readsMessages) return undefined;
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

/** Turns by id, in the order in which they were added. A context has few of them, an agent may run thousands. */
class ByContext<T extends { readonly contextId: string }> {
  readonly #all = new Map<string, T>();
  readonly #contexts = new Map<string, Map<string, T>>();

  get(taskId: string): T | undefined {
    return this.#all.get(taskId);
  }

  has(taskId: string): boolean {
    return this.#all.has(taskId);
  }

  values(): IterableIterator<T> {
    return this.#all.values();
  }

  add(taskId: string, turn: T): void {
    this.#all.set(taskId, turn);
    const turns = this.#contexts.get(turn.contextId) ?? new Map<string, T>();
    this.#contexts.set(turn.contextId, turns.set(taskId, turn));
  }

  delete(taskId: string): void {
    const contextId = this.#all.get(taskId)?.contextId;
    if (contextId === undefined) return;
    this.#all.delete(taskId);
    const turns = this.#contexts.get(contextId);
    turns?.delete(taskId);
    if (turns?.size === 0) this.#contexts.delete(contextId);
  }

  /** The first turn of a context, unless it is this one. */
  before(contextId: string, taskId: string): T | undefined {
    const [first] = this.#contexts.get(contextId) ?? [];
    return first && first[0] !== taskId ? first[1] : undefined;
  }
}

/** A promise, and the function that resolves it. */
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
