import type { FinishReason } from '../../core/contracts/index.ts';

const spellings: Readonly<Record<string, FinishReason>> = {
  stop: 'stop',
  end_turn: 'stop',
  stop_sequence: 'stop',
  eos: 'stop',
  length: 'length',
  max_tokens: 'length',
  max_output_tokens: 'length',
  model_length: 'length',
  tool_calls: 'tool_calls',
  tool_use: 'tool_calls',
  function_call: 'tool_calls',
  content_filter: 'content_filter',
  refusal: 'content_filter',
  safety: 'content_filter',
  recitation: 'content_filter',
  sensitive: 'content_filter',
};

/** Why the model stopped, from any vendor's spelling. One that is not known, or none, means the end of a good answer. */
export function finishReasonOf(wire: string | undefined, hasCalls: boolean): FinishReason {
  const known = wire === undefined ? undefined : spellings[wire.toLowerCase()];
  return known ?? (hasCalls ? 'tool_calls' : 'stop');
}

const failures: ReadonlySet<string> = new Set(['error', 'abort', 'insufficient_system_resource', 'network_error']);

/** Whether a vendor says with its finish reason that the answer failed: OpenRouter, vLLM, DeepSeek, Zhipu. */
export function isFailure(wire: string): boolean {
  return failures.has(wire.toLowerCase());
}
