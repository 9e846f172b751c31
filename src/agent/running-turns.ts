import { AgentLoopError } from '../core/errors.ts';
import type { Turn } from '../core/turn.ts';

export interface RunningTurn {
  readonly turn: Turn;
  readonly contextId: string;
  /** Whether its end is written by this process. */
  endsHere: boolean;
}

interface Entry extends RunningTurn {
  readonly over: Promise<void>;
  readonly finish: () => void;
}

/** The turns of an agent that run in this process, in the order in which they started. */
export class RunningTurns {
  readonly #entries = new Map<string, Entry>();

  get(taskId: string): RunningTurn | undefined {
    return this.#entries.get(taskId);
  }

  /** Of a turn that is attached to twice, the first counts. */
  add(turn: Turn, contextId: string): boolean {
    if (this.#entries.has(turn.taskId)) return false;
    let finish = () => {};
    const over = new Promise<void>((resolve) => {
      finish = resolve;
    });
    this.#entries.set(turn.taskId, { turn, contextId, endsHere: false, over, finish });
    return true;
  }

  delete(turn: Turn): void {
    const entry = this.#entries.get(turn.taskId);
    if (entry?.turn !== turn) return;
    this.#entries.delete(turn.taskId);
    entry.finish();
  }

  /** The first turn of a context that started before this one. */
  ahead(contextId: string, taskId: string): Pick<Entry, 'turn' | 'over'> | undefined {
    for (const [id, entry] of this.#entries) {
      if (id === taskId) return undefined;
      if (entry.contextId === contextId) return entry;
    }
    return undefined;
  }

  all(): readonly Turn[] {
    return [...this.#entries.values()].map(({ turn }) => turn);
  }
}

/** A context has one turn at a time. */
export function contextBusy(contextId: string, taskId: string, why: string): AgentLoopError {
  return new AgentLoopError('AGENT_BUSY', `Context "${contextId}" is busy: turn "${taskId}" ${why}.`, {
    retryable: true,
  });
}

export const runsHere = 'runs; wait for it, cancel it, or set busy to "queue" or "steer"';
