import { describe, expect, it } from '@jest/globals';
import { SentText } from 'millrace/internals';
import { charactersPassed } from '../characters-passed.ts';

const answerOf = (pieces: number) => Array.from({ length: pieces }, (_, i) => `word ${i % 10} `);

describe('SentText', () => {
  it('costs the length of an answer, also after a restart', () => {
    const costOf = (pieces: number) =>
      charactersPassed(() => {
        const sent = new SentText(true);
        for (const piece of answerOf(pieces)) sent.add(piece);
        sent.restart();
        for (const piece of answerOf(pieces)) sent.add(piece);
      });
    expect(costOf(8_000)).toBe(8 * costOf(1_000));
    expect(costOf(8_000)).toBeLessThan(8_000 * 'word 0 '.length * 10);
  });

  it('sends nothing twice after a restart, however the pieces are cut, and what follows', () => {
    for (let size = 1; size <= 12; size++) {
      const sent = new SentText(true);
      const first = ['Hello ', 'wor'].map((piece) => sent.add(piece));
      sent.restart();
      const whole = 'Hello world.';
      const again = Array.from({ length: Math.ceil(whole.length / size) }, (_, i) =>
        sent.add(whole.slice(i * size, (i + 1) * size)),
      );
      expect([...first, ...again].join('')).toBe(whole);
      expect([sent.text, sent.stands, sent.isUnsent]).toEqual([whole, true, false]);
    }
  });

  it('sends nothing of a text that differs, nor one that ends before what was sent; a further restart may repeat it', () => {
    const sent = new SentText(true);
    sent.add('Hello world.');
    sent.restart();
    expect([sent.add('Hello'), sent.stands, sent.add(' you'), sent.add(' there, again.'), sent.stands]).toEqual([
      ...['', false, undefined, undefined, false],
    ]);
    sent.restart();
    expect([sent.add('Hello world.'), sent.stands, sent.add(' Bye.'), sent.stands]).toEqual(['', true, ' Bye.', true]);
  });

  it('gives each piece where only the whole text is sent', () => {
    const sent = new SentText(false);
    const given = [sent.add('One')];
    sent.restart();
    given.push(sent.add('Two'));
    expect([given, sent.text, sent.stands, sent.isUnsent]).toEqual([['One', 'Two'], 'Two', true, true]);
  });
});
