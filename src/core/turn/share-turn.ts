import { filter, map, Observable, type Observer, type Subscriber, type Subscription, startWith } from 'rxjs';
import type { AgentEvent, Tool } from '../contracts/index.ts';
import type { EventProjector, JournalRecord, LoopState, Signal } from '../journal/index.ts';
import { DirectSubscriber } from '../streams/index.ts';

interface ShareOptions {
  readonly projector: EventProjector;
  /** Called when the last subscriber leaves a turn that has not ended. */
  readonly onIdle: () => void;
  /** Called once when the execution is over; without an error if the turn ended or suspended. */
  readonly onEnd: (error?: { readonly cause: unknown }) => void;
}

/** One execution, shared by many subscribers. */
export interface SharedTurn<X extends Tool = Tool> {
  readonly events$: Observable<AgentEvent<X>>;
  /** Subscribes to `events$`. */
  attach(subscriber: Subscriber<AgentEvent<X>>): void;
  /** Live events only. Subscribing does not start the execution, and these subscribers do not count for `onIdle`. */
  readonly live$: Observable<AgentEvent<X>>;
  /** The state after the last record that was emitted. */
  readonly state: LoopState | undefined;
  /** The records so far, whenever there are more; does not start the execution. Completes or errors as `live$`. */
  readonly records$: Observable<readonly JournalRecord[]>;
  /** The exception of a failed turn. */
  readonly cause: unknown;
  /** Whether the turn had ended before it was opened here. */
  readonly endedBefore: boolean;
  /** Starts the execution if it has not started. */
  connect(): void;
  /** Unsubscribes from the execution; the next subscriber starts another. Only for an execution that watches a turn of another process. */
  disconnect(): void;
  /** Unsubscribes from the execution; subscribers receive the error. Only for an execution that watches a turn of another process. */
  leave(cause: unknown): void;
}

/**
 * Shares one execution between all subscribers. The first subscriber starts it. Late
 * subscribers receive a replay: the events of the records so far and the text so far, one event per artifact; then live events, or the
 * end. Unsubscribing from the events never stops the execution: `onIdle` is called when no subscriber is left. An event
 * that a subscriber causes from within its own handler is emitted after the current one. Memory: the records and the text of the open
 * model call, never single deltas.
 */
export function shareTurn<X extends Tool>(execution$: Observable<Signal>, options: ShareOptions): SharedTurn<X>;
export function shareTurn(execution$: Observable<Signal>, options: ShareOptions): SharedTurn {
  return new Share(execution$, options);
}

/** How an execution ended. */
interface End {
  readonly error?: { readonly cause: unknown };
}

class Share implements SharedTurn, Observer<Signal> {
  state: LoopState | undefined;
  cause: unknown;
  endedBefore = false;
  readonly #execution$: Observable<Signal>;
  readonly #options: ShareOptions;
  /** The emitted records, replayed to late subscribers. */
  #records: JournalRecord[] = [];
  /** Whether the last record is a suspension after which the turn continues in this stream. */
  #continues = false;
  #queue: Signal[] = [];
  #subscribers: readonly Subscriber<AgentEvent>[] = [];
  /** Subscribers of `live$`: they receive an event before `#subscribers` do. */
  #liveSubscribers: readonly Subscriber<AgentEvent>[] = [];
  #waiting: Subscriber<AgentEvent>[] = [];
  #connected = false;
  #execution: Subscription | undefined;
  #emitting = false;
  /** Set when the execution has ended; signals may still be queued. */
  #end: End | undefined;
  /** Whether the subscribers have received the end. */
  #ended = false;

  constructor(execution$: Observable<Signal>, options: ShareOptions) {
    this.#execution$ = execution$;
    this.#options = options;
  }

  get events$(): Observable<AgentEvent> {
    return new Observable((subscriber) => this.attach(subscriber));
  }

