import { isDeepStrictEqual } from 'node:util';
import { Observable, type Subscriber } from 'rxjs';
import { type AgentEvent, type Partially, partsText, textNestsTooDeep } from '../../core/contracts/index.ts';
import { GrowingText } from '../../core/journal/index.ts';
import { JsonPrefix } from '../../json-prefix.ts';
import { ObjectStart } from './read-json.ts';

interface PartialsOptions {
  /** The name of the finish tool. */
  readonly name: string;
  /** Whether the output is the text of the answer. */
  readonly inText: boolean;
  /** Extracts the output from the model's JSON; `undefined` if it contains none yet. */
  readonly unwrap: (wrapped: unknown) => unknown;
  /** Reads a complete answer; `undefined` if it is not one output. */
  readonly read: (answer: string) => unknown;
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
  readonly #parts = new Map<number, OutputText<T>>();
  /** The answer so far, and where its output begins. */
  #answer: GrowingText = new GrowingText();
  #start = new ObjectStart();
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
          | 'internal:request-fitted'
          | 'internal:llm-warning'
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

  #takeText({ append, artifact, lastChunk }: Extract<AgentEvent, { kind: 'artifact-update' }>): void {
    if (!append) {
      this.#parts.set(0, new OutputText());
      this.#answer = new GrowingText();
      this.#start = new ObjectStart();
    }
    const fragment = partsText(artifact.parts);
    this.#answer.add(fragment);
    this.#push(0, this.#start.push(fragment));
    if (lastChunk) this.#show(this.#options.read(this.#answer.slice(0)) ?? this.#parts.get(0)?.value);
  }

  /** Some vendors repeat the name with each fragment. */
  #open(index: number): void {
    if (!this.#parts.has(index)) this.#parts.set(index, new OutputText());
  }

  #push(index: number, fragment: string): void {
    const part = this.#parts.get(index);
    if (part?.push(fragment)) this.#show(part.value);
  }

  #show(wrapped: unknown): void {
    const value = this.#options.unwrap(wrapped);
    if (!isOutput<T>(value) || isDeepStrictEqual(value, this.#shown)) return;
    this.#shown = value;
    this.#out.next(value);
  }
}

/** Texts up to this length are read with every fragment. */
const shortText = 4096;

/** The text of an output, read so seldom that all readings take time linear in it. */
class OutputText<T> {
  readonly #json = partialJson<T>();
  #length = 0;
  #readTo = 0;

  get value(): Partially<T> | undefined {
    return this.#json.value;
  }

  /** Whether it is time to read: a long text has grown by a 64th, or is complete. */
  push(fragment: string): boolean {
    if (this.#json.complete) return false;
    this.#json.push(fragment);
    this.#length += fragment.length;
    const isDue =
      this.#length <= shortText || this.#json.complete || (this.#length - this.#readTo) * 64 >= this.#length;
    if (isDue) this.#readTo = this.#length;
    return isDue;
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
  if (textNestsTooDeep(text)) return before;
  try {
    return JSON.parse(text);
  } catch {
    return before;
  }
}
