import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { columnsOf, cut, oneLine, pad, resultLine, withoutControls } from 'millrace/internals';

describe('oneLine', () => {
  it.each<[unknown, string]>([
    [undefined, ''],
    [null, 'null'],
    [42, '42'],
    [{}, ''],
    [{ expression: '12 * 7' }, '12 * 7'],
    [{ path: 'src', depth: 2 }, 'path: src, depth: 2'],
    [{ filter: { a: [1, 2] } }, '{"a":[1,2]}'],
    [['a', 'b', 3], 'a, b, 3'],
    ['two\nlines', 'two lines'],
    ['tabs\tand  spaces', 'tabs and spaces'],
    [{ big: 1n }, '1'],
  ])('%p reads %p', (value, expected) => {
    expect(oneLine(value)).toBe(expected);
  });

  it('shows a value that refers to itself', () => {
    const self: Record<string, unknown> = { name: 'x' };
    self['self'] = self;
    expect(oneLine(self)).toBe('name: x, self: [object Object]');
  });

  it('never breaks the line or steers the terminal, whatever the value', () => {
    fc.assert(
      fc.property(fc.anything(), fc.string({ unit: 'binary' }), (value, text) => {
        for (const line of [oneLine({ value, text }), oneLine(text), resultLine(text)])
          expect(line).not.toMatch(/[\p{Cc}]/u);
      }),
    );
  });
});

describe('resultLine', () => {
  it.each([
    ['84', '84'],
    ['{"zone":"Asia/Tokyo","time":{"h":7}}', 'Asia/Tokyo, {"h":7}'],
    ['[1,2]', '1, 2'],
    ['{not json', '{not json'],
    ['first\n\n  second  \nthird', '4 lines: first'],
    ['\nfirst\nsecond\n', '2 lines: first'],
    [' only one \n', 'only one'],
    ['', ''],
  ])('%p reads %p', (text, expected) => {
    expect(resultLine(text)).toBe(expected);
  });
});

it('leaves out of a result what was given', () => {
  expect(resultLine('{"zone":"Asia/Tokyo","day":"Sunday"}', 'Asia/Tokyo')).toBe('Sunday');
  expect(resultLine('{"zone":"Asia/Tokyo"}', 'Asia/Tokyo')).toBe('Asia/Tokyo');
});

describe('columns', () => {
  it('counts wide characters twice and combining ones not at all', () => {
    expect([columnsOf('abc'), columnsOf('東京'), columnsOf('👍'), columnsOf('e\u0301')]).toEqual([3, 4, 2, 1]);
  });

  it('cuts with an ellipsis, and only where it has to', () => {
    expect([cut('abcdef', 6), cut('abcdef', 5), cut('ab   cdef', 6), cut('東京都', 5), cut('abc', 0)]).toEqual([
      'abcdef',
      'abcd…',
      'ab…',
      '東京…',
      '',
    ]);
    expect(cut('abcdefgh', 6, '...')).toBe('abc...');
  });

  it('never takes more columns than it has', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.nat(40), (text, columns) => {
        expect(columnsOf(cut(text, columns))).toBeLessThanOrEqual(columns);
      }),
    );
  });

  it('pads to a column', () => {
    expect([pad('ab', 4), pad('東', 4), pad('abcdef', 4)]).toEqual(['ab  ', '東  ', 'abcdef']);
  });
});

describe('withoutControls', () => {
  it('keeps text, line feeds and tabs, and takes away what steers the terminal', () => {
    expect(withoutControls('a\tb\nc\r\u001b[2Jd\u0007\u009b1A\u202ee')).toBe('a\tb\nc[2Jd1Ae');
  });
});
