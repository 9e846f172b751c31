import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { GrowingText } from 'millrace/internals';

describe('GrowingText', () => {
  it('is the text of its pieces since it was cleared, however many there are', () => {
    const pieces = fc.array(fc.string({ maxLength: 3 }), { maxLength: 1_000, size: 'max' });
    const property = fc.property(pieces, pieces, (before, after) => {
      const text = new GrowingText();
      for (const piece of before) text.add(piece);
      expect(text.toString()).toBe(before.join(''));
      text.clear();
      expect(text.isEmpty).toBe(true);
      for (const piece of after) text.add(piece);
      expect(text.toString()).toBe(after.join(''));
      expect(text.isEmpty).toBe(after.join('') === '');
    });
    fc.assert(property, { numRuns: 50 });
  });

  it('gives any part of itself', () => {
    const pieces = fc.array(fc.string({ maxLength: 3 }), { maxLength: 1_000, size: 'max' });
    const place = fc.nat(1_500);
    const property = fc.property(pieces, place, place, (all, from, to) => {
      const text = new GrowingText();
      for (const piece of all) text.add(piece);
      const whole = all.join('');
      expect(text.length).toBe(whole.length);
      expect(text.slice(from, Math.max(from, to))).toBe(whole.slice(from, Math.max(from, to)));
      expect(text.slice(from)).toBe(whole.slice(from));
    });
    fc.assert(property, { numRuns: 200 });
  });
});
