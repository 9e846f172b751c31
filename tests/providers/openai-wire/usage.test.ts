import { describe, expect, it } from '@jest/globals';
import { usageOf } from 'millrace/internals';

describe('usageOf', () => {
  it('S1-44 maps the counts, cached and reasoning tokens as parts, and the cost', () => {
    const usage = usageOf({
      prompt_tokens: 10,
      completion_tokens: 7,
      total_tokens: 17,
      prompt_tokens_details: { cached_tokens: 4 },
      completion_tokens_details: { reasoning_tokens: 5 },
      cost: 0.002,
    });
    expect(usage).toEqual({
      promptTokens: 10,
      completionTokens: 7,
      totalTokens: 17,
      cachedTokens: 4,
      reasoningTokens: 5,
      cost: 0.002,
    });
  });

  it("takes DeepSeek's spelling of cached tokens, and details that are null", () => {
    const usage = usageOf({
      prompt_tokens: 10,
      completion_tokens: 1,
      total_tokens: 11,
      prompt_cache_hit_tokens: 8,
      prompt_tokens_details: null,
    });
    expect(usage).toEqual({ promptTokens: 10, completionTokens: 1, totalTokens: 11, cachedTokens: 8 });
  });

  it('adds the reasoning that xAI counts beside the completion', () => {
    const details = { completion_tokens_details: { reasoning_tokens: 320 } };
    const usage = usageOf({ prompt_tokens: 12, completion_tokens: 2, total_tokens: 334, ...details });
    expect(usage).toEqual({ promptTokens: 12, completionTokens: 322, totalTokens: 334, reasoningTokens: 320 });
  });

  it('adds up the total where it is not told', () => {
    expect(usageOf({ prompt_tokens: 3, completion_tokens: 4 })).toEqual({
      promptTokens: 3,
      completionTokens: 4,
      totalTokens: 7,
    });
    expect(usageOf({ prompt_tokens: 3 })).toEqual({ promptTokens: 3, completionTokens: 0, totalTokens: 3 });
  });

  it.each([[null], ['7'], [[]], [{}], [{ prompt_tokens: '3' }], [{ prompt_tokens: -1 }]])(
    'gives nothing for %j',
    (wire) => {
      expect(usageOf(wire)).toBeUndefined();
    },
  );
});
