import { type Observer, Subscriber } from 'rxjs';

/**
 * Hands chunks over without the guard that RxJS puts between. An error is handed over once the source is torn down, so that a request that
 * is left has been counted by then.
 */
export class LeavingSubscriber<T> extends Subscriber<T> {
  readonly #observer: Observer<T>;

  constructor(observer: Observer<T>) {
    super();
    this.#observer = observer;
  }

  override next(value: T): void {
    if (!this.closed && !this.isStopped) this.#observer.next(value);
  }

  protected override _error(error: unknown): void {
    this.unsubscribe();
    this.#observer.error(error);
  }

  protected override _complete(): void {
    try {
      this.#observer.complete();
    } finally {
      this.unsubscribe();
    }
  }
}
