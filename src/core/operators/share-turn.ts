import { Observable, type Subscriber } from 'rxjs';
import type { EventProjector } from '../event-projector.ts';
import type { AgentEvent } from '../events.ts';
import type { Signal } from '../signals.ts';
import type { LoopState } from '../state.ts';

export interface ShareOptions {
  readonly projector: EventProjector;
  /** Called when the last subscriber leaves a turn that has not ended. */
  readonly onIdle: () => void;
  /** Called once, when the execution is over: without an error where the turn ended or suspended. */
  readonly onEnd: (error?: { readonly cause: unknown }) => void;
}

/** Many subscribers, one execution. */
export interface SharedTurn {
  readonly events$: Observable<AgentEvent>;
  /** The state behind the last record that was shown. */
  readonly state: LoopState | undefined;
  /** What was thrown where the turn failed. */
  readonly cause: unknown;
  /** Starts the execution, where it has not started. */
  connect(): void;
}

/**
 * Shares one execution between all subscribers, however often they come and go. The first subscriber starts it. One who comes
 * later gets the events of the records so far and the text so far, one event per artifact, then the live events; one who comes
 * after the end gets the same and the end. Leaving never stops the execution here: `onIdle` is told when nobody is left. An event
 * that a subscriber causes from within its own handler is shown after the one at hand. Holds the events of the records and the
 * text of the open model call, never single deltas.
 */
export function shareTurn(execution$: Observable<Signal>, options: ShareOptions): SharedTurn {
  return new Share(execution$, options);
}

/** How an execution ended. */
interface End {
  readonly error?: { readonly cause: unknown };
}

class Share implements SharedTurn {
  readonly events$: Observable<AgentEvent>;
  state: LoopState | undefined;
  cause: unknown;
  readonly #execution$: Observable<Signal>;
  readonly #options: ShareOptions;
  readonly #log: AgentEvent[] = [];
  readonly #queue: AgentEvent[] = [];
  #readers: readonly Subscriber<AgentEvent>[] = [];
  #waiting: Subscriber<AgentEvent>[] = [];
  #connected = false;
  #showing = false;
  #end: End | undefined;
  #ended = false;

  constructor(execution$: Observable<Signal>, options: ShareOptions) {
    this.#execution$ = execution$;
    this.#options = options;
    this.events$ = new Observable((subscriber) => this.#attach(subscriber));
  }

  connect(): void {
    if (this.#connected) return;
    this.#connected = true;
    const execution = this.#execution$.subscribe({
      next: (signal) => {
        try {
          this.#take(signal);
        } catch (cause) {
          this.#finish({ error: { cause } });
          queueMicrotask(() => execution.unsubscribe());
        }
      },
      error: (cause: unknown) => this.#finish({ error: { cause } }),
      complete: () => this.#finish({}),
    });
  }

  #take(signal: Signal): void {
    if (signal.type === 'commit') {
      this.state = signal.after;
      this.cause ??= signal.cause;
      for (const event of this.#options.projector.project(signal)) this.#queue.push(event);
    } else {
      const event = this.#options.projector.projectDelta(signal);
      if (event === undefined) return;
      this.#queue.push(event);
    }
    this.#show();
  }

  #finish(end: End): void {
    this.#end = end;
    this.#show();
  }

  /** Shows what is queued, in order, unless that is being done further up the stack. */
  #show(): void {
    if (this.#showing) return;
    this.#showing = true;
    do {
      for (let event = this.#queue.shift(); event; event = this.#queue.shift()) this.#showOne(event);
      for (const reader of this.#waiting.splice(0)) this.#admit(reader);
    } while (this.#queue.length > 0 || this.#waiting.length > 0);
    this.#showing = false;
    if (this.#end && !this.#ended) this.#close(this.#end);
  }

  #showOne(event: AgentEvent): void {
    if (event.cursor !== undefined) this.#log.push(this.#options.projector.later(event));
    for (const reader of this.#readers) reader.next(event);
  }

  #close(end: End): void {
    this.#ended = true;
    const readers = this.#readers;
    this.#readers = [];
    this.#options.onEnd(end.error);
    for (const reader of readers) finish(reader, end);
  }

  #attach(subscriber: Subscriber<AgentEvent>): void {
    subscriber.add(() => this.#detach(subscriber));
    if (!this.#connected) {
      this.#readers = [...this.#readers, subscriber];
      this.connect();
    } else if (this.#showing) {
      this.#waiting.push(subscriber);
    } else {
      this.#admit(subscriber);
    }
  }

  /** Tells a reader what it missed, and lets it in. */
  #admit(reader: Subscriber<AgentEvent>): void {
    if (reader.closed) return;
    const wasShowing = this.#showing;
    this.#showing = true;
    for (const event of this.#log) reader.next(event);
    const text = this.#end ? undefined : this.#options.projector.openText();
    if (text) reader.next(text);
    this.#showing = wasShowing;
    if (this.#ended && this.#end) return finish(reader, this.#end);
    if (reader.closed) this.#noticeIdle();
    else this.#readers = [...this.#readers, reader];
    if (!wasShowing) this.#show();
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
