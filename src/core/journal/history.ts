import { type Message, Pairing } from '../contracts/messages.ts';

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
  readonly #index: LogIndex;

  private constructor(log: Message[], index: LogIndex, hasInstructions: boolean) {
    this.#log = log;
    this.#index = index;
    this.length = log.length;
    this.hasInstructions = hasInstructions;
  }

  /** `at`: when the messages came, in milliseconds since 1970. */
  static of(messages: readonly Message[], at = 0): History {
    return History.#of([...messages], new Array<number>(messages.length).fill(at));
  }

  static #of(log: Message[], times: number[]): History {
    return new History(log, indexOf(log, times), log.some(isInstruction));
  }

  /** `at`: when the message came, in milliseconds since 1970. */
  append(message: Message, at = 0): History {
    const isNewest = this.#log.length === this.length;
    const log = isNewest ? this.#log : this.#log.slice(0, this.length);
    const index = isNewest ? this.#index : indexOf(log, this.#index.times.slice(0, this.length));
    log.push(message);
    index.times.push(at);
    return new History(log, index, this.hasInstructions || isInstruction(message));
  }

  /** A version with other messages at some places: O(n). */
  with(replacements: ReadonlyMap<number, Message>): History {
    const log = this.toArray().map((message, index) => replacements.get(index) ?? message);
    return History.#of(log, this.#index.times.slice(0, this.length));
  }

  /** Whether a tool call with that id is among its messages. Each message is looked at once for all versions. */
  hasCall(id: string): boolean {
    return this.#index.calls.placeOf(id) < this.length;
  }

  /** True if each call is followed by its results, and each result has its call. False may also mean: not known for this version. */
  get isPaired(): boolean {
    return this.#index.pairing.isWhole(this.length);
  }

  at(index: number): Message | undefined {
    return index < this.length ? this.#log[index] : undefined;
  }

  /** When the message at that index came, in milliseconds since 1970; `undefined` where there is none. */
  timeAt(index: number): number | undefined {
    return index < this.length ? this.#index.times[index] : undefined;
  }

  /** A new array of this version's messages. */
  toArray(): Message[] {
    return this.#log.slice(0, this.length);
  }

  [Symbol.iterator](): Iterator<Message> {
    return this.toArray()[Symbol.iterator]();
  }
}

/** What all versions of a log know of its messages. */
interface LogIndex {
  readonly calls: CallIndex;
  readonly pairing: Pairing;
  /** When each message came, in milliseconds since 1970. */
  readonly times: number[];
}

function indexOf(log: readonly Message[], times: number[]): LogIndex {
  return { calls: new CallIndex(log), pairing: new Pairing(log), times };
}

/** Where the ids of tool calls stand first in a log that grows. */
class CallIndex {
  readonly #log: readonly Message[];
  readonly #places = new Map<string, number>();
  #seen = 0;

  constructor(log: readonly Message[]) {
    this.#log = log;
  }

  /** The length of the history if no message has such a call. */
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
