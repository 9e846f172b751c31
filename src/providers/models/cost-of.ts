import type { Usage } from '../../core/contracts/index.ts';
import type { ModelPrices, TokenPrices } from './model-info.ts';

/**
 * What a model call costs, in US dollars, exact to a billionth. Cached tokens are a part of the prompt and reasoning a part of
 * the completion, as in `Usage`; each token is charged once. Counts that are no whole numbers of tokens count as 0.
 * Writing to a prompt cache, searches and audio are not in it, nor are discounts for batches.
 */
export function costOf(usage: Usage, prices: ModelPrices): number {
  const prompt = tokens(usage.promptTokens);
  const completion = tokens(usage.completionTokens);
  const cached = least(tokens(usage.cachedTokens), prompt);
  const reasoning = least(tokens(usage.reasoningTokens), completion);
  const { input, cachedInput = input, output, reasoning: thought = output } = pricesFor(usage.promptTokens, prices);
  const sum =
    (prompt - cached) * nanoDollars(input) +
    cached * nanoDollars(cachedInput) +
    (completion - reasoning) * nanoDollars(output) +
    reasoning * nanoDollars(thought);
  return Number((sum + million / 2n) / million) / 1e9;
}

const million = 1_000_000n;

function pricesFor(promptTokens: number, { long, ...prices }: ModelPrices): TokenPrices {
  return long !== undefined && promptTokens > long.above ? long : prices;
}

/** Of a million tokens. */
function nanoDollars(price: number): bigint {
  return BigInt(Math.round(price * 1e9));
}

function tokens(count: number | undefined): bigint {
  return count !== undefined && Number.isSafeInteger(count) && count > 0 ? BigInt(count) : 0n;
}

function least(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}
