import type { PriceList } from '../../providers/models/call-cost.ts';

/** The model that answered where its price is known, else the one that was asked, whose price may be. */
export function pricedModel(
  { answered, asked }: { readonly answered: string | undefined; readonly asked: string | undefined },
  prices: PriceList | undefined,
): string | undefined {
  return answered !== undefined && prices?.find(answered)?.prices ? answered : (asked ?? answered);
}
