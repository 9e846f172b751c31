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
 * What a stage handles: all values, none, or commits of records and the answers that become one. What it does not handle passes it by.
 */
type Takes = 'all' | 'records' | 'none';

/**
 * One operator in one subscription: it receives values and emits its output to `to`. Methods that a subclass does not override pass the signal
 * on. On complete and error it first closes itself and everything upstream, then notifies downstream.
 */
export abstract class Stage<T, R = T> implements Sink<T> {
  // Declared only, and none of them with #: V8 defines and finds private names slowly in a class that many others extend.
  declare closed: boolean;
  declare protected readonly to: Sink<R>;
  /** The first stage, from here downstream, that handles commits and answers. */
  declare private readonly target: Stage<unknown, unknown>;
  /** The first one that handles everything else. */
  declare private readonly deltas: Stage<unknown, unknown>;
  declare private before: Stage<unknown, unknown> | undefined;
  declare private teardown: (() => void)[] | undefined;

  /** Default: all values where `take` is overridden, else none. */
  constructor(to: Sink<R>, takes?: Takes) {
    this.closed = false;
    this.to = to;
    this.target = this;
    this.deltas = this;
    this.before = undefined;
    this.teardown = undefined;
    if (!(to instanceof Stage)) return;
    const handles = takes ?? (this.take === Stage.prototype.take ? 'none' : 'all');
    if (handles === 'none') this.target = to.target;
    if (handles !== 'all') this.deltas = to.deltas;
    this.closed = to.closed;
    if (!to.closed) to.before = this;
  }

  /** Hands a value to the stages that handle it, one after another, until one does not pass it on. */
  next(value: T): void {
    let given: unknown = value;
    let next: Stage<unknown, unknown> = this as never;
    let stage = next;
    try {
      while (given !== undefined && !next.closed) {
        const { type } = given as { readonly type?: unknown };
        stage = type === 'commit' || type === 'done' ? next.target : next.deltas;
        given = stage.take(given);
        next = stage.to as Stage<unknown, unknown>;
      }
    } catch (thrown) {
      stage.threw(thrown);
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
    before?.finalize?.();
    if (this.teardown) for (const teardown of this.teardown) teardown();
  }

  /** Returns what it passes on: default the value, which is only valid if `T` and `R` are the same type; `undefined` for nothing. */
  protected take(value: T): R | undefined {
    return value as never;
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
  protected finalize?(): void;

  protected threw(thrown: unknown): void {
    this.to.error(thrown);
  }
}

/** The end of a chain: rethrows errors that the subscriber throws, so that RxJS reports them. Unsubscribing stops the chain. */
export class Outlet<T> extends Stage<T> {
  constructor(to: Observer<T>) {
    super(to as Sink<T>);
  }

  protected override take(value: T): undefined {
    this.to.next(value);
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
    super(to, handlers.next ? 'all' : 'none');
    this.#handlers = handlers;
  }

  protected override take(value: T): undefined {
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

/** An operator that also makes its stage for a sink, so that several run in one subscription. */
export interface FusibleOperator<T, R> {
  (to: Sink<R>): Stage<T, R>;
  // The last one: it is what `pipe` infers from.
  (source: Observable<T>): Observable<R>;
}

/**
 * Creates an operator from its stage, one stage per subscription. An exception in the stage errors the stream. Teardown runs before downstream
 * receives complete or error. The source subscription is linked before the source starts, so unsubscribing also stops a synchronous source in the
 * middle.
 */
export function staged<T, R>(stageOf: (to: Sink<R>) => Stage<T, R>): FusibleOperator<T, R> {
  // One function for both: an iteration makes six of them.
  const operator = (from: Observable<T> | Sink<R>): never => {
    if (!(from instanceof Observable)) return stageOf(from) as never;
    return new Source<R>((to) => pipeInto(to as Sink<never>, from as Observable<never>, operator as never)) as never;
  };
  return operator as FusibleOperator<T, R>;
}

/** An operator that does nothing. */
// biome-ignore lint/suspicious/noExplicitAny: an operator of any values
export const passOn: FusibleOperator<any, any> = (from: unknown): never => from as never;

/** As `staged`, from handlers; `make` may `add` teardown to the sink it receives. */
export function operate<T, R>(make: (to: Sink<R>) => Handlers<T>): FusibleOperator<T, R> {
  return staged((to) => new HandlerStage(to, make(to)));
}

/**
 * An Observable that can also run into a sink. Operators that are fused around it, and the source that it fuses itself, share one subscription.
 * `run` receives a sink that is not closed; what it throws errors the sink.
 */
export class Source<T> extends Observable<T> {
  declare private readonly run: (to: Sink<T>) => void;

  constructor(run: (to: Sink<T>) => void) {
    super(run);
    this.run = run;
  }

  runInto(to: Sink<T>): void {
    try {
      if (!to.closed) this.run(to);
    } catch (error) {
      to.error(error);
    }
  }
}

/** The same as `pipe(...operators)`, in one subscription: see `pipeInto`. */
export function fuse<T>(...operators: readonly FusibleOperator<T, T>[]): (source: Observable<T>) => Source<T> {
  return (source) => new Source<T>((to) => pipeInto(to, source, ...operators));
}

/**
 * The same as `source.pipe(...operators).subscribe(to)`, in one subscription: RxJS creates a subscriber per operator of a pipe, and for the operators
 * of an iteration these subscribers would cost more than the work. Each operator's sink is the stage of the next one.
 */
export function pipeInto<A>(to: Sink<A>, source: Observable<A>, ...operators: readonly FusibleOperator<A, A>[]): void;
export function pipeInto<A, B, C, D>(
  to: Sink<D>,
  source: Observable<A>,
  first: FusibleOperator<A, B>,
  second: FusibleOperator<B, C>,
  third: FusibleOperator<C, D>,
): void;
export function pipeInto(
  to: Sink<never>,
  source: Observable<unknown>,
  ...operators: readonly FusibleOperator<unknown, unknown>[]
): void {
  let first: Stage<unknown> = outletOf(to);
  for (let index = operators.length - 1; index >= 0; index--) {
    const operator = operators[index] as FusibleOperator<unknown, unknown>;
    if (operator !== passOn) first = operator(first);
  }
  if (source instanceof Source) return source.runInto(first);
  const subscriber = new DirectSubscriber<unknown>(first);
  first.add(() => subscriber.unsubscribe());
  source.subscribe(subscriber);
}

/** Emits to `to`, as the end of a chain, unless `to` is a stage itself. */
export function outletOf<T>(to: Sink<T>): Stage<T, unknown> {
  if (to instanceof Stage) return to;
  const outlet = new Outlet<T>(to);
  to.add(() => outlet.unsubscribe());
  return outlet;
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
