import type { LLMProvider } from '../../core/contracts/index.ts';
import { attemptStream, type StreamCall } from './attempt-stream.ts';

/**
 * The calls of a provider that stands in for another. What a call sets in the words of the other, its model and the vendor's options, is
 * left out: this one has a model of its own.
 */
export function otherProvider(provider: LLMProvider): StreamCall {
  const stream = attemptStream(provider);
  return ({ model: _, providerOptions: _options, ...params }) => stream(params);
}
