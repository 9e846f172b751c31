import { type ProfileName, profileOf } from '../profiles.ts';
import type { ModelAbilities, ModelInfo, TokenPrices } from './model-info.ts';

/** The vendors, by their names in `createProvider`, and whose rules their endpoints have. */
const endpoints = {
  openai: 'openai-responses',
  anthropic: 'anthropic',
  google: 'google',
  mistral: 'mistral',
  deepseek: 'deepseek',
} as const satisfies Readonly<Record<string, ProfileName>>;

interface ModelGroup {
  readonly vendor: keyof typeof endpoints;
  readonly abilities: ModelAbilities;
  readonly models: readonly ModelRow[];
}

interface ModelRow {
  readonly name: string;
  /** The most of a prompt, and of an answer. */
  readonly tokens: readonly [input: number, output: number];
  readonly usd: PriceRow;
  /** The prices of calls with a longer prompt than its first number. */
  readonly over?: readonly [above: number, ...prices: PriceRow];
}

/** US dollars for a million tokens. `null`: there is no price of its own for cached tokens. */
type PriceRow = readonly [input: number, cachedInput: number | null, output: number];

/** The day on which the table was taken from its source, the price list of LiteLLM 1.109.1. */
const asOf = '2026-11-22';

const table: readonly ModelGroup[] = [
  {
    vendor: 'openai',
    abilities: { tools: true, toolChoice: true, parallelToolCalls: true, jsonSchema: true, images: true },
    models: [
      { name: 'gpt-4o', tokens: [128_000, 16_384], usd: [2.5, 1.25, 10] },
      { name: 'gpt-4o-mini', tokens: [128_000, 16_384], usd: [0.15, 0.075, 0.6] },
    ],
  },
  {
    vendor: 'openai',
    abilities: {
      tools: true,
      toolChoice: true,
      streaming: true,
      parallelToolCalls: true,
      jsonSchema: true,
      images: true,
    },
    models: [
      { name: 'gpt-4.1', tokens: [1_047_576, 32_768], usd: [2, 0.5, 8] },
      { name: 'gpt-4.1-mini', tokens: [1_047_576, 32_768], usd: [0.4, 0.1, 1.6] },
      { name: 'gpt-5', tokens: [272_000, 128_000], usd: [1.25, 0.125, 10] },
      { name: 'gpt-5-mini', tokens: [272_000, 128_000], usd: [0.25, 0.025, 2] },
      { name: 'gpt-5-nano', tokens: [272_000, 128_000], usd: [0.05, 0.005, 0.4] },
      { name: 'gpt-5.1', tokens: [272_000, 128_000], usd: [1.25, 0.125, 10] },
      { name: 'gpt-5.2', tokens: [272_000, 128_000], usd: [1.75, 0.175, 14] },
      { name: 'gpt-5.3-codex', tokens: [272_000, 128_000], usd: [1.75, 0.175, 14] },
      { name: 'gpt-5.4', tokens: [1_050_000, 128_000], usd: [2.5, 0.25, 15], over: [272_000, 5, 0.5, 22.5] },
      { name: 'gpt-5.4-mini', tokens: [272_000, 128_000], usd: [0.75, 0.075, 4.5] },
      { name: 'gpt-5.4-nano', tokens: [272_000, 128_000], usd: [0.2, 0.02, 1.25] },
      { name: 'gpt-5.5', tokens: [1_050_000, 128_000], usd: [5, 0.5, 30], over: [272_000, 10, 1, 45] },
      { name: 'gpt-5.6', tokens: [922_000, 128_000], usd: [4, 0.4, 20], over: [272_000, 8, 0.8, 30] },
      { name: 'gpt-5.6-sol', tokens: [922_000, 128_000], usd: [4, 0.4, 20], over: [272_000, 8, 0.8, 30] },
      { name: 'gpt-5.6-terra', tokens: [922_000, 128_000], usd: [2, 0.2, 12], over: [272_000, 4, 0.4, 18] },
      { name: 'gpt-5.6-luna', tokens: [922_000, 128_000], usd: [0.2, 0.02, 1.2], over: [272_000, 0.4, 0.04, 1.8] },
      { name: 'gpt-6-astra', tokens: [922_000, 128_000], usd: [10, 1, 50], over: [272_000, 20, 2, 75] },
      { name: 'gpt-6-sol', tokens: [922_000, 128_000], usd: [2, 0.2, 10], over: [272_000, 4, 0.4, 15] },
      { name: 'gpt-6-luna', tokens: [922_000, 128_000], usd: [0.1, 0.01, 0.5], over: [272_000, 0.2, 0.02, 0.75] },
      { name: 'gpt-6.1-sol', tokens: [922_000, 128_000], usd: [2, 0.1, 10], over: [272_000, 4, 0.2, 15] },
      { name: 'gpt-6.1-terra', tokens: [922_000, 128_000], usd: [1, 0.05, 5], over: [272_000, 2, 0.1, 7.5] },
    ],
  },
  {
    vendor: 'openai',
    abilities: { tools: true, toolChoice: true, parallelToolCalls: false, jsonSchema: true, images: true },
    models: [
      { name: 'o3', tokens: [200_000, 100_000], usd: [2, 0.5, 8] },
      { name: 'o3-pro', tokens: [200_000, 100_000], usd: [20, null, 80] },
    ],
  },
  {
    vendor: 'openai',
    abilities: {
      tools: true,
      toolChoice: true,
      streaming: false,
      parallelToolCalls: true,
      jsonSchema: true,
      images: true,
    },
    models: [{ name: 'gpt-5-pro', tokens: [400_000, 272_000], usd: [15, null, 120] }],
  },
  {
    vendor: 'anthropic',
    abilities: { tools: true, toolChoice: true, jsonSchema: true, images: true },
    models: [
      { name: 'claude-haiku-4-5', tokens: [200_000, 64_000], usd: [1, 0.1, 5] },
      { name: 'claude-sonnet-4-5', tokens: [200_000, 64_000], usd: [3, 0.3, 15] },
      { name: 'claude-sonnet-4-6', tokens: [1_000_000, 128_000], usd: [3, 0.3, 15] },
      { name: 'claude-opus-4-5', tokens: [200_000, 64_000], usd: [5, 0.5, 25] },
      { name: 'claude-opus-4-6', tokens: [1_000_000, 128_000], usd: [5, 0.5, 25] },
      { name: 'claude-opus-4-7', tokens: [1_000_000, 128_000], usd: [5, 0.5, 25] },
      { name: 'claude-opus-4-8', tokens: [1_000_000, 128_000], usd: [5, 0.5, 25] },
      { name: 'claude-sonnet-5', tokens: [1_000_000, 128_000], usd: [2, 0.2, 10] },
      { name: 'claude-opus-5', tokens: [1_000_000, 128_000], usd: [5, 0.5, 25] },
      { name: 'claude-fable-5', tokens: [1_000_000, 128_000], usd: [10, 1, 50] },
      { name: 'claude-mythos-5', tokens: [1_000_000, 128_000], usd: [10, 1, 50] },
      {
        name: 'claude-haiku-5-5',
        tokens: [1_000_000, 128_000],
        usd: [0.1, 0.01, 0.5],
        over: [100_000, 0.5, 0.05, 2.5],
      },
    ],
  },
  {
    vendor: 'anthropic',
    abilities: { tools: true, toolChoice: false, jsonSchema: true, images: true },
    models: [
      { name: 'claude-sonnet-5-5', tokens: [1_000_000, 128_000], usd: [2, 0.1, 10] },
      { name: 'claude-opus-5-5', tokens: [1_000_000, 128_000], usd: [4, 0.2, 20] },
      { name: 'claude-fable-5-1', tokens: [1_000_000, 128_000], usd: [10, 0.25, 50] },
      { name: 'claude-mythos-5-1', tokens: [1_000_000, 128_000], usd: [10, 0.25, 50] },
    ],
  },
  {
    vendor: 'google',
    abilities: { tools: true, toolChoice: true, jsonSchema: true, images: true },
    models: [
      { name: 'gemini-2.5-pro', tokens: [1_048_576, 65_536], usd: [1.25, 0.125, 10], over: [200_000, 2.5, 0.25, 15] },
    ],
  },
  {
    vendor: 'google',
    abilities: { tools: true, toolChoice: true, parallelToolCalls: true, jsonSchema: true, images: true },
    models: [
      { name: 'gemini-2.5-flash', tokens: [1_048_576, 65_536], usd: [0.3, 0.03, 2.5] },
      { name: 'gemini-2.5-flash-lite', tokens: [1_048_576, 65_536], usd: [0.1, 0.01, 0.4] },
    ],
  },
  {
    vendor: 'google',
    abilities: {
      tools: true,
      toolChoice: true,
      streaming: true,
      parallelToolCalls: true,
      jsonSchema: true,
      images: true,
    },
    models: [
      { name: 'gemini-3-flash-preview', tokens: [1_048_576, 65_536], usd: [0.5, 0.05, 3] },
      { name: 'gemini-3.1-flash-lite', tokens: [1_048_576, 65_536], usd: [0.25, 0.025, 1.5] },
      { name: 'gemini-3.5-flash', tokens: [1_048_576, 65_536], usd: [1.5, 0.15, 9] },
      { name: 'gemini-3.5-flash-lite', tokens: [1_048_576, 65_536], usd: [0.3, 0.03, 2.5] },
      { name: 'gemini-3.6-flash', tokens: [1_048_576, 65_536], usd: [0.75, 0.075, 3.75] },
      { name: 'gemini-3.7-flash', tokens: [1_048_576, 65_536], usd: [0.75, 0.075, 3.75] },
      { name: 'gemini-3.8-flash', tokens: [1_048_576, 65_536], usd: [0.75, 0.075, 3.75] },
      { name: 'gemini-4-argon', tokens: [1_048_576, 1_048_576], usd: [2, 0.1, 10] },
    ],
  },
  {
    vendor: 'google',
    abilities: { tools: true, toolChoice: true, streaming: true, jsonSchema: true, images: true },
    models: [
      { name: 'gemini-3.1-pro-preview', tokens: [1_048_576, 65_536], usd: [2, 0.2, 12], over: [200_000, 4, 0.4, 18] },
    ],
  },
  {
    vendor: 'mistral',
    abilities: { tools: true, toolChoice: true, jsonSchema: true, images: true },
    models: [
      { name: 'mistral-large-3', tokens: [262_144, 262_144], usd: [0.5, 0.05, 1.5] },
      { name: 'mistral-large-4', tokens: [1_048_576, 1_048_576], usd: [1.36, 0.14, 4.18] },
      { name: 'mistral-large-latest', tokens: [262_144, 262_144], usd: [0.5, 0.05, 1.5] },
      { name: 'mistral-medium-3', tokens: [262_144, 262_144], usd: [1.5, 0.15, 7.5] },
      { name: 'mistral-medium-3-5', tokens: [262_144, 262_144], usd: [1.5, 0.15, 7.5] },
      { name: 'mistral-medium-latest', tokens: [262_144, 262_144], usd: [1.5, 0.15, 7.5] },
      { name: 'mistral-small-2603', tokens: [262_144, 262_144], usd: [0.15, 0.015, 0.6] },
      { name: 'mistral-small-latest', tokens: [262_144, 262_144], usd: [0.15, 0.015, 0.6] },
      { name: 'magistral-medium-latest', tokens: [262_144, 262_144], usd: [1.5, 0.15, 7.5] },
      { name: 'magistral-small-latest', tokens: [262_144, 262_144], usd: [0.15, 0.015, 0.6] },
      { name: 'ministral-3-3b', tokens: [131_072, 131_072], usd: [0.1, 0.01, 0.1] },
      { name: 'ministral-3-8b', tokens: [262_144, 262_144], usd: [0.15, 0.015, 0.15] },
      { name: 'ministral-3-14b', tokens: [262_144, 262_144], usd: [0.2, 0.02, 0.2] },
    ],
  },
  {
    vendor: 'mistral',
    abilities: { tools: true, toolChoice: true, jsonSchema: true },
    models: [
      { name: 'codestral-2508', tokens: [128_000, 128_000], usd: [0.3, 0.03, 0.9] },
      { name: 'codestral-latest', tokens: [128_000, 128_000], usd: [0.3, 0.03, 0.9] },
      { name: 'devstral-small-latest', tokens: [256_000, 256_000], usd: [0.1, 0.01, 0.3] },
      { name: 'devstral-medium-latest', tokens: [256_000, 256_000], usd: [0.4, 0.04, 2] },
    ],
  },
  {
    vendor: 'deepseek',
    abilities: {
      tools: true,
      toolChoice: true,
      streaming: true,
      parallelToolCalls: true,
      jsonSchema: true,
      images: true,
    },
    models: [
      { name: 'deepseek-flash', tokens: [1_000_000, 393_216], usd: [0.3, 0.006, 1.2] },
      { name: 'deepseek-v4-flash', tokens: [1_000_000, 393_216], usd: [0.3, 0.006, 1.2] },
    ],
  },
  {
    vendor: 'deepseek',
    abilities: {
      tools: true,
      toolChoice: true,
      streaming: true,
      parallelToolCalls: true,
      jsonSchema: true,
      images: false,
    },
    models: [{ name: 'deepseek-v4-pro', tokens: [1_000_000, 393_216], usd: [1.32, 0.044, 3.96] }],
  },
];

