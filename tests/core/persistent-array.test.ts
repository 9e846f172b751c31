import { describe, expect, it } from '@jest/globals';
import { PersistentArray } from '../../src/core/journal/persistent-array.ts';

describe('PersistentArray', () => {
  it('keeps the elements of every version, whichever is read or changed first', () => {
    const first = new PersistentArray(['a', 'b', 'c']);
    const second = first.with(1, 'B');
    const third = second.with(0, 'A').with(1, 'x');
    const branch = first.with(2, 'C');
    const versions = [first, second, third, branch];
    const elements = versions.map(({ length, at }, which) =>
      Array.from({ length }, (_, index) => at.call(versions[which], index)).join(''),
    );
    expect(elements).toEqual(['abc', 'aBc', 'Axc', 'abC']);
    expect(versions.map(({ list }) => list.join(''))).toEqual(elements);
    expect(third.with(2, 'y').list.join('')).toBe('Axy');
    expect(third.list.join('')).toBe('Axc');
    expect(first.at(3)).toBeUndefined();
  });

  it('W-12 copies no element where the newest version is changed', () => {
    const many = 10_000;
    const elements = Array.from({ length: many }, (_, index) => index);
    let version = new PersistentArray(elements);
    for (let index = 0; index < many; index++) version = version.with(index, -index);
    expect(elements[many - 1]).toBe(1 - many);
    expect(version.at(many - 1)).toBe(1 - many);
  });
});
