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
  readonly #calls: CallIndex;

  private constructor(log: Message[], calls: CallIndex, hasInstructions: boolean) {
    this.#log = log;
    this.#calls = calls;
    this.length = log.length;
    this.hasInstructions = hasInstructions;
  }

  static of(messages: readonly Message[]): History {
    const log = [...messages];
    return new History(log, new CallIndex(log), messages.some(isInstruction));
  }

  append(message: Message): History {
    const isNewest = this.#log.length === this.length;
    const log = isNewest ? this.#log : this.#log.slice(0, this.length);
    log.push(message);
    return new History(
      log,
      isNewest ? this.#calls : new CallIndex(log),
      this.hasInstructions || isInstruction(message),
    );
  }

  /** A version with other messages at some places: O(n). */
  with(replacements: ReadonlyMap<number, Message>): History {
    return History.of(this.toArray().map((message, index) => replacements.get(index) ?? message));
  }

  /** Whether a tool call with that id is among its messages. Each message is looked at once for all versions. */
  hasCall(id: string): boolean {
    return this.#calls.placeOf(id) < this.length;
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

/** Where the ids of tool calls stand first in a log that grows. */
class CallIndex {
  readonly #log: readonly Message[];
  readonly #places = new Map<string, number>();
  #seen = 0;

  constructor(log: readonly Message[]) {
    this.#log = log;
  }

  /** Behind the end where no message has such a call. */
  placeOf(id: string): number {
    for (; this.#seen < this.#log.length; this.#seen++) {
      const message = this.#log[this.#seen];
      if (message?.role !== 'assistant') continue;
      for (const call of message.toolCalls ?? []) if (!this.#places.has(call.id)) this.#places.set(call.id, this.#seen);
    }
    return this.#places.get(id) ?? Number.POSITIVE_INFINITY;
  }
}

export function isInstruction(message: Message): boolean {
  return message.role === 'system' || message.role === 'developer';
}
