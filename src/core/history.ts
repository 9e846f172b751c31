import type { Message } from './messages.ts';

/**
 * An append-only list of messages with cheap versions: appending gives a new `History` that shares the array of the old
 * one, and each version sees its own prefix. O(1) an append while only the newest version is appended to; an append to an
 * older one copies its prefix first.
 */
export class History implements Iterable<Message> {
  readonly length: number;
  /** Whether a system or developer message is among them. */
  readonly hasInstructions: boolean;
  readonly #log: Message[];

  private constructor(log: Message[], hasInstructions: boolean) {
    this.#log = log;
    this.length = log.length;
    this.hasInstructions = hasInstructions;
  }

  static of(messages: readonly Message[]): History {
    return new History([...messages], messages.some(isInstruction));
  }

  append(message: Message): History {
    const log = this.#log.length === this.length ? this.#log : this.#log.slice(0, this.length);
    log.push(message);
    return new History(log, this.hasInstructions || isInstruction(message));
  }

  /** A version with other messages at some places: O(n). */
  with(replacements: ReadonlyMap<number, Message>): History {
    return History.of(this.toArray().map((message, index) => replacements.get(index) ?? message));
  }

  at(index: number): Message | undefined {
    return index < this.length ? this.#log[index] : undefined;
  }

  /** A new array of this version's messages. */
  toArray(): Message[] {
    return this.#log.slice(0, this.length);
  }

  [Symbol.iterator](): Iterator<Message> {
    return this.toArray()[Symbol.iterator]();
  }
}

export function isInstruction(message: Message): boolean {
  return message.role === 'system' || message.role === 'developer';
}
