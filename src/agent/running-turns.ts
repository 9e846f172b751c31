import { AgentLoopError, type Message } from '../core/contracts/index.ts';
import type { Turn } from '../core/turn/index.ts';
import type { BusyPolicy } from './agent-options.ts';

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
