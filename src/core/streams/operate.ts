import { Observable, type Observer, type OperatorFunction, Subscriber } from 'rxjs';

/** Where an operator emits its output. */
export interface Sink<T> {
  readonly closed: boolean;
  next(value: T): void;
  error(error: unknown): void;
  complete(): void;
  /** Runs `teardown` once, on complete, error or unsubscribe; at once if the sink is already closed. */
  add(teardown: () => void): void;
}

/**
 * One operator in one subscription: it receives values and emits its output to `to`. Methods that a subclass does not override pass the signal
 * on. On complete and error it first closes itself and everything upstream, then notifies downstream.
 */
export abstract class Stage<T, R = T> implements Sink<T> {
  // Declared only, and none of them with #: V8 defines and finds private names slowly in a class that many others extend.
  declare closed: boolean;
  declare protected readonly to: Sink<R>;
  /** The first stage, from here downstream, that handles values. */
  declare private readonly target: Stage<unknown, unknown>;
  declare private before: Stage<unknown, unknown> | undefined;
  declare private teardown: (() => void)[] | undefined;

  constructor(to: Sink<R>, takes?: boolean) {
    this.closed = false;
    this.to = to;
    this.target = this;
    this.before = undefined;
    this.teardown = undefined;
    if (!(to instanceof Stage)) return;
    if (!(takes ?? this.take !== Stage.prototype.take)) this.target = to.target;
    this.closed = to.closed;
    if (!to.closed) to.before = this;
  }

  next(value: T): void {
    if (this.closed) return;
    const target: Stage<unknown, unknown> = this.target;
    try {
      target.take(value);
    } catch (thrown) {
      target.threw(thrown);
    }
  }

  error(error: unknown): void {
    if (this.closed) return;
    this.close();
    try {
      this.failed(error);
    } catch (thrown) {
      this.threw(thrown);
    }
  }

  complete(): void {
    if (this.closed) return;
    this.close();
    try {
      this.completed();
    } catch (thrown) {
      this.threw(thrown);
    }
  }

  add(teardown: () => void): void {
    if (this.closed) teardown();
    else if (this.teardown === undefined) this.teardown = [teardown];
    else this.teardown.push(teardown);
  }

  close(): void {
    if (this.closed) return;
    this.closed = true;
    const before = this.before;
    before?.close();
    before?.finalize();
    if (this.teardown) for (const teardown of this.teardown) teardown();
  }

  /** Default: passes the value on; only valid if `T` and `R` are the same type. */
  protected take(value: T): void {
    this.to.next(value as never);
  }

  /** Default: passes the error on. */
  protected failed(error: unknown): void {
    this.to.error(error);
  }

  /** Default: completes. */
  protected completed(): void {
    this.to.complete();
  }

  /** Called once, on complete, error and unsubscribe, before downstream is notified. */
  protected finalize(): void {}

  protected threw(thrown: unknown): void {
    this.to.error(thrown);
  }
}

/** The end of a chain: rethrows errors that the subscriber throws, so that RxJS reports them. */
class Outlet extends Stage<unknown> {
  override next(value: unknown): void {
    if (!this.closed) this.to.next(value);
  }

  protected override threw(thrown: unknown): void {
    throw thrown;
  }

  unsubscribe(): void {
    this.close();
  }
}

export interface Handlers<T> {
  /** Default: passes the value on; only valid if `T` and `R` are the same type. */
  next?(value: T): void;
  /** Default: passes the error on. */
  error?(error: unknown): void;
  /** Default: completes. */
  complete?(): void;
}

/** A stage built from handler functions. */
class HandlerStage<T, R> extends Stage<T, R> {
  readonly #handlers: Handlers<T>;

  constructor(to: Sink<R>, handlers: Handlers<T>) {
    super(to, handlers.next !== undefined);
    this.#handlers = handlers;
  }

  protected override take(value: T): void {
    this.#handlers.next?.(value);
  }

  protected override failed(error: unknown): void {
    if (this.#handlers.error) this.#handlers.error(error);
    else super.failed(error);
  }

  protected override completed(): void {
    if (this.#handlers.complete) this.#handlers.complete();
    else super.completed();
  }
}

/** An operator that exposes its stage, so that `fuse` can run several in one subscription. */
export interface FusibleOperator<T, R> extends OperatorFunction<T, R> {
  stageOf(to: Sink<R>): Stage<T, R>;
}

/**
 * Creates an operator from its stage, one stage per subscription. An exception in the stage errors the stream. Teardown runs before downstream
 * receives complete or error. The source subscription is linked before the source starts, so unsubscribing also stops a synchronous source in the
 * middle.
 */
export function staged<T, R>(stageOf: (to: Sink<R>) => Stage<T, R>): FusibleOperator<T, R> {
  const operator = (source: Observable<T>) =>
    new Observable<R>((to) => void source.subscribe(subscriberOf<T>([operator], to)));
  operator.stageOf = stageOf;
  return operator;
}

/** As `staged`, from handlers; `make` may `add` teardown to the sink it receives. */
export function operate<T, R>(make: (to: Sink<R>) => Handlers<T>): FusibleOperator<T, R> {
  return staged((to) => new HandlerStage(to, make(to)));
}

/**
 * The same as `pipe(...operators)`, in one subscription: RxJS creates a subscriber per operator of a pipe, and for the operators of an
 * iteration these subscribers would cost more than the work.
 */
export function fuse<T>(...operators: readonly FusibleOperator<T, T>[]): OperatorFunction<T, T>;
export function fuse(...operators: readonly Fused[]) {
  return (source: Observable<unknown>) =>
    new Observable<never>((to) => void source.subscribe(subscriberOf(operators, to)));
}

type Fused = Pick<FusibleOperator<unknown, unknown>, 'stageOf'>;

/** Chains the operators: each one's sink is the stage of the next operator; the last one's sink is the `Outlet`. */
function subscriberOf<T>(operators: readonly Fused[], to: Subscriber<unknown>): Subscriber<T> {
  const last = new Outlet(to);
  let first: Stage<unknown> = last;
  for (let index = operators.length - 1; index >= 0; index--) first = (operators[index] as Fused).stageOf(first);
  const source = new DirectSubscriber<T>(first);
  first.add(() => source.unsubscribe());
  to.add(last);
  return source;
}

/**
 * A subscriber that calls its observer without the try/catch that RxJS adds: an exception in the observer's `next` propagates to the emitter,
 * so the observer must catch its own errors. Costs a third of a subscriber made of functions.
 */
export class DirectSubscriber<T> extends Subscriber<T> {
  readonly #observer: Observer<T>;
  #over = false;

  constructor(observer: Observer<T>) {
    super();
    this.#observer = observer;
  }

  /** Merges `Subscriber.next` and `_next` into one call. */
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

/**
 * `switchMap` for a source that emits once. The subscriber is passed to the inner Observable directly, so the signals of a turn do not pass through
 * this operator. Completes if the source completes without a value. `failed` receives an error of the source.
 */
export function switchOnce<T, R>(
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
