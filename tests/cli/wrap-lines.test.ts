import { expect, it } from '@jest/globals';
import { wrapLines } from 'millrace/internals';

it('puts as many words into a line as fit', () => {
  expect(wrapLines('one  two three\nfour', 9)).toEqual(['one two', 'three', 'four']);
  expect(wrapLines('a bcdefghijk l', 5)).toEqual(['a', 'bcdefghijk', 'l']);
  expect(wrapLines(' ', 5)).toEqual([]);
});
