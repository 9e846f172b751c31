import { type Message, Pairing } from '../contracts/messages.ts';

/**
 * An append-only array of messages with cheap versions: `append` returns a new `History` that shares the array of the old
 * one, and each version reads its own prefix. An append to the newest version is O(1); an append to an
 * older one copies its prefix first.
 */
export class History implements Iterable<Message> {
  readonly length: number;
  /** Whether it contains a system or developer message. */
  readonly hasInstructions: boolean;
  readonly #log: Message[];
  readonly #index: LogIndex;

  private constructor(log: Message[], index: LogIndex, hasInstructions: boolean) {
    this.#log = log;
    this.#index = index;
    this.length = log.length;
    this.hasInstructions = hasInstructions;
  }

  /** `at`: when the messages arrived, in milliseconds since 1970. */
  static of(messages: readonly Message[], at = 0): History {
    return History.#of([...messages], new Array<number>(messages.length).fill(at), undefined);
  }

  static #of(log: Message[], times: number[], added: LogIndex['added']): History {
    return new History(log, { calls: undefined, pairing: undefined, times, added }, hasInstruction(log));
  }

  /** `at`: when the message arrived, in milliseconds since 1970. */
  append(message: Message, at = 0): History {
    const isNewest = this.#log.length === this.length;
    const log = isNewest ? this.#log : this.#log.slice(0, this.length);
    const index = isNewest
      ? this.#index
      : { ...noIndex, times: this.#index.times.slice(0, this.length), added: this.#index.added };
    log.push(message);
    index.times.push(at);
    return new History(log, index, this.hasInstructions || isInstruction(message));
  }

  /** A version with some messages replaced: O(n). */
  with(replacements: ReadonlyMap<number, Message>): History {
    const log = this.toArray().map((message, index) => replacements.get(index) ?? message);
    return History.#of(log, this.#index.times.slice(0, this.length), this.#index.added);
  }

  /** A version with a message inserted at a position: O(n). */
  insert(place: number, message: Message, at = 0): History {
    const log = this.toArray();
    return History.#of(
      log.toSpliced(place, 0, message),
      this.#index.times.slice(0, log.length).toSpliced(place, 0, at),
      this.#index.added,
    );
  }

  /** Whether a message contains a tool call with that id. Each message is scanned once for all versions. */
  hasCall(id: string): boolean {
    this.#index.calls ??= new CallIndex(this.#log);
    return this.#index.calls.placeOf(id) < this.length;
  }

  /** True if each call is followed by its results, and each result has its call. False may also mean: unknown for this version. */
  get isPaired(): boolean {
    this.#index.pairing ??= new Pairing(this.#log);
    return this.#index.pairing.isWhole(this.length);
  }

  /** The message at a position, from 0; `undefined` beyond the end. */
  at(index: number): Message | undefined {
    return index < this.length ? this.#log[index] : undefined;
  }

  /** When the message at that index arrived, in milliseconds since 1970; `undefined` beyond the end. */
  timeAt(index: number): number | undefined {
    return index < this.length ? this.#index.times[index] : undefined;
  }

  /** Notes that an extension added these messages, for this version and all made of it. */
  noteAdded(messages: readonly Message[]): void {
    this.#index.added ??= new Set();
    for (const message of messages) this.#index.added.add(message);
  }

  /** Whether extensions added messages. */
  get hasAdded(): boolean {
    return this.#index.added !== undefined;
  }

  /** Whether an extension added the message, not the caller. */
  isAdded(message: Message): boolean {
    return this.#index.added?.has(message) ?? false;
  }

  /** A new array of this version's messages; `from`: without those before that position. */
  toArray(from = 0): Message[] {
    return this.#log.slice(from, this.length);
  }

  /** The messages, the oldest first. */
  [Symbol.iterator](): Iterator<Message> {
    return this.toArray()[Symbol.iterator]();
  }
}

