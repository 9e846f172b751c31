import {
  type AgentLoopConfig,
  AgentLoopError,
  type Command,
  type Extension,
  type Message,
  systemClock,
  type TaskStateStore,
  type ToolProvider,
} from '../core/contracts/index.ts';
import { foldRecords, type JournalRecord, ready } from '../core/journal/index.ts';
import { incomingMessage } from '../core/ownership/index.ts';
import { AgentLoop } from '../tasks/agent-loop.ts';
import { type CountsFor, type Steered, steerTask } from '../tasks/steered.ts';
import type { RunningTurns } from './open-turns.ts';

interface TurnControlsOptions {
  readonly running: RunningTurns;
  readonly config: AgentLoopConfig;
  readonly newId: () => string;
}

/**
 * Controls turns of an agent by their id: those that run here directly, others through their journal. Errors: `NOT_FOUND` if
 * the turn does not exist, `TERMINAL` if it has ended, `UNAVAILABLE`.
 */
export class TurnControls {
  readonly #options: TurnControlsOptions;

  constructor(options: TurnControlsOptions) {
    this.#options = options;
  }

  async pause(taskId: string, reason: string): Promise<void> {
    const running = this.#options.running.get(taskId);
    if (running) return running.turn.pause(reason);
    await this.#post(taskId, { id: this.#options.newId(), type: 'pause', reason });
  }

  async steer(taskId: string, messages: readonly Message[]): Promise<Steered> {
    const running = this.#options.running.get(taskId);
    if (running) return together(messages.map((message) => running.turn.steer(message)));
    const { config, newId } = this.#options;
    const { extensions = [], clock } = config;
    const store = this.#journalOf(taskId);
    const given: Steered[] = [];
    for (const message of messages) {
      given.push(await steerTask(taskId, incomingMessage(extensions, message), { store, id: newId(), clock, config }));
    }
    return together(given);
  }

  /** Cancels a turn and its child turns. Resolves once it is over. */
  async cancel(taskId: string, reason: string): Promise<void> {
    const running = this.#options.running.get(taskId);
    if (running) return running.turn.cancel(reason);
    const store = this.#journalOf(taskId);
    const { config } = this.#options;
    const end = await cancelOutside(config)(await store.read(taskId), store);
    await AgentLoop.cancel(taskId, { store, reason, ...(config.clock && { clock: config.clock }) });
    await end();
  }

  async #post(taskId: string, command: Command): Promise<void> {
    const { storeDeadlineMs: ms = 30_000, clock = systemClock } = this.#options.config;
    const store = this.#journalOf(taskId);
    await ready(() => store.post(taskId, command), { ms, clock });
  }

  #journalOf(taskId: string): TaskStateStore {
    const { taskStateStore } = this.#options.config;
    if (taskStateStore) return taskStateStore;
    throw new AgentLoopError(
      'NOT_FOUND',
      `Turn "${taskId}" does not run in this process; to reach other processes, set taskStateStore.`,
    );
  }
}

/** What becomes of several messages: they count for the next turn if one of them does. */
function together(given: readonly Steered[]): Steered {
  const all = (turns: readonly CountsFor[]) => (turns.includes('next-turn') ? 'next-turn' : 'this-turn');
  return {
    expected: all(given.map(({ expected }) => expected)),
    countsFor: async () => all(await Promise.all(given.map((each) => each.countsFor()))),
  };
}

/**
 * Cancels the remote work of a turn without an owner, from its journal. Called before the end of the turn is written; the function
 * that it resolves with is called after that.
 */
export type CancelOutside = (records: readonly JournalRecord[], store: TaskStateStore) => Promise<() => Promise<void>>;

const cancels = new WeakMap<Extension | ToolProvider, CancelOutside>();

/** Marks an extension, or a provider of tools, that starts remote work, for `Agent.cancel`. */
export function withCancelOutside<T extends Extension | ToolProvider>(by: T, cancel: CancelOutside): T {
  cancels.set(by, cancel);
  return by;
}

/** Cancels the remote work of a turn of this configuration, and its open child turns. */
export function cancelOutside(config: Pick<AgentLoopConfig, 'extensions' | 'toolProviders' | 'agents'>): CancelOutside {
  return async (records, store) => {
    const setup = config.agents?.(foldRecords(records).agentId);
    const parts = [config, ...(setup ? [setup] : [])].flatMap(({ extensions = [], toolProviders = [] }) => [
      ...extensions,
      ...toolProviders,
    ]);
    return all(parts.flatMap((part) => cancels.get(part) ?? []).map((cancel) => cancel(records, store)));
  };
}

/** Cancels the remote work of a turn's open child turns; `cancelOf` returns the function for an agent of a child turn. */
export function cancelOfChildren(cancelOf: (agentId: string) => CancelOutside | undefined): CancelOutside {
  return async (records, store) => {
    const { openChildren } = foldRecords(records);
    const below = openChildren.flatMap(({ taskId, agentId }) => {
      const cancel = cancelOf(agentId);
      return cancel ? [ofChild(taskId, store, cancel)] : [];
    });
    return all(below);
  };
}

async function ofChild(taskId: string, store: TaskStateStore, cancel: CancelOutside): Promise<() => Promise<void>> {
  try {
    return await cancel(await store.read(taskId), store);
  } catch (error) {
    if (AgentLoopError.isInstance(error) && error.code === 'NOT_FOUND') return async () => {};
    throw error;
  }
}

async function all(begun: readonly Promise<() => Promise<void>>[]): Promise<() => Promise<void>> {
  const ends = await Promise.all(begun);
  return async () => {
    await Promise.all(ends.map((end) => end()));
  };
}
