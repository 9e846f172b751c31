import { catchError, defer, from, Observable, of } from 'rxjs';
import type { Clock } from '../clock.ts';
import { AgentLoopError } from '../errors.ts';
import { storeError } from '../store-error.ts';

export interface Deadline {
  readonly clock: Clock;
  readonly ms: number;
}

/**
 * One answer of a store that may answer at once: emitted synchronously where it does, also as an error, else when the promise
 * settles. Errors with `UNAVAILABLE` where that takes longer than the deadline, and for what the store throws without a code.
 * Unsubscribing drops the answer.
 */
export function whenReady<T>(ask: () => T | Promise<T>, deadline: Deadline): Observable<T> {
  return defer(() => {
    const answer = ask();
    return answer instanceof Promise ? before(deadline, from(answer)) : of(answer);
  }).pipe(
    catchError((error: unknown) => {
      throw storeError(error);
    }),
  );
}

function before<T>({ clock, ms }: Deadline, answer$: Observable<T>): Observable<T> {
  return new Observable((subscriber) => {
    const late = () =>
      subscriber.error(
        new AgentLoopError(
          'UNAVAILABLE',
          `The store did not answer within ${ms} ms (storeDeadlineMs); is it running?`,
          {
            retryable: true,
          },
        ),
      );
    subscriber.add(clock.schedule(ms, late));
    subscriber.add(answer$.subscribe(subscriber));
  });
}
