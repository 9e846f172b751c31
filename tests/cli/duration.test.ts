import { describe, expect, it } from '@jest/globals';
import { duration, elapsed } from 'millrace/internals';

describe('duration', () => {
  it.each([
    [0, '0 ms'],
    [3.4, '3 ms'],
    [999.4, '999 ms'],
    [999.6, '1.0 s'],
    [59_949, '59.9 s'],
    [59_960, '1 min 00 s'],
    [125_000, '2 min 05 s'],
  ])('%p ms reads %p', (ms, expected) => expect(duration(ms)).toBe(expected));

  it.each([
    [-5, '0.0 s'],
    [449, '0.4 s'],
    [2300, '2.3 s'],
  ])('%p ms so far reads %p', (ms, expected) => expect(elapsed(ms)).toBe(expected));
});
