import { isDeepStrictEqual } from 'node:util';
import { Observable, type Subscriber } from 'rxjs';
import { type AgentEvent, type Partially, partsText } from '../../core/contracts/index.ts';
import { GrowingText } from '../../core/journal/index.ts';

interface PartialsOptions {
  /** The name of the finish tool. */
  readonly name: string;
  /** Whether the output is the text of the answer. */
  readonly inText: boolean;
  /** Extracts the output from the model's JSON; `undefined` if it contains none yet. */
  readonly unwrap: (wrapped: unknown) => unknown;
}

/** Implements `StructuredOutput.partials`. */
export function partialsOf<T>(turn: Observable<AgentEvent>, options: PartialsOptions): Observable<Partially<T>> {
  return new Observable((subscriber) => {
    const reader = new OutputReader<T>(subscriber, options);
    return turn.subscribe({
      next: (event) => reader.take(event),
      error: (error: unknown) => subscriber.error(error),
      complete: () => subscriber.complete(),
    });
  });
}

class OutputReader<T> {
  readonly #out: Subscriber<Partially<T>>;
  readonly #options: PartialsOptions;
  /** The outputs of the current attempt, by the index of their call. */
  readonly #parts = new Map<number, PartialJson<T>>();
  #shown: unknown;

  constructor(out: Subscriber<Partially<T>>, options: PartialsOptions) {
    this.#out = out;
    this.#options = options;
  }

