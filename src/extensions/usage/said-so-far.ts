import type { LLMChunk } from '../../core/contracts/index.ts';
import { GrowingText } from '../../core/journal/index.ts';
import { StreamedTokens } from '../../core/model-call/index.ts';

/** What a model call has given so far. Memory: the text of the current attempt. */
export class SaidSoFar {
  readonly #text = new GrowingText();
  readonly #output = new StreamedTokens();
  #attempt = new StreamedTokens();

  add(chunk: LLMChunk): void {
    if (chunk.type === 'attempt') {
      this.#text.clear();
      this.#attempt = new StreamedTokens();
    }
    if (chunk.type === 'text') this.#text.add(chunk.text);
    if (chunk.type === 'text' || chunk.type === 'reasoning') this.#count(chunk.text);
    if (chunk.type === 'tool-call') this.#count(chunk.arguments ?? '');
  }

  /** Of the current attempt. */
  get text(): string {
    return this.#text.toString();
  }

  /** Of all attempts, with reasoning and arguments. */
  get outputTokens(): number {
    return this.#output.tokens;
  }

  /** Of the current attempt, with reasoning and arguments. */
  get attemptTokens(): number {
    return this.#attempt.tokens;
  }

  #count(text: string): void {
    this.#output.add(text);
    this.#attempt.add(text);
  }
}
