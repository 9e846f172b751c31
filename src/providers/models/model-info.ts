import type { LLMCapabilities, TurnCallSettings, Usage } from '../../core/contracts/index.ts';

/** US dollars for a million tokens: the vendor's own list prices. */
export interface TokenPrices {
  /** US dollars for a million tokens of the prompt. */
  readonly input: number;
  /** Of prompt tokens that come from the cache. Absent: as `input`. */
  readonly cachedInput?: number;
  /** US dollars for a million tokens of the answer. */
  readonly output: number;
  /** Of reasoning. Absent: as `output`. */
  readonly reasoning?: number;
}

/** What a model costs. */
export interface ModelPrices extends TokenPrices {
  /** The prices of a whole call whose prompt has more tokens than `above`. */
  readonly long?: TokenPrices & { readonly above: number };
}

/** What a model can do. Absent members mean that the source does not say. */
export interface ModelAbilities extends LLMCapabilities {
  /** Several calls in one answer. */
  readonly parallelToolCalls?: boolean;
  /** A tool can be forced. `false` also where the model takes `toolChoice` but only `auto` and `none`. */
  readonly toolChoice?: boolean;
  /** Answers that follow a JSON Schema. */
  readonly jsonSchema?: boolean;
  /** Whether it sees pictures. */
  readonly images?: boolean;
  /** Whether it reasons where a call does not say how much. */
  readonly reasonsByDefault?: boolean;
}

/** What is known of a model. Absent members are not known. */
export interface ModelInfo {
  /** As the vendor names it, without provider and version: `gpt-5`. */
  readonly name: string;
  /** Who makes it. */
  readonly vendor?: string;
  /** The vendor of `createProvider` whose endpoint answers it with all its abilities: `openai` for `openai:gpt-5.6`. */
  readonly endpoint?: string;
  /** The most tokens of a prompt. Some vendors' context windows hold the answer as well. */
  readonly maxInputTokens?: number;
  /** The most that one answer may have. */
  readonly maxOutputTokens?: number;
  /** What it costs. Absent: not known. */
  readonly prices?: ModelPrices;
  /** The day on which all this was true, `YYYY-MM-DD`. */
  readonly asOf?: string;
  /** What it can do. Absent: not known. */
  readonly abilities?: ModelAbilities;
  /** The settings that it refuses, unless a call changes how much it reasons. Providers leave them out. */
  readonly refuses?: readonly (keyof TurnCallSettings)[];
}

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

/** Where the prices of models are found by name; a `ModelRegistry` is one. */
export interface PriceList {
  /** What is known of a model; `undefined` for an unknown one. */
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
