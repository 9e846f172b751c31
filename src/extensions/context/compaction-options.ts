import type { LLMProvider } from '../../core/contracts/index.ts';
import { estimateTokens, type TokenCounter } from '../../core/model-call/index.ts';
import {
  aFunction,
  aName,
  assertOptions,
  hasMethods,
  milliseconds,
  type OptionRule,
  type OptionRules,
  wholeNumber,
} from '../../options/option-rules.ts';
import { ModelRegistry } from '../../providers/models/model-registry.ts';
import { defaultPrompt, type Summarizer } from './summarize.ts';

/** Options of compaction: when a history is summarized, by which model, and which messages are kept. */
export interface CompactionOptions extends ContextLimitOptions {
  /** How many of the newest messages are kept, if they take no more than half of the threshold. Default 10. */
  readonly keepLast?: number | undefined;
  /** Makes the summarizing calls. Default: the turn's provider. */
  readonly provider?: LLMProvider | undefined;
  /** The model of the summarizing calls. Default: that of the turn's calls; that of `provider` if it is set. */
  readonly model?: string | undefined;
  /** The instructions of the summarizer. Default: to keep goals, results, decisions and open points. */
  readonly prompt?: string | undefined;
  /** Default: an estimate by characters. Both are calibrated by the provider's reported usage. */
  readonly countTokens?: TokenCounter | undefined;
  /** How long a compaction may take. Milliseconds; default 120,000; 0 means no limit. */
  readonly timeoutMs?: number | undefined;
}

const aShare: OptionRule = {
  fits: (value) => typeof value === 'number' && value > 0 && value <= 1,
  must: 'be a share above 0, at most 1',
};
const aProvider: OptionRule = {
  fits: (value) => hasMethods(value, ['call']),
  must: 'be an LLMProvider: { call(params) }',
};
const aRegistry: OptionRule = { fits: (value) => value instanceof ModelRegistry, must: 'be a ModelRegistry' };

const kinds: OptionRules<CompactionOptions> = {
  threshold: aShare,
  contextWindow: wholeNumber(1),
  models: aRegistry,
  keepLast: wholeNumber(1),
  provider: aProvider,
  model: aName,
  prompt: aName,
  countTokens: aFunction,
  timeoutMs: milliseconds(0),
};

/** Errors: `INVALID_CONFIG`, naming the option. */
export function assertCompactionOptions(user: string, options: CompactionOptions): void {
  assertOptions(user, options, kinds);
}

/** The summarizer for a model whose history is compacted beyond `limit` tokens. */
export function summarizerOf(
  options: CompactionOptions,
  inUse: ModelInUse,
  limit: number,
): Omit<Summarizer, 'signal' | 'traceContext' | 'noteUsage'> {
  const { provider = inUse.provider, prompt = defaultPrompt, countTokens = estimateTokens } = options;
  const model = options.model ?? (options.provider ? undefined : inUse.model);
  const own = options.provider || options.model ? knownWindow(options, { provider, model }) : undefined;
  const contextWindow = own ?? contextWindowOf(options, inUse);
  const maxRequestTokens = contextWindowOf({ contextWindow }, { provider, model });
  return { provider, model, prompt, countTokens, maxRequestTokens, maxSummaryTokens: Math.ceil(limit / 4) };
}

interface ContextLimitOptions {
  /** The share of the model's context window above which the history is compacted. Default 0.8. */
  readonly threshold?: number | undefined;
  /** The model's context window in tokens. Default: from `models`; 128,000 for an unknown model. */
  readonly contextWindow?: number | undefined;
  /** The registry of models. Default: a `ModelRegistry` of the well-known ones. */
  readonly models?: ModelRegistry | undefined;
}

export interface ModelInUse {
  readonly provider: LLMProvider;
  /** Set if it is not the provider's default. */
  readonly model: string | undefined;
}

const unknownWindow = 128_000;

let wellKnown: ModelRegistry | undefined;

/** By provider and model: the context window that the server stated when it refused a longer request. */
const learned = new WeakMap<LLMProvider, Map<string | undefined, number>>();

/** The server stated the context window of a model: from now on it is valid for all turns with this provider, in place of a larger one. */
export function learnWindow({ provider, model }: ModelInUse, tokens: number): void {
  const ofProvider = learned.get(provider) ?? new Map<string | undefined, number>();
  learned.set(provider, ofProvider.set(model, tokens));
}

/** The context window of the turns' model, in tokens. */
export function contextWindowOf(options: ContextLimitOptions, inUse: ModelInUse): number {
  const stated = learned.get(inUse.provider)?.get(inUse.model) ?? Number.POSITIVE_INFINITY;
  return Math.min(options.contextWindow ?? knownWindow(options, inUse) ?? unknownWindow, stated);
}

/** The context window of a model, if known. */
function knownWindow({ models }: ContextLimitOptions, { provider, model }: ModelInUse): number | undefined {
  const name = model ?? provider.info?.model;
  if (name === undefined) return undefined;
  wellKnown ??= new ModelRegistry();
  return (models ?? wellKnown).find(name)?.maxInputTokens;
}

/** The number of tokens of a request above which the history is compacted. */
export function tokenLimit(options: ContextLimitOptions, inUse: ModelInUse): number {
  return Math.floor(contextWindowOf(options, inUse) * (options.threshold ?? 0.8));
}
