import type { LLMCallParams } from '../../core/contracts/index.ts';
import type { VendorData } from './sdk-model.ts';

type Effort = 'minimal' | 'low' | 'medium' | 'high';

type Reasoning = NonNullable<LLMCallParams['reasoning']>;
type Members = VendorData[string];

/** How the package of one vendor receives each setting, for a model. An empty object: the model has no such setting. */
interface SettingNames {
  /** The name of its options. */
  readonly options: string;
  readonly reasoning: (reasoning: Reasoning, model: string) => Members;
  readonly parallelToolCalls?: (parallel: boolean) => Members;
  /** For the schema of an answer that is not of the vendor's strict subset. */
  readonly looseFormat?: Members;
  /** The mark of its prompt cache, for a vendor that wants one. */
  readonly cacheMark?: Members;
}

/** What a budget stands for where a vendor counts no tokens, and an effort where it counts them. */
const budgets: readonly (readonly [Effort, number])[] = [
  ['minimal', 1_024],
  ['low', 4_096],
  ['medium', 10_240],
  ['high', 24_576],
];

function effortOf(reasoning: Exclude<Reasoning, 'none'>): Effort {
  if (typeof reasoning === 'string') return reasoning;
  return budgets.find(([, tokens]) => reasoning.budgetTokens <= tokens)?.[0] ?? 'high';
}

function budgetOf(reasoning: Exclude<Reasoning, 'none'>): number {
  if (typeof reasoning !== 'string') return reasoning.budgetTokens;
  return budgets.find(([effort]) => effort === reasoning)?.[1] ?? 0;
}

/** For vendors whose lowest effort is `low`. */
function fromLow(effort: Effort): 'low' | 'medium' | 'high' {
  return effort === 'minimal' ? 'low' : effort;
}

/** Claude 4.6 and later decide themselves how much to think, within an effort; of older ones, those from 3.7 on take a budget. */
function claudeThinking(model: string): 'adaptive' | 'budget' | 'none' {
  const [, major, minor = '0'] = /claude-[a-z]+-(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)/.exec(model) ?? [];
  if (major !== undefined) return Number(major) >= 5 || Number(minor) >= 6 ? 'adaptive' : 'budget';
  return /claude-(?:[12]|instant|3(?![-.]7))/.test(model) ? 'none' : 'budget';
}

/** The least that Anthropic takes. */
const leastClaudeBudget = 1_024;

function anthropicReasoning(reasoning: Reasoning, model: string): Members {
  const kind = claudeThinking(model);
  if (kind === 'none') return {};
  if (reasoning === 'none') return { thinking: { type: 'disabled' } };
  if (kind === 'adaptive') return { thinking: { type: 'adaptive' }, effort: fromLow(effortOf(reasoning)) };
  return { thinking: { type: 'enabled', budgetTokens: Math.max(leastClaudeBudget, budgetOf(reasoning)) } };
}

function bedrockReasoning(reasoning: Reasoning, model: string): Members {
  if (/nova/.test(model)) {
    if (reasoning === 'none') return { reasoningConfig: { type: 'disabled' } };
    return { reasoningConfig: { type: 'enabled', maxReasoningEffort: fromLow(effortOf(reasoning)) } };
  }
  const kind = claudeThinking(model);
  if (!/claude/.test(model) || kind === 'none') return {};
  if (reasoning === 'none') return { reasoningConfig: { type: 'disabled' } };
  return {
    reasoningConfig:
      kind === 'adaptive'
        ? { type: 'adaptive', maxReasoningEffort: fromLow(effortOf(reasoning)) }
        : { type: 'enabled', budgetTokens: Math.max(leastClaudeBudget, budgetOf(reasoning)) },
  };
}

/** Gemini 3 has levels, of which only its Flash models have the lowest; Gemini 2.5 has budgets, and its Pro models always think. */
function googleReasoning(reasoning: Reasoning, model: string): Members {
  const isPro = /pro/.test(model);
  if (/gemini-(?:[3-9]|\d\d)/.test(model)) {
    const effort = reasoning === 'none' ? 'minimal' : effortOf(reasoning);
    return thinkingConfig({ thinkingLevel: isPro ? fromLow(effort) : effort }, reasoning);
  }
  if (!/gemini-2\.5/.test(model)) return {};
  const least = isPro ? 128 : 0;
  const most = isPro ? 32_768 : 24_576;
  const budget = reasoning === 'none' ? least : Math.min(most, Math.max(least, budgetOf(reasoning)));
  return thinkingConfig({ thinkingBudget: budget }, reasoning);
}

function thinkingConfig(config: Members, reasoning: Reasoning): Members {
  return { thinkingConfig: reasoning === 'none' ? config : { ...config, includeThoughts: true } };
}

