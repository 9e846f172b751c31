import type { LLMCapabilities } from '../../core/contracts/index.ts';

/** US dollars for a million tokens: the vendor's own list prices. */
export interface TokenPrices {
  readonly input: number;
  /** Of prompt tokens that come from the cache. Absent: as `input`. */
  readonly cachedInput?: number;
  readonly output: number;
  /** Of reasoning. Absent: as `output`. */
  readonly reasoning?: number;
}

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
  readonly images?: boolean;
}

/** What is known of a model. Absent members are not known. */
export interface ModelInfo {
  /** As the vendor names it, without provider and version: `gpt-5`. */
  readonly name: string;
  readonly vendor?: string;
  /** The most tokens of a prompt. Some vendors' context windows hold the answer as well. */
  readonly maxInputTokens?: number;
  readonly maxOutputTokens?: number;
  readonly prices?: ModelPrices;
  /** The day on which all this was true, `YYYY-MM-DD`. */
  readonly asOf?: string;
  readonly abilities?: ModelAbilities;
}
