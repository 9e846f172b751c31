import type { Agent } from '../../agent/agent.ts';
import { backgroundClock } from '../../core/contracts/index.ts';
import { after } from '../../core/streams/index.ts';

interface WaitingTurnsOptions {
  readonly agent: Agent;
  /** Whether turns that nobody answers stay in the store of the agent. */
  readonly keepUnanswered: boolean;
  readonly answerTimeoutMs: number;
}

const maxWaiting = 1_000;

/**
 * The turns whose questions a client took with it. If turns are not kept, one is cancelled when its answers would come too late, when more
 * than 1,000 wait, and when the server closes.
 */
export class WaitingTurns {
  readonly #options: WaitingTurnsOptions;
  /** The oldest first. */
  readonly #timers = new Map<string, () => void>();

  constructor(options: WaitingTurnsOptions) {
    this.#options = options;
  }

  add(taskId: string): void {
    if (this.#options.keepUnanswered) return;
    this.remove(taskId);
    const { answerTimeoutMs } = this.#options;
    this.#timers.set(
      taskId,
      after(answerTimeoutMs, backgroundClock, () => void this.#cancel(taskId)),
    );
    const [oldest] = this.#timers.keys();
    if (this.#timers.size > maxWaiting && oldest !== undefined) void this.#cancel(oldest);
  }

  /** Its client is back. */
  remove(taskId: string): void {
    this.#timers.get(taskId)?.();
    this.#timers.delete(taskId);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#timers.keys()].map((taskId) => this.#cancel(taskId)));
  }

  async #cancel(taskId: string): Promise<void> {
    this.remove(taskId);
    // One that is over needs no cancel.
    await this.#options.agent.cancel(taskId, 'nobody answered').catch(() => {});
  }
}
