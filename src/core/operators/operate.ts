import { Observable, type OperatorFunction, Subscriber } from 'rxjs';

/** Where an operator puts what it makes. */
export interface Sink<T> {
  readonly closed: boolean;
  next(value: T): void;
  error(error: unknown): void;
  complete(): void;
  /** Runs `teardown` once, when the stream has ended or was left. */
  add(teardown: () => void): void;
}

export interface Handlers<T> {
  next(value: T): void;
  /** Default: passes the error on. */
  error?(error: unknown): void;
  /** Default: completes. */
  complete?(): void;
}

type HandlersOf<T, R> = (to: Sink<R>) => Handlers<T>;

const handlersOf = Symbol('handlersOf');

/** An operator whose handlers are known, so that `fuse` can put several into one subscription. */
export interface FusibleOperator<T, R> extends OperatorFunction<T, R> {
  readonly [handlersOf]: HandlersOf<T, R>;
}

/**
 * An operator from its handlers, made anew for each subscription by `make`, which may `add` teardown to the sink it is given.
 * What a handler throws errors the stream. Teardown runs before what is behind the operator hears of the end. The subscription
 * to the source is linked before the source starts, so that a synchronous source can be stopped in the middle.
 */
export function operate<T, R>(make: HandlersOf<T, R>): FusibleOperator<T, R> {
  const operator = (source: Observable<T>) => new Observable<R>((to) => run(source, [make], to));
  return Object.assign(operator, { [handlersOf]: make });
}

/**
 * The same as `pipe(...operators)`, in one subscription: RxJS makes a subscriber for every operator of a pipe, and those of the
 * operators of an iteration would cost more than all they do.
 */
export function fuse<A, B, C, D, E, F, G>(
  ...operators: readonly [
    FusibleOperator<A, B>,
    FusibleOperator<B, C>,
    FusibleOperator<C, D>,
    FusibleOperator<D, E>,
    FusibleOperator<E, F>,
    FusibleOperator<F, G>,
  ]
): OperatorFunction<A, G>;
export function fuse<A, B, C>(
  ...operators: readonly [FusibleOperator<A, B>, FusibleOperator<B, C>]
): OperatorFunction<A, C>;
export function fuse(...operators: readonly { readonly [handlersOf]: HandlersOf<never, never> }[]) {
  const makes = operators.map((operator) => operator[handlersOf]);
  return (source: Observable<unknown>) => new Observable<never>((to) => run(source, makes, to));
}

/** Subscribes a chain of operators: the sink of the last is the subscriber, the sink of each other is the operator behind it. */
function run(source: Observable<unknown>, makes: readonly HandlersOf<never, never>[], to: Subscriber<never>): void {
  const last = new Stage(to);
  let first = last;
  let handlers: Handlers<never> | undefined;
  for (let index = makes.length - 1; index >= 0; index--) {
    if (handlers) first = new Stage(handlers, first);
    handlers = makes[index]?.(first);
  }
  const head = handlers as Handlers<unknown>;
  const from = Subscriber.create<unknown>(
    (value) => {
      try {
        head.next(value);
      } catch (error) {
        last.error(error);
      }
    },
    (error: unknown) => (head.error ? head.error(error) : first.error(error)),
    () => (head.complete ? head.complete() : first.complete()),
  );
  first.add(() => from.unsubscribe());
  to.add(() => last.close());
  source.subscribe(from);
}

/** The sink of one operator. Ending closes it and all before it, then what is behind it hears of the end. */
class Stage implements Sink<never> {
  closed = false;
  readonly #behind: Handlers<never>;
  /** The sink of the operator behind. */
  readonly #next: Stage | undefined;
  #before: Stage | undefined;
  #teardown: (() => void)[] = [];

  constructor(behind: Handlers<never>, next?: Stage) {
    this.#behind = behind;
    this.#next = next;
    if (next) next.#before = this;
  }

  next(value: never): void {
    if (!this.closed) this.#behind.next(value);
  }

  error(error: unknown): void {
    if (this.closed) return;
    this.close();
    if (this.#behind.error) this.#behind.error(error);
    else this.#next?.error(error);
  }

  complete(): void {
    if (this.closed) return;
    this.close();
    if (this.#behind.complete) this.#behind.complete();
    else this.#next?.complete();
  }

  add(teardown: () => void): void {
    if (this.closed) teardown();
    else this.#teardown.push(teardown);
  }

  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.#before?.close();
    for (const teardown of this.#teardown) teardown();
  }
}
