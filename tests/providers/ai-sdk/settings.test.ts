import { describe, expect, it } from '@jest/globals';
import { goldenRequests } from './request-of-call.ts';
import { anthropic, google, openai, type VendorWire } from './vendor-wires.ts';

const { requestOf } = goldenRequests();
const tool = {
  type: 'function' as const,
  function: { name: 'look', description: 'Looks.', parameters: { type: 'object', properties: {} } },
};
const prompt = { messages: [{ role: 'user' as const, content: 'Hi' }], tools: [tool] };

async function bodyOf(wire: VendorWire, model: string, settings: object) {
  return (await requestOf({ ...wire, model: `${wire.model.split(':')[0]}:${model}` }, { ...prompt, ...settings })).body;
}

describe('M-18 reasoning, as each family of models takes it', () => {
  it.each<[string, unknown, object]>([
    ['claude-opus-4-8', 'low', { thinking: { type: 'adaptive' }, output_config: { effort: 'low' } }],
    [
      'claude-opus-4-8',
      { budgetTokens: 9_000 },
      { thinking: { type: 'adaptive' }, output_config: { effort: 'medium' } },
    ],
    ['claude-sonnet-4-5', 'low', { thinking: { type: 'enabled', budget_tokens: 4_096 } }],
    ['claude-sonnet-4-5-20250929', { budgetTokens: 5 }, { thinking: { type: 'enabled', budget_tokens: 1_024 } }],
    ['glm-5.3', 'high', { thinking: { type: 'enabled', budget_tokens: 24_576 } }],
  ])('Anthropic: %s %j', async (model, reasoning, members) => {
    expect(await bodyOf(anthropic, model, { reasoning })).toMatchObject(members);
  });

  it('Anthropic: a model that does not think gets no thinking', async () => {
    expect((await bodyOf(anthropic, 'claude-3-5-haiku-latest', { reasoning: 'high' }))['thinking']).toBeUndefined();
  });

  it.each<[string, unknown, object]>([
    ['gemini-3.6-flash', 'none', { thinkingLevel: 'minimal' }],
    ['gemini-3.1-pro-preview', 'minimal', { thinkingLevel: 'low', includeThoughts: true }],
    ['gemini-2.5-flash', 'none', { thinkingBudget: 0 }],
    ['gemini-2.5-pro', 'none', { thinkingBudget: 128 }],
    ['gemini-2.5-flash', { budgetTokens: 99_999 }, { thinkingBudget: 24_576, includeThoughts: true }],
  ])('Google: %s %j', async (model, reasoning, thinkingConfig) => {
    expect((await bodyOf(google, model, { reasoning }))['generationConfig']).toEqual({ thinkingConfig });
  });

  it.each<[string, unknown, object | undefined]>([
    ['gpt-5.6-sol', 'high', { effort: 'high', summary: 'auto' }],
    ['gpt-5.6-sol', 'none', { effort: 'none' }],
    ['openai/gpt-5.6-sol', 'minimal', { effort: 'low', summary: 'auto' }],
    ['gpt-5-mini', 'minimal', { effort: 'minimal', summary: 'auto' }],
    ['o4-mini', 'none', { effort: 'low', summary: 'auto' }],
    ['gpt-6-sol', { budgetTokens: 2_000 }, { effort: 'low', summary: 'auto' }],
    ['gpt-4.1', 'high', undefined],
  ])('OpenAI: %s %j', async (model, reasoning, wire) => {
    expect((await bodyOf(openai, model, { reasoning }))['reasoning']).toEqual(wire);
  });
});

describe('M-18 other settings', () => {
  it('topP, stop and seed go where the vendor has them', async () => {
    const settings = { topP: 0.5, stop: ['END'], seed: 7 };
    expect(await bodyOf(anthropic, 'claude-sonnet-4-5', settings)).toMatchObject({
      top_p: 0.5,
      stop_sequences: ['END'],
    });
    const { generationConfig } = await bodyOf(google, 'gemini-2.5-flash', settings);
    expect(generationConfig).toMatchObject({ topP: 0.5, stopSequences: ['END'], seed: 7 });
    expect((await bodyOf(openai, 'gpt-4.1', settings))['top_p']).toBe(0.5);
    expect((await bodyOf(openai, 'gpt-5.6-sol', settings))['top_p']).toBeUndefined();
  });

  it('one call at a time', async () => {
    const settings = { parallelToolCalls: false };
    expect((await bodyOf(openai, 'gpt-5.1', settings))['parallel_tool_calls']).toBe(false);
    expect((await bodyOf(anthropic, 'claude-sonnet-4-5', settings))['tool_choice']).toEqual({
      type: 'auto',
      disable_parallel_tool_use: true,
    });
  });

  it('cache marks the prompt for Anthropic, and for no vendor that wants no mark', async () => {
    expect(JSON.stringify(await bodyOf(anthropic, 'claude-sonnet-4-5', { cache: true }))).toContain(
      '"cache_control":{"type":"ephemeral"}',
    );
    expect(JSON.stringify(await bodyOf(openai, 'gpt-5.1', { cache: true }))).not.toContain('cache_control');
  });

  it('the options of the vendor win over the settings', async () => {
    const settings = { reasoning: 'high', providerOptions: { openai: { reasoningEffort: 'low' } } };
    expect((await bodyOf(openai, 'gpt-5.1', settings))['reasoning']).toMatchObject({ effort: 'low' });
  });
});
