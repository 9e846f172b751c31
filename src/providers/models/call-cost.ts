import type { Usage } from '../../core/contracts/index.ts';
import { costOf } from './cost-of.ts';
import type { ModelPrices } from './model-info.ts';

/** Where the prices of models are found by name; a `ModelRegistry` is one. */
export interface PriceList {
  find(model: string): { readonly prices?: ModelPrices } | undefined;
}

/**
 * What a model call took, its discarded requests included, in US dollars: as reported by the vendor, else by the price list; a call without tokens costs
 * nothing. Undefined where none of it is known.
 */
export function callCost(
  usage: Usage,
  { model, prices }: { readonly model: string | undefined; readonly prices: PriceList | undefined },
): number | undefined {
  const { discarded, ...answered } = usage;
  const known = model === undefined ? undefined : prices?.find(model)?.prices;
  const costs = [answered, ...(discarded ? [discarded] : [])].map(
    (part) => part.cost ?? (part.totalTokens === 0 ? 0 : known && costOf(part, known)),
  );
  return costs.reduce((sum, cost) => (sum === undefined || cost === undefined ? undefined : dollars(sum + cost)), 0);
}

/** Rounded to a billionth, so that sums do not drift. */
export function dollars(amount: number): number {
  return Math.round(amount * 1e9) / 1e9;
}
