import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { Usage } from 'millrace';
import { costOf } from 'millrace/internals';

const usage = (promptTokens: number, completionTokens: number, parts: Partial<Usage> = {}): Usage => ({
  promptTokens,
  completionTokens,
  totalTokens: promptTokens + completionTokens,
  ...parts,
});

describe('costOf', () => {
  const prices = { input: 1.25, cachedInput: 0.125, output: 10 };

  it('charges each token once, cached and reasoning ones at their own prices', () => {
    expect(costOf(usage(1_000_000, 0), prices)).toBe(1.25);
    expect(costOf(usage(1_000, 200), prices)).toBe(0.00325);
    expect(costOf(usage(1_000, 200, { cachedTokens: 600, reasoningTokens: 150 }), prices)).toBe(0.002575);
    expect(costOf(usage(1_000, 200, { reasoningTokens: 150 }), { ...prices, reasoning: 20 })).toBe(0.00475);
    expect(costOf(usage(1_000, 0, { cachedTokens: 600 }), { input: 2, output: 4 })).toBe(0.002);
  });

  it('charges a whole call at the long prices where its prompt is longer', () => {
    const long = { ...prices, long: { above: 1_000, input: 2.5, cachedInput: 0.25, output: 15 } };
    expect(costOf(usage(1_000, 100), long)).toBe(0.00225);
    expect(costOf(usage(1_001, 100), long)).toBe(0.0040025);
    expect(costOf(usage(1_001, 0, { cachedTokens: 1_000 }), long)).toBe(0.0002525);
    const { cachedInput: _, ...uncached } = long.long;
    expect(costOf(usage(2_000, 0, { cachedTokens: 1_000 }), { ...long, long: uncached })).toBe(0.005);
  });

  it('adds up without the errors of floating point', () => {
    expect(0.1 * 3).not.toBe(0.3);
    expect(costOf(usage(3_000_000, 0), { input: 0.1, output: 0 })).toBe(0.3);
    expect(costOf(usage(1, 0), { input: 0.006, output: 0 })).toBe(0.000000006);
    expect(costOf(usage(1, 0), { input: 0.0005, output: 0 })).toBe(0.000000001);
    expect(costOf(usage(9_007_199_254, 0), { input: 150, output: 600 })).toBe(1351079.8881);
  });

  it('is the sum by hand, to a billionth, for any usage', () => {
    const count = fc.nat(2_000_000);
    const price = fc.nat(100_000).map((milli) => milli / 1_000);
    fc.assert(
      fc.property(fc.tuple(count, count, count, count), fc.tuple(price, price, price, price), (counts, list) => {
        const [plain, cachedTokens, said, reasoningTokens] = counts;
        const [input, cachedInput, output, reasoning] = list;
        const cost = costOf(usage(plain + cachedTokens, said + reasoningTokens, { cachedTokens, reasoningTokens }), {
          input,
          cachedInput,
          output,
          reasoning,
        });
        const products = counts.map((tokens, index) => tokens * Math.round((list[index] ?? 0) * 1_000));
        const nano = products.reduce((sum, each) => sum + each, 0);
        expect(cost).toBe(nano / 1e9);
      }),
    );
  });

  it('never charges a part beyond its whole, nor what is no count', () => {
    expect(costOf(usage(100, 0, { cachedTokens: 900 }), prices)).toBe(0.0000125);
    expect(costOf(usage(0, 100, { reasoningTokens: 900 }), { ...prices, reasoning: 20 })).toBe(0.002);
    expect(costOf(usage(Number.NaN, -5), prices)).toBe(0);
    expect(costOf(usage(1.5, Number.POSITIVE_INFINITY), prices)).toBe(0);
  });
});
