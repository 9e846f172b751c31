import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { type SseEvent, sseDecoder } from 'millrace/internals';
import { charactersPassed } from '../../characters-passed.ts';
import { cutAt } from '../piecewise.ts';

const utf8 = new TextEncoder();

function decode(pieces: readonly Uint8Array[]): readonly SseEvent[] {
  const events: SseEvent[] = [];
  const decoder = sseDecoder((event) => events.push(event));
  for (const piece of pieces) decoder.write(piece);
  decoder.end();
  return events;
}

const decodeText = (text: string) => decode([utf8.encode(text)]);

describe('sseDecoder', () => {
  it('gives data and name of each event, and forgets the name afterwards', () => {
    expect(decodeText('event: error\ndata: a\n\ndata: b\n\n')).toEqual([
      { data: 'a', name: 'error', whole: true },
      { data: 'b', name: '', whole: true },
    ]);
  });

  it('removes one space after the colon, no more, and takes a field without a colon', () => {
    const data = decodeText('data:a\n\ndata:  b\n\ndata\n\n').map((event) => event.data);
    expect(data).toEqual(['a', ' b', '']);
  });

  it('ignores comments, unknown fields and events without data', () => {
    expect(decodeText(': data: x\n\nid: 1\nretry: 5\ndatabase: y\n\nevent: ping\n\n')).toEqual([]);
  });

  it('tells an event that the end cut off from a whole one', () => {
    expect(decodeText('data: a\n\ndata: b')).toEqual([
      { data: 'a', name: '', whole: true },
      { data: 'b', name: '', whole: false },
    ]);
  });

  it('replaces bytes that are not UTF-8, and a character that the end cut off', () => {
    expect(
      decode([utf8.encode('data: a'), Uint8Array.of(0xff), utf8.encode('b\n\ndata: '), Uint8Array.of(0xe2, 0x82)]),
    ).toEqual([
      { data: 'a\uFFFDb', name: '', whole: true },
      { data: '\uFFFD', name: '', whole: false },
    ]);
  });

  it('gives back any texts, with any line end, cut at any bytes', () => {
    const text = fc.string({ unit: 'grapheme', minLength: 1 }).filter((value) => !/[\r\n]/.test(value));
    const lineEnd = fc.constantFrom('\n', '\r\n', '\r');
    fc.assert(
      fc.property(
        fc.array(fc.array(text, { minLength: 1, maxLength: 3 })),
        lineEnd,
        fc.array(fc.nat(500)),
        (events, end, cuts) => {
          const stream = events.map((lines) => lines.map((line) => `data: ${line}${end}`).join('') + end).join('');
          const bytes = utf8.encode(stream);
          const pieces = cutAt(
            bytes,
            cuts.map((cut) => cut % (bytes.length + 1)),
          );
          expect(decode(pieces)).toEqual(events.map((lines) => ({ data: lines.join('\n'), name: '', whole: true })));
        },
      ),
    );
  });

  it('passes by no character more than a few times: a line of a thousand pieces, and a thousand lines in one piece', () => {
    const piece = utf8.encode('x'.repeat(1_024));
    const oneLine = [utf8.encode('data: '), ...Array.from({ length: 1_024 }, () => piece)];
    const manyLines = [utf8.encode('data: x\r\n\r\n'.repeat(1_024))];
    for (const pieces of [oneLine, manyLines]) {
      const bytes = pieces.reduce((sum, { byteLength }) => sum + byteLength, 0);
      const passed = charactersPassed(() => decode(pieces));
      expect(passed).toBeGreaterThan(bytes);
      expect(passed).toBeLessThan(10 * bytes);
    }
  });
});
