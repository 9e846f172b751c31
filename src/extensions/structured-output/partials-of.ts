import { isDeepStrictEqual } from 'node:util';
import { Observable, type Subscriber } from 'rxjs';
import { type AgentEvent, partsText } from '../../core/contracts/index.ts';
import type { Partially } from '../../core/options/index.ts';
import { type PartialJson, partialJson } from './partial-json.ts';

export interface PartialsOptions {
  /** Of the finish tool. */
  readonly name: string;
  /** Whether the output is the text of the answer. */
  readonly inText: boolean;
  /** Gives the output of what the model writes; `undefined` where nothing of it is there. */
  readonly unwrap: (wrapped: unknown) => unknown;
}

/** The output of a turn while it is written: see `StructuredOutput.partials`. */
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

/** What the model writes is claimed to fit; the arguments of a call that runs have passed the check of the schema. */
function isOutput<T>(value: unknown): value is Partially<T> {
  return value !== undefined;
}
