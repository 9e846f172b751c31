import { Observable } from 'rxjs';
import {
  type AgentEvent,
  AgentLoopError,
  type ComparedByMembers,
  checkMessages,
  isSuspended,
  type Message,
  type Partially,
  type Tool,
} from '../core/contracts/index.ts';
import {
  EventProjector,
  type EventProjectorOptions,
  type LoopState,
  recordsOfAnswers,
  resultOf,
  type Signal,
  TurnError,
  type TurnResult,
} from '../core/journal/index.ts';
import {
  drains,
  isAtLastCall,
  type RunRequest,
  type SharedTurn,
  shareTurn,
  shutdownError,
} from '../core/turn/index.ts';
import { assertKnownOptions } from '../options/option-rules.ts';
import { iterate, iterateEvents } from './read-events.ts';
import { limitsFrom, recordedFor, type Steered } from './steered.ts';
import { eventsAfter, type TextOptions, TurnStream, textOfTurn, turnPartials } from './turn-stream.ts';

interface TurnOptions {
  readonly taskId: string;
  readonly contextId: string;
  readonly execution$: Observable<Signal>;
  readonly request: RunRequest;
  readonly projection: EventProjectorOptions;
  /** Starts at once, and continues when the last subscriber unsubscribes. */
  readonly detached: boolean;
  /** The cursor of the last event that the subscriber has received; only later events are emitted. */
  readonly from: string | undefined;
}

/** How an execution ended: with a record, or lost: this process no longer runs the turn, and wrote no record of its end. */
type End = { readonly lost: false } | { readonly lost: true; readonly cause: unknown };

/**
 * A turn: an Observable of its events, also async-iterable. Nothing runs before the first subscription or `result()`; it never
 * executes twice. Late subscribers receive a replay of the events of the records so far and the text so far, then live events. When the last
 * subscriber unsubscribes, the turn is cancelled, unless it is detached, or attached to a turn that another process runs.
 *
 * The stream completes after one `status-update` with `final: true`, also for a failed, cancelled or suspended turn. It errors only if this
 * process loses the turn (`FENCED`, `REWOUND`, `UNAVAILABLE`, …); the turn can then be resumed.
 *
 * `T`: the type of its structured output. `X`: the tools whose calls have typed events.
 */
