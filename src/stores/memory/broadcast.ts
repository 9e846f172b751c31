import type { Subscriber } from 'rxjs';

interface Reader<T> {
  readonly subscriber: Subscriber<T>;
  queue: T[];
  emitting: boolean;
  end: ((reader: Reader<T>) => void) | undefined;
}

/**
 * Hands values to readers: each reader gets every value once and in the same order, also where a reader emits, joins or
 * leaves from inside its own handler. A value waits only while its reader's handler runs; nothing is kept for later ones.
 */
export class Broadcast<T> {
  readonly #readers = new Set<Reader<T>>();

  /** How many readers there are. */
  get size(): number {
    return this.#readers.size;
  }

  /** Gives `first` to a new reader and then what is emitted from now on. Leaves when the subscriber is unsubscribed. */
  join(subscriber: Subscriber<T>, first: T[]): void {
    const reader: Reader<T> = { subscriber, queue: first, emitting: false, end: undefined };
    this.#readers.add(reader);
    subscriber.add(() => this.#readers.delete(reader));
    drain(reader);
  }

  emit(values: readonly T[]): void {
    // All queues first: a handler that emits puts its values behind these for every reader.
    for (const reader of this.#readers) for (const value of values) reader.queue.push(value);
    for (const reader of this.#readers) drain(reader);
  }

  /** Ends every reader once it has what was emitted before. */
  complete(): void {
    this.#end((reader) => reader.subscriber.complete());
  }

  error(error: unknown): void {
    this.#end((reader) => reader.subscriber.error(error));
  }

  #end(how: (reader: Reader<T>) => void): void {
    const readers = [...this.#readers];
    this.#readers.clear();
    for (const reader of readers) reader.end = how;
    for (const reader of readers) drain(reader);
  }
}

function drain<T>(reader: Reader<T>): void {
  if (reader.emitting) return;
  reader.emitting = true;
  // Also visits what the handler adds to the queue while it runs.
  for (const value of reader.queue) {
    if (reader.subscriber.closed) break;
    reader.subscriber.next(value);
  }
  reader.queue = [];
  reader.emitting = false;
  reader.end?.(reader);
}
