import {
  EMPTY,
  filter,
  groupBy,
  identity,
  type MonoTypeOperatorFunction,
  mergeMap,
  Observable,
  type OperatorFunction,
  throwError,
} from 'rxjs';
import {
  type AgentEvent,
  type AgentLoopConfig,
  type ArtifactUpdateEvent,
  type Clock,
  invalidConfig,
  partsText,
  type SubAgentStep,
  systemClock,
  type TaskStateStore,
} from '../core/contracts/index.ts';
import { GrowingText, observeTurn, projectEvents, type Signal } from '../core/journal/index.ts';
import { assertKnownOptions, checkStore } from '../options/option-rules.ts';
import { checkTaskId } from '../options/turn-options.ts';
import { observeTree } from './observe-tree.ts';
import { isAfterCursor, iterate, iterateEvents, seqOf } from './read-events.ts';

/** Emitted text that was discarded: the model call failed and is retried, or an extension replaced its answer. */
export interface DiscardedText {
  /** All emitted text of that answer. The replacement starts on a new line. */
  readonly text: string;
  /** The reason, if known: `PROVIDER_UNAVAILABLE`, … */
  readonly reason: string | undefined;
}

/** Options of `turn.text()`. */
export interface TextOptions {
  /**
   * Called with emitted text that was discarded, in order with the emitted strings. Without it the discarded text stays displayed, and
   * its replacement starts on a new line.
   */
  readonly onDiscard?: ((discarded: DiscardedText) => void) | undefined;
}

/** An Observable that is also async-iterable. Leaving a `for await` loop unsubscribes. */
export class TurnStream<T> extends Observable<T> implements AsyncIterable<T> {
  readonly #iterator: () => AsyncIterator<T>;

  /** @internal `iterator` creates the iterator of `for await`. */
  constructor(source$: Observable<T>, iterator: () => AsyncIterator<T>) {
    super((subscriber) => source$.subscribe(subscriber));
    this.#iterator = iterator;
  }

  /** Subscribes at the first `next()`. `return()`, hence `break` in a `for await`, unsubscribes. */
  [Symbol.asyncIterator](): AsyncIterator<T> {
    return this.#iterator();
  }
}

type Piece = string | DiscardedText;

/** Implements `Turn.text` over the events of a turn. */
export function textOfTurn(events$: Observable<AgentEvent>, options: TextOptions): TurnStream<string> {
  assertKnownOptions('turn.text', options, { onDiscard: true });
  const { onDiscard } = options;
  const pieces$ = new Observable<Piece>((subscriber) => {
    const reader = new TextReader((piece) => subscriber.next(piece));
    return events$.subscribe({
      next: (event) => reader.take(event),
      error: (error: unknown) => subscriber.error(error),
      complete: () => subscriber.complete(),
    });
  });
  const isText = (piece: Piece): piece is string => {
    if (typeof piece === 'string') return true;
    onDiscard?.(piece);
    return false;
  };
  return new TurnStream(pieces$.pipe(filter(isText)), () => iterateText(pieces$, isText));
}

/** Calls `onDiscard` when the reader requests the next text, so that it has processed the earlier ones. */
function iterateText(pieces$: Observable<Piece>, isText: (piece: Piece) => piece is string): AsyncIterator<string> {
  const pieces = iterate(pieces$, merged);
  return {
    async next() {
      for (;;) {
        const { done, value } = await pieces.next();
        if (done) return { done, value };
        try {
          if (isText(value)) return { done: false, value };
        } catch (error) {
          await pieces.return();
          throw error;
        }
      }
    },
    async return() {
      await pieces.return();
      return { done: true, value: undefined };
    },
  };
}

function merged(first: Piece, second: Piece): Piece | undefined {
  return typeof first === 'string' && typeof second === 'string' ? first + second : undefined;
}

const answer = /^answer-\d+$/;

/** Extracts the turn's own text, without that of child turns and tools' artifacts. Memory: the text of the open model call. */
class TextReader {
  readonly #emit: (piece: Piece) => void;
  #artifactId = '';
  /** Whether the artifact has received its last chunk; true before the first artifact. */
  #closed = true;
  /** The emitted text of the open artifact. */
  readonly #shown = new GrowingText();
  #hasEmitted = false;

  constructor(emit: (piece: Piece) => void) {
    this.#emit = emit;
  }

  take(event: AgentEvent): void {
    if (event.kind === 'artifact-update') this.#takeChunk(event);
    else if (event.kind === 'internal:llm-attempt-discarded') this.#discard(event.reason);
  }

