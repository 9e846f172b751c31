import { expect } from '@jest/globals';
import type { Clock } from 'millrace';
import { catchError, map, type Observable, of, ReplaySubject } from 'rxjs';
import { type RunHelpers, TestScheduler } from 'rxjs/testing';

export interface MarbleClock extends Clock {
  /** When timers ran that nobody cancelled: where nothing is left over, only those that the test means to run. */
  readonly fired: readonly number[];
}

export interface MarbleHelpers extends RunHelpers {
  /** The virtual time, in milliseconds from the start of the diagram. */
  readonly clock: MarbleClock;
}

/**
 * Runs a test in virtual time, where one frame is a millisecond, and fails where a diagram does not hold. Time goes on until no
 * timer is left. Returns what the test returns, as it is when all is over.
 */
export function marbles<T>(test: (helpers: MarbleHelpers) => T): T {
  const scheduler = new TestScheduler((actual, expected) => expect(actual).toEqual(expected));
  const fired: number[] = [];
  const clock: MarbleClock = {
    fired,
    now: () => scheduler.now(),
    schedule(ms, callback) {
      const timer = scheduler.schedule(() => {
        fired.push(scheduler.now());
        callback();
      }, ms);
      return () => timer.unsubscribe();
    },
  };
  return scheduler.run((helpers) => test({ ...helpers, clock }));
}

type Then<T> = (
  resolve?: ((value: T) => unknown) | null,
  reject?: ((error: unknown) => unknown) | null,
) => Promise<unknown>;

/** A promise that settles when and as an Observable does, in virtual time, where real promises never settle. */
export function answerWhen<T>(source$: Observable<T>): Promise<T> {
  const then: Then<T> = (resolve, reject) => {
    const next$ = new ReplaySubject<unknown>(1);
    source$
      .pipe(
        map((value) => (resolve ? resolve(value) : value)),
        reject ? catchError((error: unknown) => of(reject(error))) : (same$) => same$,
      )
      .subscribe(next$);
    return answerWhen(next$);
  };
  return Object.assign(new Promise<T>(() => {}), { then });
}
