import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { type KeyPart, SortedParts } from 'millrace/internals';

const inOrder = (one: KeyPart, other: KeyPart) => {
  if (typeof one !== typeof other) return typeof one === 'number' ? -1 : 1;
  return one < other ? -1 : 1;
};
const aPart = fc.oneof(
  fc.integer({ min: 0, max: 2_000 }),
  fc.string({ minLength: 1, maxLength: 2, unit: 'binary-ascii' }),
);
const aBound = fc.option(aPart, { nil: undefined });

describe('parts of keys in order', () => {
  it('are those of a sorted array, however they were added and removed', () => {
    fc.assert(
      fc.property(
        fc.array(aPart, { minLength: 300, maxLength: 3_000, size: 'max' }),
        fc.array(fc.record({ from: aBound, to: aBound, limit: fc.option(fc.nat(200), { nil: undefined }) }), {
          maxLength: 5,
        }),
        (given, slices) => {
          const parts = new SortedParts();
          const known = new Set<KeyPart>();
          for (const part of given) {
            if (known.delete(part)) parts.remove(part);
            else {
              known.add(part);
              parts.add(part);
            }
          }
          const all = [...known].sort(inOrder);
          expect(parts.slice()).toEqual(all);
          for (const { from, to, limit } of slices) {
            const within = all.filter(
              (part) =>
                (from === undefined || inOrder(part, from) > 0 || part === from) &&
                (to === undefined || (part !== to && inOrder(part, to) < 0)),
            );
            expect(parts.slice({ from, to, limit })).toEqual(within.slice(0, limit));
          }
          for (const part of all) parts.remove(part);
          expect(parts.isEmpty).toBe(true);
        },
      ),
      { numRuns: 200 },
    );
  });

  it('C-08 are added and removed without moving more than a few others', () => {
    const { splice } = Array.prototype;
    let most = 0;
    Array.prototype.splice = function (this: unknown[], ...given: [number, number, ...unknown[]]) {
      most = Math.max(most, this.length - given[0]);
      return splice.apply(this, given) as unknown[];
    };
    try {
      const parts = new SortedParts();
      // A number and its inverse modulo a prime: in no order, each once.
      const added = Array.from({ length: 5_000 }, (_, n) => (n * 7_919) % 5_003);
      for (const part of added) parts.add(part);
      for (const part of added) parts.remove(part);
      expect(parts.isEmpty).toBe(true);
    } finally {
      Array.prototype.splice = splice;
    }
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(200);
  });
});