  get live$(): Observable<AgentEvent> {
    return new Observable((subscriber) => this.#attachLive(subscriber));
  }

  get records$(): Observable<readonly JournalRecord[]> {
    const more$ = this.live$.pipe(filter(({ cursor }) => cursor !== undefined));
    return more$.pipe(
      startWith(undefined),
      map(() => this.#records),
    );
  }

  connect(): void {
    if (this.#connected) return;
    this.#connected = true;
    this.#execution = this.#execution$.subscribe(new DirectSubscriber<Signal>(this));
  }

  disconnect(): void {
    this.#execution?.unsubscribe();
    this.#connected = false;
    this.#records = [];
    this.#endLive({});
  }

  leave(cause: unknown): void {
    if (this.#end) return;
    this.#execution?.unsubscribe();
    this.error(cause);
  }

  /** Emits a signal, after any that is being emitted further up the stack. */
  next(signal: Signal): void {
    if (this.#emitting) {
      this.#queue.push(signal);
      return;
    }
    this.#emitting = true;
    try {
      this.#project(signal);
      if (this.#queue.length > 0 || this.#waiting.length > 0 || this.#end) this.#drainQueue();
      else this.#emitting = false;
    } catch (cause) {
      this.#fail(cause);
    }
  }

  error(cause: unknown): void {
    this.#finish({ error: { cause } });
  }

  complete(): void {
    this.#finish({});
  }

  #finish(end: End): void {
    this.#end = end;
    if (this.#emitting) return;
    this.#emitting = true;
    this.#drainQueue();
  }

  /** An event could not be projected: no more are emitted, and all subscribers receive the error. */
  #fail(cause: unknown): void {
    this.#queue = [];
    this.#emitting = false;
    this.#subscribers = [...this.#subscribers, ...this.#waiting.splice(0)];
    this.#end = { error: { cause } };
    if (!this.#ended) this.#close(this.#end);
    // After the call that subscribes, so that an execution that failed synchronously is unsubscribed too.
    queueMicrotask(() => this.#execution?.unsubscribe());
  }

  /** Emits the queued signals, replays to waiting subscribers, then completes or errors if the execution has. */
  #drainQueue(): void {
    while (this.#queue.length > 0 || this.#waiting.length > 0) {
      const signals = this.#queue;
      this.#queue = [];
      for (const signal of signals) this.#project(signal);
      const [subscriber] = this.#waiting;
      if (subscriber && this.#queue.length === 0) this.#replayTo(subscriber);
    }
    this.#emitting = false;
    if (this.#end && !this.#ended) this.#close(this.#end);
  }

  #project(signal: Signal): void {
    const { projector } = this.#options;
    if (signal.type !== 'commit') {
      const event = projector.projectDelta(signal);
      if (!event) return;
      for (const subscriber of this.#liveSubscribers) subscriber.next(event);
      for (const subscriber of this.#subscribers) subscriber.next(event);
      return;
    }
    this.state = signal.after;
    this.#continues = signal.continues === true;
    this.cause ??= signal.cause;
    if (signal.endedBefore) this.endedBefore = true;
    for (const { record } of signal.steps) this.#records.push(record);
    this.#emit(projector.project(signal));
  }

  #emit(events: readonly AgentEvent[]): void {
    // Loops by index: until V8 optimizes it, an iterator allocates an object per element.
    for (let index = 0; index < events.length; index++) {
      const event = events[index] as AgentEvent;
      const live = this.#liveSubscribers;
      for (let at = 0; at < live.length; at++) live[at]?.next(event);
      const subscribers = this.#subscribers;
      for (let at = 0; at < subscribers.length; at++) subscribers[at]?.next(event);
    }
  }

  #close(end: End): void {
    this.#ended = true;
    const subscribers = this.#subscribers;
    this.#subscribers = [];
    this.#endLive(end);
    this.#options.onEnd(end.error);
    for (const subscriber of subscribers) finish(subscriber, end);
  }

  #endLive(end: End): void {
    const live = this.#liveSubscribers;
    this.#liveSubscribers = [];
    for (const subscriber of live) finish(subscriber, end);
  }

  #attachLive(subscriber: Subscriber<AgentEvent>): void {
    if (this.#ended) return subscriber.complete();
    this.#liveSubscribers = [...this.#liveSubscribers, subscriber];
    subscriber.add(() => {
      this.#liveSubscribers = this.#liveSubscribers.filter((each) => each !== subscriber);
    });
  }

  attach(subscriber: Subscriber<AgentEvent>): void {
    subscriber.add(() => this.#detach(subscriber));
    if (!this.#connected) {
      this.#subscribers = [...this.#subscribers, subscriber];
      this.connect();
    } else {
      this.#waiting.push(subscriber);
      if (this.#emitting) return;
      this.#emitting = true;
      try {
        this.#drainQueue();
      } catch (cause) {
        this.#fail(cause);
      }
    }
  }

  /**
   * Replays the events so far to the subscriber that has waited longest, and attaches it. Signals that arrive meanwhile are queued. Until it is
   * attached it counts as waiting, so the turn does not become idle if its handler unsubscribes the others.
   */
  #replayTo(subscriber: Subscriber<AgentEvent>): void {
    if (this.#records.length > 0) {
      for (const event of this.#options.projector.replay(this.#records, this.#continues)) subscriber.next(event);
    }
    const text = this.#end ? undefined : this.#options.projector.openText();
    if (text) subscriber.next(text);
    this.#waiting.shift();
    if (this.#ended && this.#end) finish(subscriber, this.#end);
    else if (subscriber.closed) this.#checkIdle();
    else this.#subscribers = [...this.#subscribers, subscriber];
  }

  #detach(subscriber: Subscriber<AgentEvent>): void {
    const before = this.#subscribers.length;
    this.#subscribers = this.#subscribers.filter((each) => each !== subscriber);
    if (this.#subscribers.length < before) this.#checkIdle();
  }

  #checkIdle(): void {
    if (this.#subscribers.length === 0 && this.#waiting.length === 0 && !this.#ended) this.#options.onIdle();
  }
}

function finish(subscriber: Subscriber<AgentEvent>, end: End): void {
  if (end.error) subscriber.error(end.error.cause);
  else subscriber.complete();
}
