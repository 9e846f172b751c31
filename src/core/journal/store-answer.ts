import { catchError, defer, Observable, type Subscriber } from 'rxjs';
import { AgentLoopError, reasonOf } from '../contracts/errors.ts';
import type { Clock } from '../contracts/host.ts';
import { after } from '../streams/index.ts';

export interface Deadline {
  readonly clock: Clock;
  readonly ms: number;
  /** The name of the time limit in the error. Default `storeDeadlineMs`. */
  readonly option?: string;
}

interface Asked<T> {
  readonly deadline: Deadline;
  /** The subscriber: after it unsubscribes, the answer is dropped. */
  readonly to: Pick<Subscriber<unknown>, 'closed' | 'add'>;
  give(answer: T): void;
  fail(error: unknown): void;
}

/**
 * Calls a store, which may answer synchronously: then `give` or `fail` is called synchronously, else when the promise settles. Fails
 * with `UNAVAILABLE` after the deadline, and if the store throws an error without a code; also with the exception of `give`.
 */
export function whenAnswered<T>(ask: () => T | Promise<T>, { deadline, to, give, fail }: Asked<T>): void {
  const take = (given: T) => {
    try {
      give(given);
    } catch (error) {
      fail(error);
    }
  };
  let answer: T | Promise<T>;
  try {
    answer = ask();
  } catch (error) {
    return fail(storeError(error));
  }
  if (!(answer instanceof Promise)) return take(answer);
  const { clock, ms, option } = deadline;
  let isOver = false;
  const over = (): boolean => {
    cancel();
    const before = isOver || to.closed;
    isOver = true;
    return before;
  };
  const refuse = (error: unknown) => {
    if (!over()) fail(storeError(error));
  };
  const cancel = after(ms, clock, () => refuse(silent(ms, option)));
  to.add(cancel);
  answer.then((given) => {
    if (!over()) take(given);
  }, refuse);
}

/** As an Observable: emits the answer and completes, or errors. Unsubscribing drops the answer. */
export function whenReady<T>(ask: () => T | Promise<T>, deadline: Deadline): Observable<T> {
  return new Observable((to) => {
    const give = (answer: T) => {
      to.next(answer);
      to.complete();
    };
    whenAnswered(ask, { deadline, to, give, fail: (error) => to.error(error) });
  });
}

/** A subscriber that never unsubscribes: nobody cancels a promise. */
const stays = { closed: false, add() {} };

/** The same as a promise. */
export function ready<T>(ask: () => T | Promise<T>, deadline: Deadline): Promise<T> {
  return new Promise((give, fail) => whenAnswered(ask, { deadline, to: stays, give, fail }));
}

/** For a call that has the same effect twice: asks once more, at once, if the store fails for a reason that may be over, such as a broken connection. */
export async function readyAgain<T>(ask: () => T | Promise<T>, deadline: Deadline): Promise<T> {
  const since = deadline.clock.now();
  try {
    return await ready(ask, deadline);
  } catch (error) {
    if (!mayBeOver(error, since, deadline)) throw error;
    return ready(ask, deadline);
  }
}

/** As `readyAgain`, as an Observable. */
export function whenReadyAgain<T>(ask: () => T | Promise<T>, deadline: Deadline): Observable<T> {
  return defer(() => {
    const since = deadline.clock.now();
    return whenReady(ask, deadline).pipe(
      catchError((error: unknown) => {
        if (!mayBeOver(error, since, deadline)) throw error;
        return whenReady(ask, deadline);
      }),
    );
  });
}

/** Not where the store has been silent for the whole deadline. */
function mayBeOver(error: unknown, since: number, { clock, ms }: Deadline): boolean {
  const isLost = AgentLoopError.isInstance(error) && error.code === 'UNAVAILABLE' && error.retryable;
  return isLost && clock.now() - since < ms;
}

function silent(ms: number, option = 'storeDeadlineMs'): AgentLoopError {
  const message = `The store did not answer within ${ms} ms (${option}); is it running?`;
  return new AgentLoopError('UNAVAILABLE', message, { retryable: true });
}

/** Converts a store's exception to an `AgentLoopError`: one without a code means that the store is broken, not busy. */
export function storeError(thrown: unknown): AgentLoopError {
  if (AgentLoopError.isInstance(thrown)) return thrown;
  return new AgentLoopError(
    'UNAVAILABLE',
    `The store failed: ${reasonOf(thrown)}; the task can be resumed once it works.`,
    {
      cause: thrown,
    },
  );
}
