import { expect } from '@jest/globals';
import type { Observable } from 'rxjs';
import { type RunHelpers, TestScheduler } from 'rxjs/testing';
import type { Clock } from '../../../src/core/clock.ts';

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

/** A promise that settles when and as an Observable does, in virtual time, where real promises never settle. */
export function answerWhen<T>(source$: Observable<T>): Promise<T> {
  const then = (resolve: (value: T) => unknown, reject: (error: unknown) => unknown) => {
    source$.subscribe({ next: resolve, error: reject });
    return new Promise<never>(() => {});
  };
  return Object.assign(new Promise<T>(() => {}), { then });
}
