import { Observable, type OperatorFunction, type Subscriber } from 'rxjs';
import { DirectSubscriber } from './direct-subscriber.ts';

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
  /** Default: passes the value on, which only an operator that makes what it takes may leave to it. */
  next?(value: T): void;
  /** Default: passes the error on. */
  error?(error: unknown): void;
  /** Default: completes. */
  complete?(): void;
}

type HandlersOf<T, R> = (to: Sink<R>) => Handlers<T>;

/** An operator whose handlers are known, so that `fuse` can put several into one subscription. */
export interface FusibleOperator<T, R> extends OperatorFunction<T, R> {
  readonly handlersOf: HandlersOf<T, R>;
}

/**
 * An operator from its handlers, made anew for each subscription by `make`, which may `add` teardown to the sink it is given.
 * What a handler throws errors the stream. Teardown runs before what is behind the operator hears of the end. The subscription
 * to the source is linked before the source starts, so that a synchronous source can be stopped in the middle.
 */
export function operate<T, R>(make: HandlersOf<T, R>): FusibleOperator<T, R> {
  const operator = (source: Observable<T>) => new Observable<R>((to) => run(source, [operator], to));
  operator.handlersOf = make;
  return operator;
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
export function fuse<A, B, C, D>(
  ...operators: readonly [FusibleOperator<A, B>, FusibleOperator<B, C>, FusibleOperator<C, D>]
): OperatorFunction<A, D>;
export function fuse<A, B, C>(
  ...operators: readonly [FusibleOperator<A, B>, FusibleOperator<B, C>]
): OperatorFunction<A, C>;
export function fuse<T>(...operators: readonly FusibleOperator<T, T>[]): OperatorFunction<T, T>;
export function fuse(...operators: readonly Fused[]) {
  return (source: Observable<unknown>) => new Observable<never>((to) => run(source, operators, to));
}

type Fused = Pick<FusibleOperator<never, never>, 'handlersOf'>;

/** The same as `fuse(...operators)(source).subscribe(to)`, without the Observable between. */
export function subscribeFused<A, B, C, D>(
  source: Observable<A>,
  operators: readonly [
    FusibleOperator<A, A>,
    FusibleOperator<A, B>,
    FusibleOperator<B, C>,
    FusibleOperator<C, D>,
    FusibleOperator<D, D>,
    FusibleOperator<D, D>,
  ],
  to: Subscriber<D>,
): void {
  run(source, operators, to);
}

/**
 * Subscribes a chain of operators: the sink of the last is the subscriber, the sink of each other is the operator behind it, and the
 * source feeds the sink before the first.
 */
function run(source: Observable<unknown>, operators: readonly Fused[], to: Subscriber<never>): void {
  const last = new Stage(to);
  let first = last;
  for (let index = operators.length - 1; index >= 0; index--) {
    first = new Stage((operators[index] as Fused).handlersOf(first), first);
  }
  const from = new DirectSubscriber<unknown>(first);
  first.add(() => from.unsubscribe());
  to.add(() => last.close());
  source.subscribe(from);
}

/**
 * The sink of one operator, or of the source: what it is given goes to `behind`. Ending closes it and all before it, then what is
 * behind it hears of the end.
 */
class Stage implements Sink<unknown> {
  closed = false;
  readonly #behind: Handlers<never>;
  /** The sink of the operator behind: it is told what that operator throws. */
  readonly #next: Stage | undefined;
  /** The sink of the first operator from here on that does something to values. */
  readonly #target: Stage;
  #before: Stage | undefined;
  #teardown: (() => void)[] | undefined;

  constructor(behind: Handlers<never>, next?: Stage) {
    this.#behind = behind;
    this.#next = next;
    this.#target = behind.next === undefined && next !== undefined ? next.#target : this;
    if (next?.closed) this.closed = true;
    else if (next) next.#before = this;
  }

  next(value: unknown): void {
    if (this.closed) return;
    const target = this.#target;
    try {
      target.#behind.next?.(value as never);
    } catch (thrown) {
      target.#threw(thrown);
    }
  }

  error(error: unknown): void {
    if (this.closed) return;
    this.close();
    try {
      if (this.#behind.error) this.#behind.error(error);
      else this.#next?.error(error);
    } catch (thrown) {
      this.#threw(thrown);
    }
  }

  complete(): void {
    if (this.closed) return;
    this.close();
    try {
      if (this.#behind.complete) this.#behind.complete();
      else this.#next?.complete();
    } catch (thrown) {
      this.#threw(thrown);
    }
  }

  add(teardown: () => void): void {
    if (this.closed) teardown();
    else if (this.#teardown === undefined) this.#teardown = [teardown];
    else this.#teardown.push(teardown);
  }

  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.#before?.close();
    if (this.#teardown) for (const teardown of this.#teardown) teardown();
  }

  /** Only operators get here: what a subscriber throws, RxJS reports. */
  #threw(thrown: unknown): void {
    if (this.#next) this.#next.error(thrown);
    else throw thrown;
  }
}
