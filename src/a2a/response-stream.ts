import type { StreamResponse, TaskArtifactUpdateEvent } from '@a2a-js/sdk';
import type { Observable, Subscription } from 'rxjs';

type Answer = IteratorResult<StreamResponse, void>;

interface Waiter {
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

const done: Answer = { done: true, value: undefined };

/**
 * Responses as the protocol's transports pull them. Subscribes with the first `next`; `return` unsubscribes at once, also while a `next`
 * waits, which an async function could not. Responses that nobody has pulled yet wait, with adjacent pieces of one text merged: a slow
 * client costs the text and the records, not every piece.
 */
export class ResponseStream implements AsyncGenerator<StreamResponse, void, undefined> {
  readonly #source: Observable<StreamResponse>;
  readonly #waiting: StreamResponse[] = [];
  readonly #waiters: Waiter[] = [];
  #subscription: Subscription | undefined;
  #end: { readonly error?: { readonly cause: unknown } } | undefined;

  constructor(source: Observable<StreamResponse>) {
    this.#source = source;
  }

  next(): Promise<Answer> {
    if (!this.#end) this.#subscription ??= this.#subscribe();
    const value = this.#waiting.shift();
    if (value) return Promise.resolve({ done: false, value });
    return new Promise((resolve, reject) => {
      this.#waiters.push({ resolve, reject });
      if (this.#end) this.#dismiss();
    });
  }

  return(): Promise<Answer> {
    this.#leave();
    return Promise.resolve(done);
  }

  throw(error: unknown): Promise<Answer> {
    this.#leave();
    return Promise.reject(error);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#leave();
  }

  #subscribe(): Subscription {
    return this.#source.subscribe({
      next: (response) => this.#take(response),
      error: (cause: unknown) => this.#close({ error: { cause } }),
      complete: () => this.#close({}),
    });
  }

  #take(value: StreamResponse): void {
    const waiter = this.#waiters.shift();
    if (waiter) return waiter.resolve({ done: false, value });
    const merged = mergedText(this.#waiting.at(-1), value);
    if (merged) this.#waiting[this.#waiting.length - 1] = merged;
    else this.#waiting.push(value);
  }

  #leave(): void {
    this.#waiting.length = 0;
    this.#close({});
    this.#subscription?.unsubscribe();
  }

  #close(end: { readonly error?: { readonly cause: unknown } }): void {
    this.#end ??= end;
    this.#dismiss();
  }

  /** Resolves all waiting reads at the end; the first rejects with the error, if there is one. */
  #dismiss(): void {
    for (const waiter of this.#waiters.splice(0)) {
      const error = this.#end?.error;
      this.#end = {};
      if (error) waiter.reject(error.cause);
      else waiter.resolve(done);
    }
  }
}

/** Both merged, if the second continues the text of the first. */
function mergedText(first: StreamResponse | undefined, second: StreamResponse): StreamResponse | undefined {
  if (first?.payload?.$case !== 'artifactUpdate' || second.payload?.$case !== 'artifactUpdate') return undefined;
  const [before, after] = [first.payload.value, second.payload.value];
  if (!after.append || after.lastChunk || before.lastChunk) return undefined;
  if (before.artifact?.artifactId !== after.artifact?.artifactId) return undefined;
  const [a, b] = [textIn(before), textIn(after)];
  if (a === undefined || b === undefined || !before.artifact) return undefined;
  const [part] = before.artifact.parts;
  if (!part) return undefined;
  const artifact = { ...before.artifact, parts: [{ ...part, content: { $case: 'text' as const, value: a + b } }] };
  return { payload: { $case: 'artifactUpdate', value: { ...before, artifact } } };
}

function textIn({ artifact }: TaskArtifactUpdateEvent): string | undefined {
  const [part, ...more] = artifact?.parts ?? [];
  return part?.content?.$case === 'text' && more.length === 0 ? part.content.value : undefined;
}