  #takeChunk({ artifact: { artifactId, parts }, append, lastChunk }: ArtifactUpdateEvent): void {
    if (artifactId !== this.#artifactId) {
      if (!answer.test(artifactId)) return;
      this.#artifactId = artifactId;
    } else if (!append && !this.#closed) {
      this.#discard('replaced');
    }
    const text = partsText(parts);
    this.#closed = lastChunk;
    if (text !== '') this.#emitText(text);
    if (lastChunk) this.#shown.clear();
  }

  #emitText(text: string): void {
    const first = this.#shown.isEmpty;
    this.#shown.add(text);
    this.#emit(first && this.#hasEmitted ? `\n${text}` : text);
    this.#hasEmitted = true;
  }

  #discard(reason: string | undefined): void {
    if (this.#shown.isEmpty) return;
    const text = this.#shown.toString();
    this.#shown.clear();
    this.#emit({ text, reason });
  }
}

/** Options of `AgentLoop.observe`. */
export interface ObserveOptions {
  /** Where the turn is. */
  readonly store: TaskStateStore;
  /** The `cursor` of the last received event; only later events are emitted. Default: from the start. */
  readonly from?: string | undefined;
  /**
   * Also emits the events of child turns, at any depth, as `internal:sub-agent`, as the process that runs the turn emits them. A child turn
   * that was open at `from` is replayed from its beginning: skip known events by `(event.taskId, event.cursor)` of the wrapped event.
   * Default false.
   */
  readonly descendants?: boolean | undefined;
  /** How long to wait for a response of the store. Milliseconds; default 30,000. */
  readonly storeDeadlineMs?: number | undefined;
  /** Replaced in tests. Default: the system clock. */
  readonly clock?: Clock | undefined;
}

/** Implements `AgentLoop.observe`; `around` is piped between the journal and the events. */
export function observeEvents(
  taskId: string,
  options: ObserveOptions,
  around: MonoTypeOperatorFunction<Signal> = identity,
): TurnStream<AgentEvent> {
  checkTaskId(taskId);
  const { store, clock = systemClock, storeDeadlineMs: ms = 30_000 } = options ?? {};
  checkStore('store', store);
  const deadline = { clock, ms };
  const signals$ = options.descendants
    ? observeTree(store, taskId, { deadline, known: seqOf(options.from) })
    : observeTurn(store, taskId, deadline);
  const events$ = signals$.pipe(
    around,
    projectEvents({ checkpoints: true, now: () => clock.now() }),
    eventsAfter<AgentEvent>(options.from),
  );
  return new TurnStream(events$, () => iterateEvents(events$));
}

/** Only the events after a cursor, and deltas. Throws `INVALID_INPUT` for an invalid cursor. */
export function eventsAfter<E extends AgentEvent>(cursor: string | undefined): MonoTypeOperatorFunction<E> {
  return cursor === undefined ? (source) => source : filter<E>(isAfterCursor(cursor));
}

/** A chunk of text of an artifact, of the turn or of one of its descendants. */
export interface AgentText {
  /** From the child turn of this turn to the turn of the text; empty for the turn's own text. */
  readonly path: readonly SubAgentStep[];
  readonly artifactId: string;
  readonly text: string;
  /** False: replaces the text of this path's artifact. */
  readonly append: boolean;
  /** Whether this completes the text. */
  readonly lastChunk: boolean;
}

const own: readonly SubAgentStep[] = [];

/**
 * The text of a turn and of its descendants as it streams: `turn.pipe(agentText())`. Emits one value per artifact event, in the order of
 * the events, including the last, empty chunk of an artifact. `path` and `artifactId` together identify an artifact.
 *
 * Completes and errors as the source does. Unsubscribing unsubscribes from the source. Buffers nothing.
 */
export function agentText(): OperatorFunction<AgentEvent, AgentText> {
  return mergeMap((event) => {
    const nested = event.kind === 'internal:sub-agent';
    const { path, shown } = nested ? { path: event.path, shown: event.event } : { path: own, shown: event };
    if (shown.kind !== 'artifact-update') return [];
    const { artifact, append, lastChunk } = shown;
    const text = partsText(artifact.parts);
    return [{ path, artifactId: artifact.artifactId, text, append, lastChunk }];
  });
}

/** Parses the partial values of a turn while the model generates them, each agent's with its own extensions. */
export function turnPartials({ extensions = [], agents }: Pick<AgentLoopConfig, 'extensions' | 'agents'>) {
  const readerOf = (agentId: string) =>
    [...extensions, ...(agents?.(agentId)?.extensions ?? [])].find((extension) => extension.partials);
  return (events$: Observable<AgentEvent>): Observable<unknown> => {
    if (!agents && !readerOf('')) return throwError(noOutput);
    return events$.pipe(
      filter(({ kind }) => kind !== 'internal:sub-agent'),
      groupBy(({ agentId }) => agentId),
      mergeMap((ofAgent$) => readerOf(ofAgent$.key)?.partials?.(ofAgent$) ?? EMPTY),
    );
  };
}

function noOutput(): Error {
  return invalidConfig(
    'partials needs an agent with structured output',
    'give output: { schema }, or the extension structuredOutput({ schema })',
  );
}
