import type { LanguageModelV3Usage } from '@ai-sdk/provider';
import type { Usage } from '../../core/contracts/index.ts';
import { usageOf } from '../openai-wire/usage.ts';

export type SdkUsage = LanguageModelV3Usage;

/**
 * The AI SDK's usage as ours. Where the vendor's own numbers are those of the OpenAI wire they are read as `LiteLLMProvider` reads them, so
 * that both count the same. Prompt tokens include those that a cache gave or took. `undefined` where the numbers are not there.
 */
export function sdkUsage({ inputTokens, outputTokens, raw }: SdkUsage): Usage | undefined {
  const ofWire = usageOf(raw);
  if (ofWire !== undefined) return ofWire;
  const { total: promptTokens, cacheRead: cachedTokens } = inputTokens;
  const { total: completionTokens, reasoning: reasoningTokens } = outputTokens;
  if (promptTokens === undefined && completionTokens === undefined) return undefined;
  return {
    promptTokens: promptTokens ?? 0,
    completionTokens: completionTokens ?? 0,
    totalTokens: (promptTokens ?? 0) + (completionTokens ?? 0),
    ...(cachedTokens === undefined ? {} : { cachedTokens }),
    ...(reasoningTokens === undefined ? {} : { reasoningTokens }),
  };
}
