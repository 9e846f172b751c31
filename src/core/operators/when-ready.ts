import { firstValueFrom, Observable } from 'rxjs';
import type { Clock } from '../clock.ts';
import { AgentLoopError } from '../errors.ts';
import { storeError } from '../store-error.ts';

export interface Deadline {
  readonly clock: Clock;
  readonly ms: number;
  /** What the time limit is called in the error. Default `storeDeadlineMs`. */
  readonly option?: string;
}

/**
 * One answer of a store that may answer at once: emitted synchronously where it does, also as an error, else when the promise
 * settles. Errors with `UNAVAILABLE` where that takes longer than the deadline, and for what the store throws without a code.
 * Unsubscribing drops the answer.
 */
export function whenReady<T>(ask: () => T | Promise<T>, deadline: Deadline): Observable<T> {
  return new Observable((to) => {
    const fail = (error: unknown) => to.error(storeError(error));
    const give = (answer: T) => {
      to.next(answer);
      to.complete();
    };
    let answer: T | Promise<T>;
    try {
      answer = ask();
    } catch (error) {
      return fail(error);
    }
    if (!(answer instanceof Promise)) return give(answer);
    const { clock, ms, option } = deadline;
    to.add(clock.schedule(ms, () => to.error(silent(ms, option))));
    answer.then(give, fail);
  });
}

/** The same as a promise. */
export function ready<T>(ask: () => T | Promise<T>, deadline: Deadline): Promise<T> {
  return firstValueFrom(whenReady(ask, deadline));
}

function silent(ms: number, option = 'storeDeadlineMs'): AgentLoopError {
  const message = `The store did not answer within ${ms} ms (${option}); is it running?`;
  return new AgentLoopError('UNAVAILABLE', message, { retryable: true });
}
