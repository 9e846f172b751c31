import type { Observable, Subscription } from 'rxjs';
import {
  type AgentEvent,
  AgentLoopError,
  type ArtifactUpdateEvent,
  isTerminalState,
  shownValue,
} from '../core/contracts/index.ts';

// Loads no package: `millrace/ui` brings this file to browsers.

const cursorPattern = /^(\d+)-(\d+)\.(\d+)$/;

/**
 * Whether an event comes after a cursor; always true for a delta, which has none. Throws `INVALID_INPUT` for an invalid cursor, and at the end of a
 * turn that has no such record: the cursor is of another turn.
 */
export function isAfterCursor(cursor: string): (event: AgentEvent) => boolean {
  const from = placeOf(cursor);
  return (event) => {
    if (event.cursor === undefined) return true;
    const { seq, n } = placeOf(event.cursor);
    // A reader of what is new only asks from the next record on.
    if (seq + 1 < from.seq && event.kind === 'status-update' && isTerminalState(event.status.state)) {
      const problem = `Cursor "${cursor}" is after the end of turn "${event.taskId}", "${event.cursor}"`;
      throw new AgentLoopError(
        'INVALID_INPUT',
        `${problem}; pass a cursor of this turn, or none to read from the start.`,
      );
    }
    return seq > from.seq || (seq === from.seq && n > from.n);
  };
}

/** The record of a cursor; 0 without a cursor. Throws `INVALID_INPUT` for an invalid cursor. */
export function seqOf(cursor: string | undefined): number {
  return cursor === undefined ? 0 : placeOf(cursor).seq;
}

function placeOf(cursor: string): { readonly seq: number; readonly n: number } {
  const match = typeof cursor === 'string' ? cursorPattern.exec(cursor) : undefined;
  if (match) return { seq: Number(match[1]), n: Number(match[3]) };
  throw new AgentLoopError(
    'INVALID_INPUT',
    `${shownValue(cursor)} is not a cursor; pass the cursor of an event, e.g. "12-1.2".`,
  );
}

/**
 * The async iterator of a turn's events. Subscribes at the first `next`; leaving the loop unsubscribes, and so does `return()` while
 * a `next` is pending. Buffers events that were not read yet, merging adjacent text deltas, so a slow reader holds
 * the text and the records, not every delta. Throws if the turn is lost.
 */
export function iterateEvents<E extends AgentEvent>(events$: Observable<E>): TurnIterator<E>;
export function iterateEvents(events$: Observable<AgentEvent>): TurnIterator<AgentEvent> {
  return iterate(events$, merge);
}

/**
 * The async iterator of any stream, as `iterateEvents`. `merge` combines two adjacent buffered values, or returns `undefined` to
 * keep both.
 */
export function iterate<T>(source$: Observable<T>, merge: (first: T, second: T) => T | undefined): TurnIterator<T> {
  return new StreamIterator(source$, merge);
}

/** Declared without the second parameter of `AsyncIterableIterator`, which TypeScript supports since 5.6. */
interface TurnIterator<T> extends AsyncIterableIterator<T> {
  next(): Promise<IteratorResult<T, undefined>>;
  return(): Promise<IteratorResult<T, undefined>>;
}

/** A pending call of `next`. */
interface Waiter<T> {
  readonly resolve: (answer: IteratorResult<T, undefined>) => void;
  readonly reject: (error: unknown) => void;
}

interface End {
  readonly failure?: { readonly error: unknown };
}

const over: End = {};
const done: IteratorResult<never, undefined> = { done: true, value: undefined };

/** Not a generator: a generator's `return()` waits for a pending `next()`, so a silent turn could not be left. */
class StreamIterator<T> implements TurnIterator<T> {
  readonly #source$: Observable<T>;
  readonly #merge: (first: T, second: T) => T | undefined;
  readonly #values: T[] = [];
  readonly #waiters: Waiter<T>[] = [];
  #subscription: Subscription | undefined;
  #end: End | undefined;

  constructor(source$: Observable<T>, merge: (first: T, second: T) => T | undefined) {
    this.#source$ = source$;
    this.#merge = merge;
  }

  next(): Promise<IteratorResult<T, undefined>> {
    if (!this.#end) this.#subscription ??= this.#subscribe();
    const [value] = this.#values;
    if (value !== undefined) {
      this.#values.shift();
      return Promise.resolve({ done: false, value });
    }
    const waits = new Promise<IteratorResult<T, undefined>>((resolve, reject) =>
      this.#waiters.push({ resolve, reject }),
    );
    if (this.#end) this.#dismiss(this.#end);
    return waits;
  }

  return(): Promise<IteratorResult<T, undefined>> {
    this.#values.length = 0;
    this.#dismiss(over);
    this.#subscription?.unsubscribe();
    return Promise.resolve(done);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #subscribe(): Subscription {
    return this.#source$.subscribe({
      next: (value) => this.#take(value),
      error: (error: unknown) => this.#dismiss({ failure: { error } }),
      complete: () => this.#dismiss(over),
    });
  }

  #take(value: T): void {
    const waiter = this.#waiters.shift();
    if (waiter) return waiter.resolve({ done: false, value });
    const last = this.#values.at(-1);
    const merged = last === undefined ? undefined : this.#merge(last, value);
    if (merged !== undefined) this.#values[this.#values.length - 1] = merged;
    else this.#values.push(value);
  }

  /** The stream has ended: settles pending and later reads; the first of them rejects with the error, if any. */
  #dismiss(end: End): void {
    this.#end = end;
    for (const waiter of this.#waiters.splice(0)) {
      const { failure } = this.#end;
      this.#end = over;
      if (failure) waiter.reject(failure.error);
      else waiter.resolve(done);
    }
  }
}

/** Merges two events if they are deltas of the same text. */
function merge(first: AgentEvent, second: AgentEvent): AgentEvent | undefined {
  if (first.kind === 'artifact-update' && second.kind === 'artifact-update') return mergeText(first, second);
  if (first.kind === 'internal:reasoning-delta' && second.kind === 'internal:reasoning-delta') {
    return first.iteration === second.iteration ? { ...first, text: first.text + second.text } : undefined;
  }
  if (first.kind === 'internal:tool-call-delta' && second.kind === 'internal:tool-call-delta') {
    const same = first.iteration === second.iteration && first.index === second.index;
    return same ? { ...first, arguments: first.arguments + second.arguments } : undefined;
  }
  return undefined;
}

function mergeText(first: ArtifactUpdateEvent, second: ArtifactUpdateEvent): AgentEvent | undefined {
  if (!second.append || second.lastChunk || first.lastChunk) return undefined;
  if (first.artifact.artifactId !== second.artifact.artifactId) return undefined;
  const [a, b] = [first.artifact.parts[0], second.artifact.parts[0]];
  if (a?.kind !== 'text' || b?.kind !== 'text') return undefined;
  return { ...first, artifact: { ...first.artifact, parts: [{ kind: 'text', text: a.text + b.text }] } };
}
