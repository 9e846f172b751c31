import { Observable } from 'rxjs';

/**
 * An AsyncIterable, such as the stream of a vendor's SDK, as an Observable.
 *
 * `factory` is called once for each subscription, at subscribe, and gets a signal of its own to hand to the SDK. Values
 * pass as they are produced, one `next` at a time. The end of the iteration completes, a throw errors. Unsubscribing aborts
 * the signal and calls the iterator's `return` at once, also while it is blocked in `next`; what it still produces or throws
 * is dropped. The signal is not aborted after an end or an error of the source's own. A factory whose `length` is 0 gets
 * none, which saves making it: mind that a rest parameter, or one with a default, does not count. Buffers nothing.
 */
export function fromAsyncIterable<T>(factory: (signal: AbortSignal) => AsyncIterable<T>): Observable<T> {
  return new Observable((subscriber) => {
    const controller = factory.length > 0 ? new AbortController() : undefined;
    const iterable = controller ? factory(controller.signal) : (factory as () => AsyncIterable<T>)();
    const iterator = iterable[Symbol.asyncIterator]();
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
      controller?.abort();
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
