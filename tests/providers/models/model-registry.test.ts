import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { ModelRegistry } from 'millrace';
import { knownModels } from 'millrace/internals';

const registry = new ModelRegistry();
const nameOf = (name: string) => registry.find(name)?.name;

describe('ModelRegistry', () => {
  it.each([
    ['gpt-5', 'gpt-5'],
    ['GPT-5', 'gpt-5'],
    ['gpt-5-2025-08-07', 'gpt-5'],
    ['openai/gpt-5-mini', 'gpt-5-mini'],
    ['gpt-4o-mini-2024-07-18', 'gpt-4o-mini'],
    ['openrouter/anthropic/claude-sonnet-4-5', 'claude-sonnet-4-5'],
    ['claude-sonnet-4-5-20250929', 'claude-sonnet-4-5'],
    ['vertex_ai/claude-sonnet-4-5@20250929', 'claude-sonnet-4-5'],
    ['bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0', 'claude-sonnet-4-5'],
    ['models/gemini-2.5-flash-preview-05-20', 'gemini-2.5-flash'],
    ['gemini/gemini-2.5-pro', 'gemini-2.5-pro'],
    ['mistral/mistral-large-latest', 'mistral-large-latest'],
    ['ministral-3-8b-2512', 'ministral-3-8b'],
    ['deepseek/deepseek-v4-pro', 'deepseek-v4-pro'],
  ])('finds %s as %s', (asked, known) => {
    expect(nameOf(asked)).toBe(known);
  });

  it.each(['gpt-5-turbo', 'gpt-5.9', 'gpt-5-99', 'claude-opus-4-99', 'gpt-4o-audio-preview', 'mine', 'openai/', ''])(
    'does not take %j for a relative',
    (name) => {
      expect(registry.find(name)).toBeUndefined();
    },
  );

  it('finds the longest name that is known: the way first, then the name alone', () => {
    const own = registry.with({ name: 'azure/GPT-5', prices: { input: 3, output: 4 } });
    expect(own.find('azure/gpt-5-2025-08-07')?.prices?.input).toBe(3);
    expect(own.find('openai/gpt-5')?.prices?.input).toBe(registry.find('gpt-5')?.prices?.input);
    expect(own.with({ name: 'gpt-5-2025-08-07', vendor: 'me' }).find('gpt-5-2025-08-07')?.vendor).toBe('me');
  });

  it('takes additions and corrections, member by member, and stays as it was', () => {
    const own = registry.with(
      { name: 'gpt-5', prices: { input: 9, output: 9 } },
      { name: 'mine', maxInputTokens: 4_096 },
    );
    expect(own.find('gpt-5')).toEqual({ ...registry.find('gpt-5'), prices: { input: 9, output: 9 } });
    expect(own.find('gpt-5')?.maxInputTokens).toBe(registry.find('gpt-5')?.maxInputTokens);
    expect(own.find('mine')).toEqual({ name: 'mine', maxInputTokens: 4_096 });
    expect(registry.find('mine')).toBeUndefined();
    expect(new ModelRegistry([{ name: 'mine' }]).names).toEqual(['mine']);
  });

  it('names the closest models where one is required that it does not know', () => {
    expect(registry.requireModel('openai/gpt-5').name).toBe('gpt-5');
    expect(() => registry.requireModel('openai/gtp-5-mini-2025-08-07')).toThrow(
      expect.objectContaining({
        code: 'INVALID_CONFIG',
        message: expect.stringMatching(/^The model "openai\/gtp-5-mini-2025-08-07" is not known; .*: gpt-5-mini.*with/),
      }),
    );
    expect(() => registry.requireModel('zzzzzzzzzzzz')).toThrow(/is not known; tell what/);
  });

  it('answers for any name without fail', () => {
    const part = fc.constantFrom('gpt-5', 'openai/', 'us.', '-2025-08-07', '-latest', '/', '.', '-', '@', '123', 'x');
    fc.assert(
      fc.property(
        fc.array(part).map((parts) => parts.join('')),
        (name) => {
          const found = registry.find(name);
          if (found) expect(name.toLowerCase()).toContain(found.name);
        },
      ),
    );
  });
});

describe('knownModels', () => {
  it('are found under their own names, each once', () => {
    const names = knownModels().map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    for (const model of knownModels()) expect(registry.find(model.name)).toEqual(model);
  });

  it('have limits and prices that make sense', () => {
    for (const { name, maxInputTokens = 0, maxOutputTokens = 0, prices, asOf } of knownModels()) {
      expect(asOf).toMatch(/^20\d\d-\d\d-\d\d$/);
      expect([name, maxInputTokens >= 100_000, maxOutputTokens >= 16_000]).toEqual([name, true, true]);
      for (const list of [prices, prices?.long].filter((each) => each !== undefined)) {
        expect(list.input).toBeGreaterThan(0);
        expect(list.output).toBeGreaterThanOrEqual(list.input);
        expect(list.cachedInput ?? list.input).toBeLessThanOrEqual(list.input);
      }
      if (prices?.long) expect(prices.long.input).toBeGreaterThan(prices.input);
    }
  });
});