/**
 * Well-known models of OpenAI, Anthropic, Google, Mistral and DeepSeek, with the vendors' list prices of
 * LiteLLM 1.109.1; what a model refuses is that of its profile. Prices change: override what matters by `ModelRegistry.with`.
 */
export function knownModels(): readonly ModelInfo[] {
  return table.flatMap(({ vendor, abilities, models }) =>
    models.map((row) => {
      const { rules } = profileOf({ name: endpoints[vendor], model: row.name });
      const { refuses, refusesWhileReasoning, reasonsByDefault } = rules;
      return {
        vendor,
        endpoint: vendor,
        abilities: { ...abilities, reasonsByDefault },
        refuses: reasonsByDefault ? [...new Set([...refuses, ...refusesWhileReasoning])] : refuses,
        asOf,
        ...infoOf(row),
      };
    }),
  );
}

function infoOf({ name, tokens: [maxInputTokens, maxOutputTokens], usd, over }: ModelRow): ModelInfo {
  if (over === undefined) return { name, maxInputTokens, maxOutputTokens, prices: pricesOf(usd) };
  const [above, ...prices] = over;
  const long = { above, ...pricesOf(prices) };
  return { name, maxInputTokens, maxOutputTokens, prices: { ...pricesOf(usd), long } };
}

function pricesOf([input, cachedInput, output]: PriceRow): TokenPrices {
  return cachedInput === null ? { input, output } : { input, cachedInput, output };
}
