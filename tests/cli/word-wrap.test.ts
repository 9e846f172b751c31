import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { WordWrap } from 'millrace/internals';

const backspace = new RegExp(`^${String.fromCharCode(27)}\\[(\\d+)D${String.fromCharCode(27)}\\[K`);

/** A terminal of that many columns, as far as the wrapper uses it: the lines that stand on it in the end. */
function screen(written: string, columns: number): string[] {
  const lines = [''];
  for (let rest = written; rest !== ''; ) {
    const last = lines.at(-1) ?? '';
    const back = backspace.exec(rest);
    if (back !== null) lines[lines.length - 1] = last.slice(0, last.length - Number(back[1]));
    else if (rest.startsWith('\n')) lines.push('');
    else if (last.length < columns) lines[lines.length - 1] = last + rest.charAt(0);
    else lines.push(rest.charAt(0));
    rest = rest.slice(back?.[0].length ?? 1);
  }
  return lines;
}

function piecesOf(text: string, lengths: readonly number[]): string[] {
  let rest = text;
  const pieces = lengths.map((length) => {
    const piece = rest.slice(0, length);
    rest = rest.slice(length);
    return piece;
  });
  return [...pieces, rest];
}

function wrapped(pieces: readonly string[], columns: number): string {
  const wrap = new WordWrap();
  return pieces.map((piece) => wrap.add(piece, columns)).join('');
}

describe('WordWrap', () => {
  it('breaks between words, and moves a word that was begun', () => {
    expect(screen(wrapped(['one two ', 'th', 'ree', ' four'], 10), 10)).toEqual(['one two ', 'three ', 'four']);
    expect(wrapped(['one two ', 'th', 'ree'], 12)).toBe('one two th\u001b[2D\u001b[K\nthree');
  });

  it('keeps the lines that the text has', () => {
    expect(screen(wrapped(['a\n\nbb cc\n', 'dd'], 6), 6)).toEqual(['a', '', 'bb cc', 'dd']);
  });

  it('leaves a word that is longer than a line to the terminal', () => {
    expect(screen(wrapped(['a ', 'bcdefghijk'], 5), 5).join('')).toBe('a bcdefghijk');
  });

  it('loses and adds no word, and breaks no word that fits, whatever the pieces', () => {
    const word = fc.stringMatching(/^[a-z]{1,12}$/);
    fc.assert(
      fc.property(
        fc.array(word, { maxLength: 30 }),
        fc.array(fc.nat(6)),
        fc.integer({ min: 13, max: 40 }),
        (words, cuts, columns) => {
          const text = words.join(' ');
          const lines = screen(wrapped(piecesOf(text, cuts), columns), columns);
          expect(lines.flatMap((line) => line.split(' ').filter((part) => part !== ''))).toEqual(words);
          expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(columns);
        },
      ),
    );
  });
});
