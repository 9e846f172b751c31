import type { Attributes } from '@opentelemetry/api';
import type { Usage } from '../../core/contracts/index.ts';
import { attribute } from '../attributes.ts';

/**
 * A turn's sum of tokens, under our own names: with `gen_ai.usage.*` on spans above the model calls, backends count the
 * cost of each call again.
 */
export function usageTotals(usage: Usage): Attributes {
  const attributes: Attributes = {
    [attribute.totalInputTokens]: usage.promptTokens,
    [attribute.totalOutputTokens]: usage.completionTokens,
    [attribute.totalTokens]: usage.totalTokens,
  };
  if (usage.cachedTokens !== undefined) attributes[attribute.totalCachedTokens] = usage.cachedTokens;
  if (usage.reasoningTokens !== undefined) attributes[attribute.totalReasoningTokens] = usage.reasoningTokens;
  if (usage.cost !== undefined) attributes[attribute.costUsd] = usage.cost;
  if (usage.estimated === true) attributes[attribute.usageEstimated] = true;
  return attributes;
}
