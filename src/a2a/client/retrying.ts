import { AgentLoopError, type Clock } from '../../core/contracts/index.ts';

const firstWaitMs = 250;
const longestWaitMs = 5_000;

/** Pauses between attempts: 250 ms, then twice the one before, 5 s at most. */
export class Backoff {
  #waitMs = firstWaitMs;

  /** The next pause is the shortest again. */
  reset(): void {
    this.#waitMs = firstWaitMs;
  }

  /** Rejects with the reason of the signal once that aborts. */
  pause(clock: Clock, signal: AbortSignal): Promise<void> {
    const ms = this.#waitMs;
    this.#waitMs = Math.min(ms * 2, longestWaitMs);
    if (signal.aborted) return Promise.reject(signal.reason);
    return new Promise((resolve, reject) => {
      const leave = () => {
        stop();
        reject(signal.reason);
      };
      const stop = clock.schedule(ms, () => {
        signal.removeEventListener('abort', leave);
        resolve();
      });
      signal.addEventListener('abort', leave, { once: true });
    });
  }
}

/** Asks again after each retryable error, for `forMs` milliseconds in all; rejects with the last error, or the reason of the signal. */
export async function retrying<T>(
  ask: () => Promise<T>,
  { clock, signal, forMs }: { readonly clock: Clock; readonly signal: AbortSignal; readonly forMs: number },
): Promise<T> {
  const until = clock.now() + forMs;
  const backoff = new Backoff();
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      if (!isPassing(error) || clock.now() >= until) throw error;
    }
    await backoff.pause(clock, signal);
  }
}

/** Whether the same request may succeed later. */
export function isPassing(error: unknown): boolean {
  return AgentLoopError.isInstance(error) && error.retryable;
}
