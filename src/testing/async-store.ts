import { Observable, type Subscription } from 'rxjs';
import type { TaskStateStore } from '../core/contracts/index.ts';

/** Options of `asyncStore`. */
export interface AsyncStoreOptions {
  /** When a call reaches the store: in a later microtask, or after I/O and timers had their turn. Default `'macrotask'`. */
  readonly task?: 'microtask' | 'macrotask' | undefined;
}

/**
 * The same store, but one that answers as a remote one does: every call reaches it in a later task, in the order they were
 * made, and is answered with a promise, errors included. Subscriptions to `commands` and `follow` begin later too.
 */
export function asyncStore(store: TaskStateStore, options: AsyncStoreOptions = {}): TaskStateStore {
  const wait = options.task === 'microtask' ? () => Promise.resolve() : nextMacrotask;
  const later =
    <A extends unknown[], T>(method: (...args: A) => T | Promise<T>) =>
    async (...args: A): Promise<T> => {
      await wait();
      return method.apply(store, args);
    };
  const readLater =
    <A extends unknown[], T>(method: (...args: A) => Observable<T>) =>
    (...args: A): Observable<T> =>
      new Observable((subscriber) => {
        let inner: Subscription | undefined;
        void wait().then(() => {
          if (!subscriber.closed) inner = method.apply(store, args).subscribe(subscriber);
        });
        return () => inner?.unsubscribe();
      });
  const publish = later(store.publish);
  return {
    ...(store.messages && { messages: store.messages }),
    refersTo: (messages) => store.refersTo?.(messages) === true,
    create: later(store.create),
    acquire: later(store.acquire),
    append: later<Parameters<TaskStateStore['append']>, void>(store.append),
    renew: later(store.renew),
    release: later(store.release),
    breakLease: later(store.breakLease),
    post: later(store.post),
    read: later(store.read),
    load: later(store.load),
    describe: later(store.describe),
    list: later(store.list),
    delete: later(store.delete),
    check: later(store.check),
    commands: readLater(store.commands),
    follow: readLater(store.follow),
    publish: (taskId, delta) => void publish(taskId, delta),
  };
}

function nextMacrotask(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