export class Turn<T = unknown, X extends Tool = Tool>
  extends Observable<AgentEvent<X>>
  implements AsyncIterable<AgentEvent<X>>
{
  /** For the compiler only, never set: see `ComparedByMembers`. */
  declare readonly '~tools'?: ComparedByMembers<X>;
  readonly taskId: string;
  readonly #contextId: string;
  readonly #shared: SharedTurn<X>;
  readonly #request: RunRequest;
  #end: End | undefined;
  #endListeners: (() => void)[] = [];
  #started = false;

  private constructor(options: TurnOptions) {
    super((subscriber) => {
      this.#started = true;
      if (options.from === undefined) return this.#shared.attach(subscriber);
      return this.#shared.events$.pipe(eventsAfter(options.from)).subscribe(subscriber);
    });
    this.taskId = options.taskId;
    this.#contextId = options.contextId;
    this.#request = options.request;
    this.#shared = shareTurn(options.execution$, {
      projector: new EventProjector(options.projection),
      onIdle: () => {
        if (!options.detached) this.#leave();
      },
      onEnd: (error) => this.#settle(error),
    });
    if (options.detached) this.#start();
  }

  /** @internal */
  static of(options: TurnOptions): Turn {
    return new Turn(options);
  }

  /** The conversation that the turn belongs to; for a resumed turn, known once its journal is read. */
  get contextId(): string {
    return this.#shared.state?.turn.contextId ?? this.#contextId;
  }

  /** The state after the last event that was emitted; `undefined` before the first. */
  get state(): LoopState | undefined {
    return this.#shared.state;
  }

  /**
   * Live events, for observers: subscribing does not start the turn, and unsubscribing does not stop it. These subscribers receive each event
   * before the subscribers of the turn; the stream completes or errors as the turn does, before `result()` and `settled` settle.
   */
  get live$(): Observable<AgentEvent<X>> {
    return this.#shared.live$;
  }

  /**
   * The outcome of the turn. Starts it, but does not count as a subscriber: the turn is still cancelled when the last subscriber unsubscribes.
   * Resolves with the result of a completed or suspended turn. Rejects with a `TurnError`, which has a `code` and a partial `result`,
   * or with the error by which this process lost the turn.
   */
  result(): Promise<TurnResult<T>>;
  async result(): Promise<TurnResult> {
    this.#start();
    await this.#whenEnded();
    if (this.#end?.lost) throw this.#end.cause;
    return this.#outcome();
  }

  /**
   * The text of the turn as it streams, also for `for await`. The concatenated strings equal `result().allText`: each text after the first starts on
   * a new line. Excludes text of child turns and of tools' artifacts. Text that a failed model call or an extension discards is passed to
   * `onDiscard`; the concatenation still contains it.
   *
   * Counts as a subscriber of the turn: it starts it, a late one receives the text so far, and unsubscribing may cancel it. Completes if the turn
   * completes or suspends; errors as `result()` rejects. Memory: the text of the open model call, and text that a slow `for await` has not read.
   */
  text(options: TextOptions = {}): TurnStream<string> {
    return textOfTurn(this.#eventsOrError(), options);
  }

  /**
   * The partial value of the turn while the model generates it, also for `for await`: with each snapshot strings and arrays grow and
   * members appear; the last snapshot is the value. After a discarded attempt they start anew. Only the last snapshot is validated, and it
   * is the only one if the model answers in XML. A slow `for await` gets the latest snapshot, not each.
   *
   * Subscribes, completes and errors as `text` does. Errors: `INVALID_CONFIG` if the agent has no structured output.
   */
  partials(): TurnStream<Partially<T>>;
  partials(options: object = {}): TurnStream<unknown> {
    assertKnownOptions('turn.partials', options, {});
    const partials$ = turnPartials(this.#request.config)(this.#eventsOrError());
    return new TurnStream(partials$, () => iterate(partials$, (_, later) => later));
  }

  /**
   * Resolves when the turn has ended or suspended, its tools have stopped, its records are written and its spans ended. Rejects if this process
   * loses the turn.
   */
  get settled(): Promise<void> {
    const settled = this.#whenEnded().then(() => {
      if (this.#end?.lost) throw this.#end.cause;
    });
    settled.catch(() => {});
    return settled;
  }

  /**
   * Cancels the turn: its signals abort at once, running tools get `abortGraceMs`, then the record of the cancel is written. Returns
   * `settled`. Does nothing to a turn that has ended. A turn that is cancelled before it starts never calls the model.
   */
  cancel(reason = 'canceled'): Promise<void> {
    this.#abort(reason);
    return this.#started ? this.settled : Promise.resolve();
  }

  /**
   * Ends the turn here, for an agent that closes. Only a turn that this process runs and does not release is cancelled; one that another
   * process runs continues there, and errors here with `SHUTDOWN`. Resolves, and never rejects, once the turn has ended here.
   *
   * @internal
   */
  async leave(reason: string): Promise<void> {
    if (this.#request.inbox.forwards) this.#shared.leave(shutdownError(this.taskId));
    else if (!drains(this.#request)) this.#abort(reason);
    if (this.#started) await this.#whenEnded();
  }

  /**
   * Suspends the turn as soon as nothing runs: a model call and running tools finish first, no other starts. With a store the stream ends
   * with `input-required`, and `AgentLoop.resume` continues the turn. Without one the turn waits in this process, and `resume()` continues
   * it in the same stream. If the open model call turns out to be the last one, the turn completes instead.
   */
  pause(reason = 'paused'): void {
    this.#checkRunning();
    this.#request.inbox.requestPause(reason);
  }

  /**
   * Continues a paused turn that has no store, or revokes a pause that has not taken effect yet. Does nothing if no pause was requested. Errors:
   * `TERMINAL` for a turn that has ended or suspended; `AgentLoop.resume` continues a suspended one.
   */
  resume(): void {
    this.#checkNotSuspended('continue it with');
    this.#checkRunning();
    this.#request.inbox.resume();
  }

  /**
   * Adds a message to the history before the next model call; a turn that would have ended continues with it, unless it is at its limit: the
   * message then counts for the next turn. The result says which.
   */
  steer(message: Message): Steered {
    checkMessages([message]);
    this.#checkRunning();
    const expected = this.readsMessages ? 'this-turn' : 'next-turn';
    const steering = this.#request.inbox.steer(message);
    return {
      expected,
      countsFor: () => recordedFor(this.taskId, steering, this.#shared.records$),
    };
  }

  /**
   * Whether the turn is expected to read a message that it receives now.
   * @internal
   */
  get readsMessages(): boolean {
    const { reader } = this.#request.inbox;
    const { state } = this.#shared;
    if (reader) return !reader.isAtLastCall;
    return state === undefined || !isAtLastCall(limitsFrom(this.#request.config, state), state);
  }

  /**
   * Answers an open question of the turn, by its id, while other calls run; a suspended turn is answered with `AgentLoop.resume`. If two
   * answers arrive before one is recorded, the first counts; repeating an answer changes nothing. Errors: `INVALID_INPUT` if the question is
   * not open or the answer has the wrong form, `CONFLICT` if another answer is recorded, `TERMINAL` for a turn that has ended or suspended.
   */
  answer(questionId: string, answer: unknown): void {
    this.#checkNotSuspended('give the answer to');
    const { last } = this.#request.inbox;
    const wasAnswered = last?.answers.some(({ question }) => question.id === questionId) === true;
    if (!wasAnswered || this.#end) this.#checkRunning();
    // The emitted state may be older than answers that are already recorded or being written.
    const state = last ?? this.#shared.state;
    if (!state)
      throw new AgentLoopError('INVALID_INPUT', `Turn "${this.taskId}" has asked nothing yet; answer once it asks.`);
    if (recordsOfAnswers(state, { [questionId]: answer }).length > 0) this.#request.inbox.answer(questionId, answer);
  }

  /** The events of the turn. Subscribes at the first `next()`; `return()`, hence `break` in a `for await`, unsubscribes. */
  [Symbol.asyncIterator](): AsyncIterator<AgentEvent<X>> {
    return iterateEvents<AgentEvent<X>>(this);
  }

  /** The events, then an error if `result()` rejects. */
  #eventsOrError(): Observable<AgentEvent> {
    return new Observable((subscriber) =>
      this.subscribe({
        next: (event) => subscriber.next(event),
        error: (error: unknown) => subscriber.error(error),
        complete: () => {
          try {
            this.#outcome();
          } catch (error) {
            subscriber.error(error);
          }
          subscriber.complete();
        },
      }),
    );
  }

  #start(): void {
    this.#started = true;
    this.#shared.connect();
  }

  /**
   * The last subscriber has unsubscribed. A turn that another process owns is not cancelled: this only stops watching. Neither is one that
   * this process releases: a server that shuts down closes its connections.
   */
  #leave(): void {
    if (this.#request.inbox.forwards) {
      if (this.#endListeners.length === 0) this.#shared.disconnect();
    } else if (!drains(this.#request)) this.#abort('every subscriber left');
  }

  #abort(reason: string): void {
    if (!this.#end) this.#request.inbox.scope.abort(new AgentLoopError('CANCELED', reason, { taskId: this.taskId }));
  }

  #checkNotSuspended(what: string): void {
    const { state } = this.#shared;
    if (!state?.outcome || !isSuspended(state.outcome.state)) return;
    const message = `Turn "${this.taskId}" has suspended; ${what} AgentLoop.resume.`;
    throw new AgentLoopError('TERMINAL', message, { taskId: this.taskId });
  }

  #checkRunning(): void {
    if (!this.#end && !this.#request.inbox.last) return;
    throw new AgentLoopError('TERMINAL', `Turn "${this.taskId}" is over; start a new one.`, { taskId: this.taskId });
  }

  #settle(error: { readonly cause: unknown } | undefined): void {
    this.#request.inbox.scope.release();
    this.#end = error ? { lost: true, cause: error.cause } : { lost: false };
    for (const callback of this.#endListeners) callback();
    this.#endListeners = [];
  }

  #whenEnded(): Promise<void> {
    return this.#end ? Promise.resolve() : new Promise((resolve) => this.#endListeners.push(resolve));
  }

  /** The error of a turn that had failed before it was opened here: starting the same id again returns the same failure. */
  #earlierFailure({ code, message }: NonNullable<LoopState['error']>): NonNullable<LoopState['error']> {
    const { taskId } = this;
    const cure = `this is how task "${taskId}" ended before; AgentLoop.retry("${taskId}", config) continues it as a new task`;
    return { code, message: `${message.replace(/\.$/, '')} (${cure}).` };
  }

  #outcome(): TurnResult {
    const { state, cause, endedBefore } = this.#shared;
    if (!state)
      throw new AgentLoopError('INTERNAL', `Turn "${this.taskId}" ended without a record.`, { taskId: this.taskId });
    const result = resultOf(state);
    if (state.error) throw new TurnError(result, endedBefore ? this.#earlierFailure(state.error) : state.error, cause);
    if (result.status !== 'canceled') return result;
    const reason = result.reason?.replace(/\.$/, '');
    throw new TurnError(result, { code: 'CANCELED', message: `The turn was cancelled: ${reason}.` });
  }
}
