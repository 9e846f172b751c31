import type { LLMProvider } from '../../core/contracts/index.ts';
import { ModelRegistry } from '../../providers/models/model-registry.ts';

export interface ContextLimitOptions {
  /** The share of the model's context window from which on the history is compacted. Default 0.8. */
  readonly threshold?: number | undefined;
  /** The model's context window in tokens. Default: what `models` knows of the model; 128,000 where it does not. */
  readonly contextWindow?: number | undefined;
  /** Where models are looked up. Default: a `ModelRegistry` of the well-known ones. */
  readonly models?: ModelRegistry | undefined;
}

export interface ModelInUse {
  readonly provider: LLMProvider;
  /** Where it is not the provider's own. */
  readonly model: string | undefined;
}

const unknownWindow = 128_000;

let wellKnown: ModelRegistry | undefined;

/** How many tokens a request to the model of the turns may have. */
export function contextWindowOf(options: ContextLimitOptions, inUse: ModelInUse): number {
  return options.contextWindow ?? knownWindow(options, inUse) ?? unknownWindow;
}

/** The context window of a model as far as it is known. */
export function knownWindow({ models }: ContextLimitOptions, { provider, model }: ModelInUse): number | undefined {
  const name = model ?? provider.info?.model;
  if (name === undefined) return undefined;
  wellKnown ??= new ModelRegistry();
  return (models ?? wellKnown).find(name)?.maxInputTokens;
}

/** How many tokens a request may have before the history is compacted. */
export function tokenLimit(options: ContextLimitOptions, inUse: ModelInUse): number {
  return Math.floor(contextWindowOf(options, inUse) * (options.threshold ?? 0.8));
}
