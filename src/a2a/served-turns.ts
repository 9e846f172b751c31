import type { MonoTypeOperatorFunction } from 'rxjs';
import type { AgentResumeOptions } from '../agent/agent-options.ts';
import { begun } from '../agent/recovery.ts';
import type { Message } from '../core/contracts/index.ts';
import type { Signal } from '../core/journal/index.ts';
import type { ResolvedHandlerOptions } from './handler-options.ts';
import { isScoped } from './scope.ts';
import type { ExecutionOptions, ExecutionStart, TurnExecution } from './turn-execution.ts';

/** The turns that this process runs for clients, and those of other processes that it takes over. */
export class ServedTurns implements TurnExecution {
  readonly #options: ResolvedHandlerOptions;

  constructor(options: ResolvedHandlerOptions) {
    this.#options = options;
  }

  async start(message: Message, options: ExecutionStart): Promise<{ readonly taskId: string }> {
    const { call, settle, metadata, ...given } = options;
    const turn = this.#options.agent.startTurn(message, { ...given, ...(metadata && { metadata }), detached: true });
    // A turn that waits for others of its context copies the history only then.
    turn.settled.then(settle, settle);
    this.#options.onTurn?.(turn, call);
    try {
      await begun(turn);
    } catch (error) {
      settle();
      throw error;
    }
    return { taskId: turn.taskId };
  }

  async resume(taskId: string, { call, ...given }: ExecutionOptions): Promise<void> {
    const turn = this.#options.agent.resume(taskId, { ...given, detached: true });
    this.#options.onTurn?.(turn, call);
    await begun(turn, 'BUSY', 'TERMINAL');
  }

  async cancel(taskId: string): Promise<void> {
    await this.#options.agent.cancel(taskId, 'canceled');
  }

  recover(): Promise<number> {
    return this.#options.agent.recover({ accepts: ({ contextId }) => isScoped(contextId) });
  }

  followed(taskId: string, resumeOptions: AgentResumeOptions): MonoTypeOperatorFunction<Signal> {
    return this.#options.agent.recovery.followed(taskId, resumeOptions);
  }
}
