import type { Usage } from '../../core/contracts/index.ts';
import { isJsonObject } from './json-object.ts';

/**
 * The wire's `usage`. Cached tokens in the spellings of OpenAI and DeepSeek; `cost` as LiteLLM and OpenRouter give it.
 * xAI counts reasoning beside the completion: it is added, so that `reasoningTokens` is a part of `completionTokens`
 * everywhere. `undefined` where the numbers are not there.
 */
export function usageOf(wire: unknown): Usage | undefined {
  if (!isJsonObject(wire)) return undefined;
  const promptTokens = countIn(wire, 'prompt_tokens');
  const stated = countIn(wire, 'completion_tokens');
  if (promptTokens === undefined && stated === undefined) return undefined;
  const cachedTokens =
    countIn(wire['prompt_tokens_details'], 'cached_tokens') ?? countIn(wire, 'prompt_cache_hit_tokens');
  const reasoningTokens = countIn(wire['completion_tokens_details'], 'reasoning_tokens');
  const prompt = promptTokens ?? 0;
  const total = countIn(wire, 'total_tokens');
  const beside = (stated ?? 0) + (reasoningTokens ?? 0);
  const completionTokens = total === prompt + beside ? beside : (stated ?? 0);
  const cost = countIn(wire, 'cost');
  return {
    promptTokens: prompt,
    completionTokens,
    totalTokens: total ?? prompt + completionTokens,
    ...(cachedTokens === undefined ? {} : { cachedTokens }),
    ...(reasoningTokens === undefined ? {} : { reasoningTokens }),
    ...(cost === undefined ? {} : { cost }),
  };
}

function countIn(wire: unknown, member: string): number | undefined {
  if (!isJsonObject(wire)) return undefined;
  const value = wire[member];
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : undefined;
}
