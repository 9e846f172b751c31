import { describe, expect, it } from '@jest/globals';
import { UsageReader, withCost } from 'millrace/internals';

const usageOf = (...wires: readonly unknown[]) => {
  const reader = new UsageReader();
  for (const wire of wires) reader.add(wire);
  return reader.usage;
};

const counted = (promptTokens: number, completionTokens: number, more: object = {}) => ({
  promptTokens,
  completionTokens,
  totalTokens: promptTokens + completionTokens,
  ...more,
});

const openAi = { prompt_tokens: 100, completion_tokens: 5, total_tokens: 105 };

describe('UsageReader', () => {
  it.each<[place: string, wire: unknown]>([
    ['the body', openAi],
    ['usage', { usage: openAi }],
    ['the choice of Moonshot', { choices: [{ index: 0, delta: {}, usage: openAi }] }],
    ['the delta of a choice', { choices: [{ index: 0, delta: { usage: openAi } }] }],
    ['the message of a choice', { choices: [{ message: { content: 'Hi', usage: openAi } }] }],
    ['x_groq', { choices: [], x_groq: { id: 'req_1', usage: openAi } }],
    ['x_groq beside a usage of null', { usage: null, x_groq: { usage: openAi } }],
    ['a message', { type: 'message_start', message: { usage: openAi } }],
    ['a delta', { type: 'message_delta', delta: { usage: openAi } }],
    ['the event of a response', { type: 'response.completed', response: { usage: openAi } }],
    ['the metadata of a stream of Bedrock', { metadata: { usage: { inputTokens: 100, outputTokens: 5 } } }],
    ['the result of Cloudflare', { result: { response: 'Hi', usage: openAi } }],
  ])('M-17 finds usage in %s', (_place, wire) => {
    expect(usageOf(wire)).toEqual(counted(100, 5));
  });

  it.each<[vendor: string, usage: object, expected: object]>([
    [
      'OpenAI, chat completions',
      {
        ...openAi,
        prompt_tokens_details: { cached_tokens: 64 },
        completion_tokens_details: { reasoning_tokens: 3 },
      },
      counted(100, 5, { cachedTokens: 64, reasoningTokens: 3 }),
    ],
    [
      'OpenAI, responses',
      {
        input_tokens: 100,
        output_tokens: 5,
        total_tokens: 105,
        input_tokens_details: { cached_tokens: 64, cache_write_tokens: 10 },
        output_tokens_details: { reasoning_tokens: 3 },
      },
      counted(100, 5, { cachedTokens: 64, cacheWriteTokens: 10, reasoningTokens: 3 }),
    ],
    [
      'Anthropic: cached tokens are beside the input',
      { input_tokens: 10, cache_read_input_tokens: 80, cache_creation_input_tokens: 20, output_tokens: 5 },
      counted(110, 5, { cachedTokens: 80, cacheWriteTokens: 20 }),
    ],
    [
      'Anthropic: also where they are fewer than the input',
      { input_tokens: 100, cache_read_input_tokens: 20, cache_creation_input_tokens: 0, output_tokens: 5 },
      counted(120, 5, { cachedTokens: 20 }),
    ],
    [
      'Bedrock: cached tokens are beside the input',
      { inputTokens: 10, outputTokens: 5, totalTokens: 115, cacheReadInputTokens: 80, cacheWriteInputTokens: 20 },
      counted(110, 5, { cachedTokens: 80, cacheWriteTokens: 20 }),
    ],
    [
      'a gateway whose total says that the input contains what the cache gave',
      { input_tokens: 100, output_tokens: 5, total_tokens: 105, cache_read_input_tokens: 64 },
      counted(100, 5, { cachedTokens: 64 }),
    ],
    [
      "Anthropic's as LiteLLM passes it on",
      { ...openAi, cache_read_input_tokens: 64, cache_creation_input_tokens: 12 },
      counted(100, 5, { cachedTokens: 64, cacheWriteTokens: 12 }),
    ],
    [
      'Google: thoughts are beside the candidates, pages that a tool read beside the prompt',
      {
        promptTokenCount: 20,
        candidatesTokenCount: 100,
        thoughtsTokenCount: 60,
        toolUsePromptTokenCount: 7,
        totalTokenCount: 187,
        cachedContentTokenCount: 16,
      },
      counted(27, 160, { cachedTokens: 16, reasoningTokens: 60 }),
    ],
    [
      'Google: an answer that ended while it thought',
      { promptTokenCount: 20, thoughtsTokenCount: 60, totalTokenCount: 80 },
      counted(20, 60, { reasoningTokens: 60 }),
    ],
    [
      'Google, interactions',
      { total_input_tokens: 20, total_output_tokens: 10, total_thought_tokens: 60, total_tokens: 90 },
      counted(20, 70, { reasoningTokens: 60 }),
    ],
    [
      'DeepSeek',
      { ...openAi, prompt_cache_hit_tokens: 64, prompt_cache_miss_tokens: 36, prompt_tokens_details: null },
      counted(100, 5, { cachedTokens: 64 }),
    ],
    ['Moonshot', { ...openAi, cached_tokens: 64 }, counted(100, 5, { cachedTokens: 64 })],
    [
      'OpenRouter',
      { ...openAi, cost: 0.002, cost_details: { upstream_inference_cost: null }, prompt_tokens_details: null },
      counted(100, 5, { cost: 0.002 }),
    ],
    [
      'OpenRouter with a key of its user',
      { ...openAi, cost: 0.0001, is_byok: true, cost_details: { upstream_inference_cost: 0.002 } },
      counted(100, 5, { cost: 0.002 }),
    ],
    [
      'Perplexity',
      { ...openAi, cost: { input_tokens_cost: 0.001, output_tokens_cost: 0.001, total_cost: 0.002 } },
      counted(100, 5, { cost: 0.002 }),
    ],
    [
      'xAI: reasoning is beside the completion',
      {
        prompt_tokens: 12,
        completion_tokens: 400,
        total_tokens: 732,
        completion_tokens_details: { reasoning_tokens: 320 },
      },
      counted(12, 720, { reasoningTokens: 320 }),
    ],
    [
      'more reasoning than completion, without a total',
      { prompt_tokens: 12, completion_tokens: 2, completion_tokens_details: { reasoning_tokens: 320 } },
      counted(12, 322, { reasoningTokens: 320 }),
    ],
    [
      "Google's OpenAI endpoint: thinking is in the total alone",
      { prompt_tokens: 25, completion_tokens: 150, total_tokens: 575 },
      counted(25, 550),
    ],
    [
      'a total that has the cached part more',
      { prompt_tokens: 10, completion_tokens: 5, total_tokens: 79, prompt_tokens_details: { cached_tokens: 64 } },
      counted(74, 5, { cachedTokens: 64 }),
    ],
    [
      'a total that has the cached part and the reasoning more',
      {
        prompt_tokens: 70,
        completion_tokens: 5,
        total_tokens: 142,
        cached_tokens: 64,
        completion_tokens_details: { reasoning_tokens: 3 },
      },
      counted(134, 8, { cachedTokens: 64, reasoningTokens: 3 }),
    ],
    [
      'Cohere',
      { billed_units: { input_tokens: 90, output_tokens: 5 }, tokens: { input_tokens: 100, output_tokens: 5 } },
      counted(100, 5),
    ],
    [
      'camel case',
      { promptTokens: 100, completionTokens: 5, promptTokensDetails: { cachedTokens: 4 } },
      counted(100, 5, { cachedTokens: 4 }),
    ],
    [
      'strings of digits',
      { prompt_tokens: '100', completion_tokens: '5', cost: '0.002' },
      counted(100, 5, { cost: 0.002 }),
    ],
    ['a total alone', { total_tokens: 30 }, counted(0, 30)],
    ['a prompt alone', { prompt_tokens: 3 }, counted(3, 0)],
  ])('M-17 reads the counts of %s', (_vendor, usage, expected) => {
    expect(usageOf({ usage })).toEqual(expected);
  });

  it.each<[what: string, wire: object, expected: object]>([
    ['Ollama', { model: 'm', done: true, prompt_eval_count: 100, eval_count: 5 }, counted(100, 5)],
    [
      'llama.cpp',
      { choices: [], timings: { cache_n: 64, prompt_n: 36, prompt_ms: 30.9, predicted_n: 5 } },
      counted(100, 5, { cachedTokens: 64 }),
    ],
    [
      'llama.cpp with a usage',
      { usage: openAi, timings: { cache_n: 64, prompt_n: 36, predicted_n: 5 } },
      counted(100, 5, { cachedTokens: 64 }),
    ],
    ['Google', { usageMetadata: { promptTokenCount: 100, candidatesTokenCount: 5 } }, counted(100, 5)],
    ['Cohere', { meta: { tokens: { input_tokens: 100, output_tokens: 5 } } }, counted(100, 5)],
  ])('M-17 reads the counts that stand beside the answer of %s', (_what, wire, expected) => {
    expect(usageOf(wire)).toEqual(expected);
  });

  const zeros = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };
  it.each<[what: string, usages: readonly unknown[]]>([
    ['zeros first', [zeros, openAi]],
    ['zeros last', [openAi, zeros]],
    ['null in the other chunks', [null, openAi, null]],
    ['nothing last', [openAi, {}]],
    ['the same twice', [openAi, openAi]],
    ['growing numbers', [{ ...openAi, completion_tokens: 1, total_tokens: 101 }, openAi]],
    ['the input first and the output last', [{ input_tokens: 100, output_tokens: 1 }, { output_tokens: 5 }]],
    ['an input of zero beside the output', [{ input_tokens: 100 }, { input_tokens: 0, output_tokens: 5 }]],
    ['a total alone last', [{ prompt_tokens: 100, completion_tokens: 5 }, { total_tokens: 105 }]],
  ])('M-17 keeps the counts over chunks with %s', (_what, usages) => {
    expect(usageOf(...usages.map((usage) => ({ choices: [], usage })))).toEqual(counted(100, 5));
  });

  it('M-17 counts once what a cache gave where each event says it again', () => {
    const start = { input_tokens: 10, cache_read_input_tokens: 90, output_tokens: 1 };
    expect(usageOf({ message: { usage: start } }, { usage: { ...start, output_tokens: 5 } })).toEqual(
      counted(100, 5, { cachedTokens: 90 }),
    );
  });

  it.each([
    [null],
    ['7'],
    [[]],
    [{}],
    [{ usage: 7 }],
    [{ usage: [] }],
    [{ usage: zeros }],
    [{ usage: { prompt_tokens: -1 } }],
    [{ usage: { prompt_tokens: 'many', completion_tokens: '' } }],
    [{ choices: 'none', message: null, timings: 'fast' }],
  ])('gives nothing for %j', (wire) => {
    expect(usageOf(wire)).toBeUndefined();
  });
});

describe('withCost', () => {
  const usage = counted(100, 5);
  it.each<[header: string | null | undefined, cost: object]>([
    ['0.002', { cost: 0.002 }],
    ['0', {}],
    ['None', {}],
    ['', {}],
    [null, {}],
    [undefined, {}],
  ])('reads the header %j', (header, cost) => {
    expect(withCost(usage, header)).toEqual({ ...usage, ...cost });
  });

  it('keeps the cost of the body', () => {
    expect(withCost({ ...usage, cost: 0.1 }, '0.002')).toEqual({ ...usage, cost: 0.1 });
  });

  it('gives nothing without usage', () => {
    expect(withCost(undefined, '0.002')).toBeUndefined();
  });
});
