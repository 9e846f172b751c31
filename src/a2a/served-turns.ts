import { firstValueFrom, type MonoTypeOperatorFunction, Observable } from 'rxjs';
import type { AgentResumeOptions } from '../agent/agent-options.ts';
import { AgentLoopError, type ErrorCode } from '../core/contracts/index.ts';
import type { Signal } from '../core/journal/index.ts';
import { giveBack } from '../core/ownership/index.ts';
import { retryAfterMs, type Turn } from '../core/turn/index.ts';
import type { ResolvedHandlerOptions } from './handler-options.ts';

/** The lease with which a turn is tried: it is released again before the agent resumes the turn. */
const tryLeaseMs = 2_000;
const longestPauseMs = 2_000;

/** The turns that this process runs for clients, and those of other processes that it takes over. Memory: their ids. */
export class ServedTurns {
  readonly #options: ResolvedHandlerOptions;
  readonly #here = new Set<string>();

  constructor(options: ResolvedHandlerOptions) {
    this.#options = options;
  }

  /** Resolves when a turn has emitted its first event. Rejects where it is lost before that, except with these codes. */
  async begun(turn: Turn, ...except: readonly ErrorCode[]): Promise<void> {
    const { taskId } = turn;
    this.#here.add(taskId);
    const over = () => void this.#here.delete(taskId);
    turn.settled.then(over, over);
    try {
      await firstValueFrom(turn, { defaultValue: undefined });
    } catch (error) {
      if (!AgentLoopError.isInstance(error) || !except.includes(error.code)) throw error;
    }
  }

  /**
   * Resumes a turn here whose owner is gone, while somebody follows it: asks for the lease when it should have expired, at least every 2 s.
   * Emits what the source does. Unsubscribing ends the asking; a turn that was taken over continues.
   */
  takenOver(taskId: string, resumeOptions: AgentResumeOptions): MonoTypeOperatorFunction<Signal> {
    return (source) =>
      new Observable((to) => {
        let runs = false;
        let cancelAsk: (() => void) | undefined;
        const ask = async () => {
          const pauseMs = runs ? await this.#tryToTake(taskId, resumeOptions) : undefined;
          cancelAsk = undefined;
          if (pauseMs !== undefined) askAfter(pauseMs);
        };
        /** A little later than the lease ends, and not all servers at once. */
        const askAfter = (ms: number) => {
          if (to.closed || cancelAsk) return;
          const pauseMs = Math.min(ms, longestPauseMs) + 10 + Math.random() * 90;
          cancelAsk = this.#options.clock.schedule(pauseMs, () => void ask());
        };
        to.add(() => cancelAsk?.());
        const next = (signal: Signal) => {
          if (signal.type === 'commit') {
            runs = signal.after.outcome === undefined;
            if (runs) askAfter(0);
          }
          to.next(signal);
        };
        to.add(source.subscribe({ next, error: (error: unknown) => to.error(error), complete: () => to.complete() }));
      });
  }

  /** When to ask again, in milliseconds; `undefined` where the turn needs nobody, or cannot be resumed by this agent. */
  async #tryToTake(taskId: string, resumeOptions: AgentResumeOptions): Promise<number | undefined> {
    const { agent, store, logger } = this.#options;
    if (this.#here.has(taskId)) return longestPauseMs;
    try {
      await giveBack(store, await store.acquire(taskId, `a2a-${crypto.randomUUID()}`, tryLeaseMs));
      await this.begun(agent.resume(taskId, { ...resumeOptions, detached: true }));
      return longestPauseMs;
    } catch (error) {
      const code = AgentLoopError.isInstance(error) ? error.code : 'INTERNAL';
      if (AgentLoopError.isInstance(error) && error.retryable && code !== 'SHUTDOWN') return retryAfterMs(error);
      if (code !== 'TERMINAL' && code !== 'NOT_FOUND' && code !== 'SHUTDOWN')
        logger?.warn('turn not taken over', { taskId, code });
      return undefined;
    }
  }
}
