import { type Observer, Subscriber } from 'rxjs';

/**
 * A subscriber that hands over to its observer without the guard that RxJS puts between: what the observer throws in `next` goes up
 * to whoever emitted, so an observer has to catch what is not the emitter's. Costs a third of a subscriber made of functions.
 */
export class DirectSubscriber<T> extends Subscriber<T> {
  readonly #observer: Observer<T>;
  #over = false;

  constructor(observer: Observer<T>) {
    super();
    this.#observer = observer;
  }

  /** What `Subscriber` does in two methods. */
  override next(value: T): void {
    if (!this.#over && !this.closed) this.#observer.next(value);
  }

  protected override _error(error: unknown): void {
    this.#over = true;
    try {
      this.#observer.error(error);
    } finally {
      this.unsubscribe();
    }
  }

  protected override _complete(): void {
    this.#over = true;
    try {
      this.#observer.complete();
    } finally {
      this.unsubscribe();
    }
  }
}
