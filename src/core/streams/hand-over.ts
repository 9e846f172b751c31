import { Observable, type OperatorFunction } from 'rxjs';
import { DirectSubscriber } from './direct-subscriber.ts';

/**
 * `switchMap` for a source that emits once: what it emits decides what follows. That gets the subscriber itself, so that no signal of
 * a turn passes through what only opened it. Completes where the source does without a value. `failed` hears of an error of the source.
 */
export function handOver<T, R>(
  follow: (value: T) => Observable<R>,
  failed?: (error: unknown) => void,
): OperatorFunction<T, R> {
  return (source) =>
    new Observable((to) => {
      let over = false;
      const opening = new DirectSubscriber<T>({
        next(value) {
          if (over) return;
          over = true;
          try {
            follow(value).subscribe(to);
          } catch (error) {
            to.error(error);
          }
        },
        error(error: unknown) {
          failed?.(error);
          to.error(error);
        },
        complete() {
          if (!over) to.complete();
        },
      });
      to.add(opening);
      source.subscribe(opening);
    });
}
