import type { LLMChunk } from '../../providers/interfaces.ts';

/** What a model call has given so far. */
export class SaidSoFar {
  #text = '';
  #output = '';
  /** Where the output of the current attempt begins. */
  #begin = 0;

  add(chunk: LLMChunk): void {
    if (chunk.type === 'attempt') {
      this.#text = '';
      this.#begin = this.#output.length;
    }
    if (chunk.type === 'text') this.#text += chunk.text;
    if (chunk.type === 'text' || chunk.type === 'reasoning') this.#output += chunk.text;
    if (chunk.type === 'tool-call') this.#output += chunk.arguments ?? '';
  }

  /** Of the current attempt. */
  get text(): string {
    return this.#text;
  }

  /** Of all attempts, with reasoning and arguments. */
  get output(): string {
    return this.#output;
  }

  /** Of the current attempt, with reasoning and arguments. */
  get attempt(): string {
    return this.#output.slice(this.#begin);
  }
}
