import type { Message } from './messages.ts';

/**
 * An append-only list of messages with cheap versions: appending gives a new `History` that shares the array of the old
 * one, and each version sees its own prefix. O(1) an append while only the newest version is appended to; an append to an
 * older one copies its prefix first.
 */
export class History implements Iterable<Message> {
  static readonly empty = new History([], 0);

  readonly length: number;
  readonly #log: Message[];

  private constructor(log: Message[], length: number) {
    this.#log = log;
    this.length = length;
  }

  static of(messages: readonly Message[]): History {
    return new History([...messages], messages.length);
  }

  append(message: Message): History {
    const log = this.#log.length === this.length && this.length > 0 ? this.#log : this.#log.slice(0, this.length);
    log.push(message);
    return new History(log, this.length + 1);
  }

  at(index: number): Message | undefined {
    return index < this.length ? this.#log[index] : undefined;
  }

  /** A new array of this version's messages, after `first` where one is given. */
  toArray(first?: Message): Message[] {
    const own = this.#log.length === this.length ? this.#log : this.#log.slice(0, this.length);
    return first === undefined ? own.slice() : [first, ...own];
  }

  *[Symbol.iterator](): Iterator<Message> {
    for (let index = 0; index < this.length; index++) yield this.#log[index] as Message;
  }
}
