import { Observable, type Observer, type Subscriber, type Subscription } from 'rxjs';
import type { AgentEvent } from '../contracts/events.ts';
import type { Tool } from '../contracts/tool.ts';
import type { Signal } from '../journal/commit.ts';
import type { EventProjector } from '../journal/event-projector.ts';
import type { JournalRecord } from '../journal/records.ts';
import type { LoopState } from '../journal/state.ts';
import { DirectSubscriber } from '../streams/operate.ts';

interface ShareOptions {
  readonly projector: EventProjector;
  /** Called when the last subscriber leaves a turn that has not ended. */
  readonly onIdle: () => void;
  /** Called once, when the execution is over: without an error where the turn ended or suspended. */
  readonly onEnd: (error?: { readonly cause: unknown }) => void;
}

/** Many subscribers, one execution. */
export interface SharedTurn<X extends Tool = Tool> {
  readonly events$: Observable<AgentEvent<X>>;
  /** Subscribes to `events$`. */
  attach(subscriber: Subscriber<AgentEvent<X>>): void;
  /** What is shown from now on; subscribing starts nothing, and who looks on is no reader. */
  readonly live$: Observable<AgentEvent<X>>;
  /** The state after the last record that was emitted. */
  readonly state: LoopState | undefined;
  /** What was thrown where the turn failed. */
  readonly cause: unknown;
  /** Whether the turn had ended before it was opened here. */
  readonly endedBefore: boolean;
  /** Starts the execution, where it has not started. */
  connect(): void;
  /** Leaves the execution; the next subscriber starts another. For one that only watches. */
  disconnect(): void;
}

/**
 * Shares one execution between all subscribers, which may come and go. The first subscriber starts it. Late
 * subscribers receive a replay: the events of the records so far and the text so far, one event per artifact; then live events, or the
 * end. Unsubscribing never stops the execution here: `onIdle` is called when no subscriber is left. An event
 * that a subscriber causes from within its own handler is shown after the one at hand. Holds the records and the text of the open
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
  /** The records that were emitted; late subscribers receive a replay of them. */
  #records: JournalRecord[] = [];
  /** Whether the turn continues after the last of them, although it is a suspension. */
  #continues = false;
  #queue: Signal[] = [];
  #readers: readonly Subscriber<AgentEvent>[] = [];
  /** They hear of an event before the readers do. */
  #onlookers: readonly Subscriber<AgentEvent>[] = [];
  #waiting: Subscriber<AgentEvent>[] = [];
  #connected = false;
  #execution: Subscription | undefined;
  #showing = false;
  #end: End | undefined;
  #ended = false;

  constructor(execution$: Observable<Signal>, options: ShareOptions) {
    this.#execution$ = execution$;
    this.#options = options;
  }

  get events$(): Observable<AgentEvent> {
    return new Observable((subscriber) => this.attach(subscriber));
  }

  get live$(): Observable<AgentEvent> {
    return new Observable((subscriber) => this.#lookOn(subscriber));
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
    this.#dismiss({});
  }

  /** Shows a signal, after those that are being shown further up the stack. */
  next(signal: Signal): void {
    if (this.#showing) {
      this.#queue.push(signal);
      return;
    }
    this.#showing = true;
    try {
      this.#show(signal);
      if (this.#queue.length > 0 || this.#waiting.length > 0 || this.#end) this.#settleDown();
      else this.#showing = false;
    } catch (cause) {
      this.#break(cause);
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
    if (this.#showing) return;
    this.#showing = true;
    this.#settleDown();
  }

  /** An event could not be written: nothing more can be shown. */
  #break(cause: unknown): void {
    this.#queue = [];
    this.#showing = false;
    this.#readers = [...this.#readers, ...this.#waiting.splice(0)];
    this.#end = { error: { cause } };
    if (!this.#ended) this.#close(this.#end);
    // After the call that subscribes, so that an execution that failed synchronously is unsubscribed too.
    queueMicrotask(() => this.#execution?.unsubscribe());
  }

  /** Shows what came in meanwhile, lets waiting readers in, and ends. */
  #settleDown(): void {
    while (this.#queue.length > 0 || this.#waiting.length > 0) {
      const signals = this.#queue;
      this.#queue = [];
      for (const signal of signals) this.#show(signal);
      const [reader] = this.#waiting;
      if (reader && this.#queue.length === 0) this.#admit(reader);
    }
    this.#showing = false;
    if (this.#end && !this.#ended) this.#close(this.#end);
  }

  #show(signal: Signal): void {
    const { projector } = this.#options;
    if (signal.type !== 'commit') {
      const event = projector.projectDelta(signal);
      if (event) this.#tell(event);
      return;
    }
    this.state = signal.after;
    this.#continues = signal.continues === true;
    this.cause ??= signal.cause;
    if (signal.endedBefore) this.endedBefore = true;
    for (const { record } of signal.steps) this.#records.push(record);
    for (const event of projector.project(signal)) this.#tell(event);
  }

  #tell(event: AgentEvent): void {
    for (const onlooker of this.#onlookers) onlooker.next(event);
    for (const reader of this.#readers) reader.next(event);
  }

  #close(end: End): void {
    this.#ended = true;
    const readers = this.#readers;
    this.#readers = [];
    this.#dismiss(end);
    this.#options.onEnd(end.error);
    for (const reader of readers) finish(reader, end);
  }

  #dismiss(end: End): void {
    const onlookers = this.#onlookers;
    this.#onlookers = [];
    for (const onlooker of onlookers) finish(onlooker, end);
  }

  #lookOn(subscriber: Subscriber<AgentEvent>): void {
    if (this.#ended) return subscriber.complete();
    this.#onlookers = [...this.#onlookers, subscriber];
    subscriber.add(() => {
      this.#onlookers = this.#onlookers.filter((onlooker) => onlooker !== subscriber);
    });
  }

  attach(subscriber: Subscriber<AgentEvent>): void {
    subscriber.add(() => this.#detach(subscriber));
    if (!this.#connected) {
      this.#readers = [...this.#readers, subscriber];
      this.connect();
    } else {
      this.#waiting.push(subscriber);
      if (this.#showing) return;
      this.#showing = true;
      try {
        this.#settleDown();
      } catch (cause) {
        this.#break(cause);
      }
    }
  }

  /**
   * Tells the reader that waits longest what it missed, and lets it in. Signals that come meanwhile wait. Until it is in it counts
   * as waiting, so that the turn is not idle where it makes the others leave.
   */
  #admit(reader: Subscriber<AgentEvent>): void {
    if (this.#records.length > 0) {
      for (const event of this.#options.projector.replay(this.#records, this.#continues)) reader.next(event);
    }
    const text = this.#end ? undefined : this.#options.projector.openText();
    if (text) reader.next(text);
    this.#waiting.shift();
    if (this.#ended && this.#end) finish(reader, this.#end);
    else if (reader.closed) this.#noticeIdle();
    else this.#readers = [...this.#readers, reader];
  }

  #detach(subscriber: Subscriber<AgentEvent>): void {
    const before = this.#readers.length;
    this.#readers = this.#readers.filter((reader) => reader !== subscriber);
    if (this.#readers.length < before) this.#noticeIdle();
  }

  #noticeIdle(): void {
    if (this.#readers.length === 0 && this.#waiting.length === 0 && !this.#ended) this.#options.onIdle();
  }
}

function finish(reader: Subscriber<AgentEvent>, end: End): void {
  if (end.error) reader.error(end.error.cause);
  else reader.complete();
}