/** Indexes of a log that all its versions share; created on first use. */
interface LogIndex {
  calls: CallIndex | undefined;
  pairing: Pairing | undefined;
  /** When each message arrived, in milliseconds since 1970. */
  readonly times: number[];
  /** The messages that extensions added. */
  added: Set<Message> | undefined;
}

const noIndex = { calls: undefined, pairing: undefined } as const;

/** The first positions of tool call ids in a growing log. */
class CallIndex {
  readonly #log: readonly Message[];
  readonly #places = new Map<string, number>();
  #seen = 0;

  constructor(log: readonly Message[]) {
    this.#log = log;
  }

  /** The position of the message with the call; the length of the log if there is none. */
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

function hasInstruction(messages: readonly Message[]): boolean {
  for (const { role } of messages) if (role === 'system' || role === 'developer') return true;
  return false;
}

interface Change<T> {
  readonly index: number;
  readonly before: T;
  readonly newer: PersistentArray<T>;
}

/**
 * An array of fixed length with cheap versions: `with` returns a new version in O(1), and this one keeps its elements. The newest version holds
 * all elements; an older version holds its first later change, and a reference to the version with that change. So recent versions
 * are read nearly as fast, and old ones cost a step per change since.
 */
export class PersistentArray<T> {
  // Declared only: a defined member is written twice.
  declare readonly length: number;
  /** Set in the newest version only. */
  declare private elements: T[] | undefined;
  declare private change: Change<T> | undefined;
  declare private copy: readonly T[] | undefined;

  /** Takes ownership of the array. */
  constructor(elements: T[]) {
    this.length = elements.length;
    this.elements = elements;
    this.change = undefined;
    this.copy = undefined;
  }

  /** The element at a position, from 0; `undefined` beyond the end. */
  at(index: number): T | undefined {
    let version: PersistentArray<T> = this;
    while (version.change) {
      if (version.change.index === index) return version.change.before;
      version = version.change.newer;
    }
    return version.elements?.[index];
  }

  /** A version with another element at `index`. O(length) if this version has a newer one already. */
  with(index: number, element: T): PersistentArray<T> {
    const elements = this.elements ?? [...this.list];
    const newer = new PersistentArray(elements);
    if (this.elements) {
      this.change = { index, before: elements[index] as T, newer };
      this.elements = undefined;
    }
    elements[index] = element;
    return newer;
  }

  /** All elements, as an immutable array. Copied once per version. */
  get list(): readonly T[] {
    this.copy ??= this.#copied();
    return this.copy;
  }

  #copied(): readonly T[] {
    let version: PersistentArray<T> = this;
    const changes: Change<T>[] = [];
    while (version.change) {
      changes.push(version.change);
      version = version.change.newer;
    }
    const list = (version.elements ?? []).slice();
    for (const { index, before } of changes.reverse()) list[index] = before;
    return list;
  }
}

/**
 * The ids of the commands that a turn has applied, in order: append-only, with cheap versions that share one map, each of which reads
 * its own prefix. An append to the newest version is O(1); an append to an older one copies its prefix first.
 */
export class CommandIds {
  /** No commands. */
  static readonly none = new CommandIds(new Map(), 0);
  readonly length: number;
  readonly #places: Map<string, number>;

  private constructor(places: Map<string, number>, length: number) {
    this.#places = places;
    this.length = length;
  }

  /** Appending a known id changes nothing. */
  append(id: string): CommandIds {
    if (this.has(id)) return this;
    const isNewest = this.length > 0 && this.#places.size === this.length;
    const places = isNewest ? this.#places : new Map([...this.#places].slice(0, this.length));
    places.set(id, this.length);
    return new CommandIds(places, this.length + 1);
  }

  /** Whether the turn has applied this command. */
  has(id: string): boolean {
    return (this.#places.get(id) ?? this.length) < this.length;
  }

  /** Whether an id matches. */
  some(matches: (id: string) => boolean): boolean {
    for (const [id, place] of this.#places) {
      if (place >= this.length) return false;
      if (matches(id)) return true;
    }
    return false;
  }
}
