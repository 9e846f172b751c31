import { Observable, type OperatorFunction, Subscriber } from 'rxjs';

export interface Handlers<T> {
  next(value: T): void;
  /** Default: passes the error on. */
  error?(error: unknown): void;
  /** Default: completes. */
  complete?(): void;
}

/**
 * An operator from its handlers, made anew for each subscription by `handlersOf`, which may `add` teardown to the subscriber
 * it is given. What a handler throws errors the stream. The subscription to the source is linked before the source starts, so
 * that a synchronous source can be stopped in the middle: `Subscriber.create` is RxJS 7's one way to do that from outside.
 */
export function operate<T, R>(handlersOf: (to: Subscriber<R>) => Handlers<T>): OperatorFunction<T, R> {
  return (source) =>
    new Observable<R>((to) => {
      const handlers = handlersOf(to);
      const from = Subscriber.create<T>(
        (value) => {
          try {
            handlers.next(value as T);
          } catch (error) {
            to.error(error);
          }
        },
        (error: unknown) => (handlers.error ? handlers.error(error) : to.error(error)),
        () => (handlers.complete ? handlers.complete() : to.complete()),
      );
      to.add(from);
      source.subscribe(from);
    });
}
