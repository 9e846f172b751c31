import { Observable, type Subscriber } from 'rxjs';
import { AgentLoopError } from '../../core/contracts/index.ts';
import type { Feed, WakeUps } from './wake-ups.ts';

/** How long a reader waits for a server that is away before it errors. */
const patienceMs = 30_000;

export interface LookOptions<T> {
  readonly wakeUps: WakeUps;
  readonly taskId: string;
  readonly feed: Feed;
  /** Whether the reader waits for a server that is away as long as it takes. */
  readonly isPatient: boolean;
  /** Called at subscription. Gives the reader what is new; true where there may be more at once. What it throws errors the stream. */
  start(): (subscriber: Subscriber<T>) => Promise<boolean>;
}

/**
 * A stream of what each look at a task finds: one look at subscription, one at each wake-up, one after the other. A server that is away is waited
 * for once the first look has succeeded.
 */
export function looking<T>({ wakeUps, taskId, feed, isPatient, start }: LookOptions<T>): Observable<T> {
  return new Observable((subscriber) => {
    const look = start();
    let isLooking = false;
    let again = false;
    let hasLooked = false;
    let awaySince: number | undefined;
    const isToWait = (error: unknown) => {
      if (!hasLooked || !AgentLoopError.isInstance(error)) return false;
      if (error.code !== 'UNAVAILABLE' || !error.retryable) return false;
      awaySince ??= performance.now();
      return isPatient || performance.now() - awaySince < patienceMs;
    };
    const lookAgain = async () => {
      again = true;
      if (isLooking) return;
      isLooking = true;
      try {
        while (again && !subscriber.closed) {
          again = false;
          if (await look(subscriber)) again = true;
          hasLooked = true;
          awaySince = undefined;
        }
      } catch (error) {
        if (!isToWait(error)) subscriber.error(error);
      }
      isLooking = false;
    };
    subscriber.add(wakeUps.join(taskId, feed, () => void lookAgain()));
    void lookAgain();
  });
}
