import { Observable, type Subscriber } from 'rxjs';
import type { WakeUps } from './wake-ups.ts';

/** Gives a reader what is new, and true where there may be more at once. What it throws errors the stream. */
export type Look<T> = (subscriber: Subscriber<T>) => boolean;

export interface LookOptions<T> {
  readonly wakeUps: WakeUps;
  readonly taskId: string;
  /** Called at subscription. Its teardown is called when the reader leaves. */
  start(): { readonly look: Look<T>; readonly leave?: () => void };
}

/**
 * A stream of what each look at the file finds: one look at subscription, one at each wake-up. A look that is asked for from inside
 * a handler runs after the current one. Unsubscribing ends the wake-ups.
 */
export function looking<T>({ wakeUps, taskId, start }: LookOptions<T>): Observable<T> {
  return new Observable((subscriber) => {
    const { look, leave } = start();
    let isLooking = false;
    let again = false;
    const lookAgain = () => {
      again = true;
      if (isLooking) return;
      isLooking = true;
      try {
        while (again && !subscriber.closed) {
          again = false;
          if (look(subscriber)) again = true;
        }
      } catch (error) {
        subscriber.error(error);
      }
      isLooking = false;
    };
    subscriber.add(leave);
    subscriber.add(wakeUps.join(taskId, lookAgain));
    lookAgain();
  });
}
