import { describe, expect, it } from '@jest/globals';
import { createStyle, wantsColor, wantsUnicode } from 'millrace/internals';

describe('style', () => {
  it.each([
    [true, {}, true],
    [false, {}, false],
    [true, { NO_COLOR: '1' }, false],
    [true, { NO_COLOR: '' }, true],
    [true, { TERM: 'dumb' }, false],
    [false, { FORCE_COLOR: '1' }, true],
    [true, { FORCE_COLOR: '0' }, false],
    [false, { FORCE_COLOR: '', NO_COLOR: '1' }, true],
  ])('on a terminal: %p with %p colours: %p', (isTerminal, env, expected) => {
    expect(wantsColor(isTerminal, env)).toBe(expected);
  });

  it('paints only where colour is wanted', () => {
    expect(createStyle({ color: true, unicode: true }).red('no')).toBe('\u001b[31mno\u001b[39m');
    expect(createStyle({ color: false, unicode: true }).red('no')).toBe('no');
  });

  it('draws in ASCII where the terminal says that it can do little', () => {
    expect([wantsUnicode({ TERM: 'dumb' }), wantsUnicode({ TERM: 'linux' }), wantsUnicode({})]).toEqual([
      false,
      false,
      true,
    ]);
    const { glyphs } = createStyle({ color: false, unicode: false });
    expect(JSON.stringify(glyphs)).toMatch(/^[ -~]*$/);
  });
});
