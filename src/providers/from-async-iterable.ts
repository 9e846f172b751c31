import { Observable } from 'rxjs';
import { AbortScope } from '../core/streams/index.ts';

/** What the factory of {@link fromAsyncIterable} is given. */
export interface IterationScope {
  /** Aborted when the subscriber leaves before the end. Made when it is first read. */
  readonly signal: AbortSignal;
}

/**
 * An AsyncIterable, such as the stream of a vendor's SDK, as an Observable.
 *
 * `factory` is called once for each subscription, at subscribe, with a signal of its own to hand to the SDK:
 * `fromAsyncIterable(({ signal }) => sdk.stream({ signal }))`. Values pass as they are produced, one `next` at a time. The end of
 * the iteration completes, a throw errors. Unsubscribing aborts the signal and calls the iterator's `return` at once, also while it
 * is blocked in `next`; what it still produces or throws is dropped. The signal is not aborted after an end or an error of the
 * source's own. Buffers nothing.
 */
export function fromAsyncIterable<T>(factory: (scope: IterationScope) => AsyncIterable<T>): Observable<T> {
  return new Observable((subscriber) => {
    const scope = new AbortScope();
    const iterator = factory(scope)[Symbol.asyncIterator]();
    let ended = false;

    const fail = (error: unknown): void => {
      ended = true;
      subscriber.error(error);
    };
    const take = (result: IteratorResult<T>): void => {
      if (result.done === true) {
        ended = true;
        subscriber.complete();
        return;
      }
      subscriber.next(result.value);
      pull();
    };
    const pull = (): void => {
      if (subscriber.closed) return;
      try {
        iterator.next().then(take, fail);
      } catch (error) {
        fail(error);
      }
    };

    pull();
    return () => {
      if (ended) return;
      scope.abort(undefined);
      release(iterator);
    };
  });
}

/** Nobody is left to hear of a failure to close. */
function release(iterator: AsyncIterator<unknown>): void {
  try {
    iterator.return?.().then(undefined, () => {});
  } catch {}
}