  take(event: AgentEvent): void {
    switch (event.kind) {
      case 'internal:llm-call':
      case 'internal:llm-attempt-discarded':
        return this.#parts.clear();
      case 'internal:tool-call-delta':
        if (event.toolName === this.#options.name) this.#open(event.index);
        return this.#push(event.index, event.arguments);
      case 'internal:tool-start':
        if (event.toolName === this.#options.name) this.#show(event.arguments);
        return;
      case 'artifact-update':
        if (this.#options.inText) this.#takeText(event);
        return;
      default:
        event.kind satisfies
          | 'task'
          | 'status-update'
          | 'internal:iteration-start'
          | 'internal:iteration-complete'
          | 'internal:llm-response'
          | 'internal:reasoning-delta'
          | 'internal:tool-progress'
          | 'internal:tool-complete'
          | 'internal:checkpoint'
          | 'internal:paused'
          | 'internal:resumed'
          | 'internal:sub-agent'
          | 'internal:extension-error'
          | `internal:x.${string}`;
        return;
    }
  }

  #takeText({ append, artifact }: Extract<AgentEvent, { kind: 'artifact-update' }>): void {
    if (!append) this.#parts.set(0, partialJson());
    const text = partsText(artifact.parts);
    this.#push(0, text);
  }

  /** Some vendors repeat the name with each fragment. */
  #open(index: number): void {
    if (!this.#parts.has(index)) this.#parts.set(index, partialJson());
  }

  #push(index: number, fragment: string): void {
    const part = this.#parts.get(index);
    part?.push(fragment);
    this.#show(part?.value);
  }

  #show(wrapped: unknown): void {
    const value = this.#options.unwrap(wrapped);
    if (!isOutput<T>(value) || isDeepStrictEqual(value, this.#shown)) return;
    this.#shown = value;
    this.#out.next(value);
  }
}

/** Not validated: only the arguments of a call that runs have passed the schema. */
function isOutput<T>(value: unknown): value is Partially<T> {
  return value !== undefined;
}

interface PartialJson<T> {
  /** Appends the next fragment of the text, cut anywhere. Linear in the fragment. */
  push(fragment: string): void;
  /**
   * The value of the text so far, a new object whenever it has grown; `undefined` before the first bracket. Parsed
   * on access, in time linear in the whole text: read it as often as it is displayed, not for each fragment.
   */
  readonly value: Partially<T> | undefined;
  /** Whether the outermost bracket is closed: `value` then equals `JSON.parse` of the text up to there. */
  readonly complete: boolean;
}

/**
 * Parses a JSON object or array while it is streamed, such as the arguments of a tool call. Values only grow:
 * strings and arrays grow, properties appear, none is removed or changed. A string appears with its
 * first quote, half an escape or half a surrogate pair is held back; a number, `true`, `false` or `null` appears once
 * the character after it has arrived. Exception: of a name that is repeated in one object, the last value counts.
 *
 * Nothing is validated against a schema: `T` is the caller's assertion. Invalid JSON does not throw: the
 * value stays unchanged. Memory: the text.
 */
export function partialJson<T>(): PartialJson<T> {
  const prefix = new JsonPrefix();
  let value: Partially<T> | undefined;
  let readFrom: string | undefined;
  return {
    push: (fragment) => prefix.push(fragment),
    get value() {
      const closed = prefix.closed();
      if (closed !== undefined && closed !== readFrom) value = parsed(closed, value);
      readFrom = closed;
      return value;
    },
    get complete() {
      return prefix.complete;
    },
  };
}

function parsed<Value>(text: string, before: Value): Value {
  try {
    return JSON.parse(text);
  } catch {
    return before;
  }
}

const opening: Readonly<Record<string, string>> = { '{': '}', '[': ']' };

/** The syntactic positions that the next character can belong to. */
type Within = 'structure' | 'string' | 'escape' | 'word';

/**
 * A growing JSON text, and how to close it: after each character it knows up to where the text is whole values, and which
 * brackets are open. One pass, linear, for any fragments.
 */
class JsonPrefix {
  readonly #text = new GrowingText();
  #within: Within = 'structure';
  /** The missing closing brackets, the outermost first. */
  readonly #open: string[] = [];
  /** Whether the next string of the innermost object is a name. */
  #nameNext = false;
  #inName = false;
  /** The digits of an incomplete `\u` escape. */
  #digits: string | undefined;
  #wholeTo = 0;
  /** Whether the text is whole up to a position within a string. */
  #wholeInString = false;
  #complete = false;

  /** Whether the outermost bracket is closed. */
  get complete(): boolean {
    return this.#complete;
  }

  push(fragment: string): void {
    const from = this.#text.length;
    this.#text.add(fragment);
    for (let index = 0; index < fragment.length && !this.#complete; index++) {
      this.#take(fragment[index] ?? '', from + index);
    }
  }

  /** The text up to its last whole value or character, with all brackets closed. `undefined` if there is none. */
  closed(): string | undefined {
    if (this.#wholeTo === 0) return undefined;
    const quote = this.#wholeInString ? '"' : '';
    return this.#text.slice(0, this.#wholeTo) + quote + this.#open.toReversed().join('');
  }

  #take(character: string, index: number): void {
    if (this.#within === 'escape') this.#takeEscape(character, index);
    else if (this.#within === 'string') this.#takeString(character, index);
    else this.#takeStructure(character, index);
  }

  #takeStructure(character: string, index: number): void {
    const ends = ' \n\r\t,]}'.includes(character);
    if (this.#within === 'word' && ends) {
      this.#within = 'structure';
      this.#isWhole(index);
    }
    if (character === '"') this.#openString(index);
    else if (character === ',') this.#nameNext = this.#open.at(-1) === '}';
    else if (character === ':') this.#nameNext = false;
    else if (character in opening) this.#openBracket(character, index);
    else if (character === ']' || character === '}') this.#closeBracket(index);
    else if (!ends) this.#within = 'word';
  }

  #openBracket(character: string, index: number): void {
    this.#open.push(opening[character] ?? '');
    this.#nameNext = character === '{';
    this.#isWhole(index + 1);
  }

  #closeBracket(index: number): void {
    this.#open.pop();
    this.#nameNext = false;
    this.#isWhole(index + 1);
    this.#complete = this.#open.length === 0;
  }

  #openString(index: number): void {
    this.#within = 'string';
    this.#inName = this.#nameNext;
    this.#stringIsWhole(index + 1);
  }

  #takeString(character: string, index: number): void {
    if (character === '\\') {
      this.#within = 'escape';
    } else if (character !== '"') {
      if (!isHighSurrogate(character.charCodeAt(0))) this.#stringIsWhole(index + 1);
    } else {
      this.#within = 'structure';
      if (!this.#inName) this.#isWhole(index + 1);
    }
  }

  #takeEscape(character: string, index: number): void {
    if (this.#digits === undefined && character === 'u') {
      this.#digits = '';
      return;
    }
    const digits = this.#digits === undefined ? undefined : this.#digits + character;
    this.#digits = digits;
    if (digits !== undefined && digits.length < 4) return;
    this.#digits = undefined;
    this.#within = 'string';
    if (digits === undefined || !isHighSurrogate(Number.parseInt(digits, 16))) this.#stringIsWhole(index + 1);
  }

  #isWhole(to: number): void {
    this.#wholeTo = to;
    this.#wholeInString = false;
  }

  #stringIsWhole(to: number): void {
    if (this.#inName) return;
    this.#wholeTo = to;
    this.#wholeInString = true;
  }
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}
