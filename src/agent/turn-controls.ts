import {
  type AgentLoopConfig,
  AgentLoopError,
  type Command,
  type Message,
  systemClock,
  type TaskStateStore,
} from '../core/contracts/index.ts';
import { ready } from '../core/journal/index.ts';
import { AgentLoop, incomingMessage } from '../core/turn/index.ts';
import { cancelOutside } from './cancel-outside.ts';
import type { RunningTurns } from './running-turns.ts';

export interface TurnControlsOptions {
  readonly running: RunningTurns;
  readonly config: AgentLoopConfig;
  readonly newId: () => string;
}

/**
 * Reaches turns of an agent by their id: those that run here as they are, others through their journal. Errors: `NOT_FOUND` where there is no
 * such turn, `TERMINAL` where it is over, `UNAVAILABLE`.
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

  async steer(taskId: string, messages: readonly Message[]): Promise<void> {
    const running = this.#options.running.get(taskId);
    for (const given of messages) {
      if (running) {
        running.turn.steer(given);
        continue;
      }
      const message = incomingMessage(this.#options.config.extensions ?? [], given);
      await this.#post(taskId, { id: this.#options.newId(), type: 'steer', message });
    }
  }

  /** And its child turns. Resolves once it is over. */
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
      `Turn "${taskId}" does not run here; other processes are reached through taskStateStore.`,
    );
  }
}