/** `none` is of gpt-5.1 and later, `minimal` of gpt-5 alone. The package leaves out what a model of gpt-6 does not have. */
function openaiReasoning(reasoning: Reasoning, model: string): Members {
  // After the path to the model: `openai/gpt-5.6`, `ft:o4-mini:acme`.
  const name = model.split(/[/:]/).find((part) => /^(?:gpt-\d|o\d)/.test(part)) ?? model;
  const isFirst = /^gpt-5(?!\.)/.test(name);
  const isLater = /^gpt-(?:5\.|[6-9]|\d\d)/.test(name);
  if (!isLater && !isFirst && !/^o\d/.test(name)) return {};
  if (isFirst && /^gpt-5-chat/.test(name)) return {};
  if (reasoning === 'none') return { reasoningEffort: isLater ? 'none' : isFirst ? 'minimal' : 'low' };
  const effort = effortOf(reasoning);
  return { reasoningEffort: isFirst ? effort : fromLow(effort), reasoningSummary: 'auto' };
}

const disableParallel = (parallel: boolean): Members => ({ disableParallelToolUse: !parallel });
const looseFormat: Members = { strictJsonSchema: false };
const parallelToolCalls = (parallel: boolean): Members => ({ parallelToolCalls: parallel });

/** By what a package calls the provider of a model, up to a dot. */
const settingNames: Readonly<Record<string, SettingNames>> = {
  anthropic: {
    options: 'anthropic',
    reasoning: anthropicReasoning,
    parallelToolCalls: disableParallel,
    looseFormat: { structuredOutputMode: 'jsonTool' },
    cacheMark: { cacheControl: { type: 'ephemeral' } },
  },
  google: { options: 'google', reasoning: googleReasoning },
  'google.vertex': { options: 'vertex', reasoning: googleReasoning },
  'vertex.anthropic': {
    options: 'anthropic',
    reasoning: anthropicReasoning,
    parallelToolCalls: disableParallel,
    looseFormat: { structuredOutputMode: 'jsonTool' },
    cacheMark: { cacheControl: { type: 'ephemeral' } },
  },
  openai: { options: 'openai', reasoning: openaiReasoning, parallelToolCalls, looseFormat },
  azure: { options: 'azure', reasoning: openaiReasoning, parallelToolCalls, looseFormat },
  'amazon-bedrock': {
    options: 'bedrock',
    reasoning: bedrockReasoning,
    cacheMark: { cachePoint: { type: 'default' } },
  },
  mistral: {
    options: 'mistral',
    reasoning: (reasoning, model) =>
      /mistral-(?:small|medium)/.test(model) ? { reasoningEffort: reasoning === 'none' ? 'none' : 'high' } : {},
    parallelToolCalls,
    looseFormat,
  },
  xai: {
    options: 'xai',
    reasoning: (reasoning, model) => {
      if (/grok-3-mini/.test(model))
        return reasoning === 'none' ? {} : { reasoningEffort: effortOf(reasoning) === 'high' ? 'high' : 'low' };
      if (!/grok-(?:4\.[2-9]|[5-9])/.test(model) || /non-reasoning/.test(model)) return {};
      return { reasoningEffort: reasoning === 'none' ? 'none' : fromLow(effortOf(reasoning)) };
    },
    parallelToolCalls: (parallel) => ({ parallel_function_calling: parallel }),
  },
};

/** The longest name wins: `google.vertex` before `google`. */
function namesOf(provider: string): SettingNames | undefined {
  const [name] = Object.keys(settingNames)
    .filter((known) => `${provider}.`.startsWith(`${known}.`))
    .sort((a, b) => b.length - a.length);
  return name === undefined ? undefined : settingNames[name];
}

/**
 * Settings of a call as options of a vendor's package: pure. `undefined` where the vendor, or the model, has none of them. A value that a model does
 * not have is the nearest one that it has.
 */
export function settingOptions(
  { reasoning, parallelToolCalls: parallel, responseFormat }: LLMCallParams,
  strictFormat: boolean,
  { provider, model }: { readonly provider: string; readonly model: string },
): VendorData | undefined {
  const names = namesOf(provider);
  if (names === undefined) return undefined;
  const members: Members = {
    ...(reasoning === undefined ? {} : names.reasoning(reasoning, model)),
    ...(parallel === undefined ? {} : names.parallelToolCalls?.(parallel)),
    ...(responseFormat === undefined || strictFormat ? {} : names.looseFormat),
  };
  return Object.keys(members).length === 0 ? undefined : { [names.options]: members };
}

/** The mark that a vendor's prompt cache wants; `undefined` where it wants none. */
export function cacheMarksOf(provider: string): VendorData | undefined {
  const names = namesOf(provider);
  return names?.cacheMark && { [names.options]: names.cacheMark };
}
