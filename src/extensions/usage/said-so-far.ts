import type { LLMCallParams, LLMChunk, Usage } from '../../providers/interfaces.ts';
import { estimatePromptTokens } from '../../providers/policies/token-estimate.ts';
import { estimateTokens } from '../context/count-tokens.ts';

/** What a model call has given so far. */
export class SaidSoFar {
  #text = '';
  #output = '';

  add(chunk: LLMChunk): void {
    if (chunk.type === 'attempt') this.#text = '';
    if (chunk.type === 'text') this.#text += chunk.text;
    if (chunk.type === 'text' || chunk.type === 'reasoning') this.#output += chunk.text;
    if (chunk.type === 'tool-call') this.#output += chunk.arguments ?? '';
  }

  /** Of the current attempt. */
  get text(): string {
    return this.#text;
  }

  get isEmpty(): boolean {
    return this.#output === '';
  }

  /** What the call took by now; a guess, of all attempts. */
  usage(params: LLMCallParams): Usage {
    return estimatedUsage(estimatePromptTokens(params), estimateTokens(this.#output));
  }
}

export function estimatedUsage(promptTokens: number, completionTokens: number): Usage {
  return { promptTokens, completionTokens, totalTokens: promptTokens + completionTokens, estimated: true };
}
