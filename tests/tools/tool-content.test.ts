import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { type ContentPart, contentParts } from 'millrace';
import { toContent } from 'millrace/internals';
import { Observable, of } from 'rxjs';
import { thrownBy } from './thrown.ts';

class Point {
  readonly x = 1;
  readonly y = 2;
}

const texts: readonly (readonly [value: unknown, text: string])[] = [
  ['as it is\n', 'as it is\n'],
  ['', ''],
  [undefined, ''],
  [0, '0'],
  [-0, '0'],
  [false, 'false'],
  [null, 'null'],
  [1.5, '1.5'],
  [Number.NaN, 'NaN'],
  [Number.POSITIVE_INFINITY, 'Infinity'],
  [123456789012345678901n, '123456789012345678901'],
  [{ n: 5n }, '{"n":"5"}'],
  [[], '[]'],
  [{}, '{}'],
  [Object.create(null), '{}'],
  [{ a: [1, { b: '"' }], c: undefined }, '{"a":[1,{"b":"\\""}]}'],
  [new Map([['a', 1]]), '{"a":1}'],
  [new Map(), '{}'],
  [new Map<unknown, unknown>([[1, 'one']]), '[[1,"one"]]'],
  [new Set([1, 'two']), '[1,"two"]'],
  [{ all: new Set(), by: new Map([['x', new Map()]]) }, '{"all":[],"by":{"x":{}}}'],
  [new Date(0), '1970-01-01T00:00:00.000Z'],
  [new URL('https://example.com/a'), 'https://example.com/a'],
  [new Point(), '{"x":1,"y":2}'],
  [
    [{ status: 'rejected', reason: new RangeError('far') }],
    '[{"status":"rejected","reason":{"name":"RangeError","message":"far"}}]',
  ],
  [[{ type: 'text', text: 'data, not a part' }], '[{"type":"text","text":"data, not a part"}]'],
];

it.each(texts)('gives %p as %p', (value, text) => {
  expect(toContent(value, 'look')).toBe(text);
});

it('gives any JSON value as a text that parses to it', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      fc.pre(typeof value !== 'string');
      const text = toContent(value, 'look');
      expect(typeof text === 'string' && JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)));
    }),
  );
});

describe('what is no result', () => {
  const circular: Record<string, unknown> = {};
  circular['self'] = circular;
  async function* lines(): AsyncGenerator<string> {
    yield 'line';
  }
  const refused: readonly (readonly [what: string, value: unknown, message: string])[] = [
    [
      'an object that holds itself',
      circular,
      'Tool "look" returned a value that has no JSON form (Converting circular structure to JSON); return plain data.',
    ],
    ['a Buffer', Buffer.from('x'), 'binary data, which contentParts() can hand over as an image or a file'],
    ['bytes in data', { bytes: new Uint8Array(2) }, 'binary data'],
    ['an ArrayBuffer', { bytes: new ArrayBuffer(2) }, 'binary data'],
    ['a function', () => {}, 'Tool "look" returned a function; return data or a string.'],
    ['a symbol', Symbol('x'), 'returned a symbol; return data or a string.'],
    ['an async generator', lines(), 'returned a AsyncGenerator; read it to its end and return what it gave.'],
    ['an Observable', new Observable(), 'returned a Observable; read it to its end'],
    ['a piped Observable', of(1).pipe(), 'read it to its end'],
    ['a Response', new Response('x'), 'returned a Response that shows no data as JSON; return the data it stands for.'],
    ['a pattern', /x/, 'returned a RegExp that shows no data as JSON'],
    [
      'a toJSON that throws',
      {
        toJSON: () => {
          throw new Error('not ready');
        },
      },
      'has no JSON form (not ready)',
    ],
  ];

  it.each(refused)('refuses %s', async (_, value, message) => {
    const error = await thrownBy(() => toContent(value, 'look'));
    expect(error.code).toBe('TOOL_FAILED');
    expect(error.message).toContain(message);
  });

  it('throws an error that was returned', () => {
    const error = new RangeError('far');
    expect(() => toContent(error, 'look')).toThrow(error);
  });
});

describe('contentParts', () => {
  it('stays parts', () => {
    const parts: ContentPart[] = [
      { type: 'text', text: 'a map' },
      { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } },
    ];
    const marked = contentParts(parts);
    parts.pop();
    expect(toContent(marked, 'look')).toEqual([
      { type: 'text', text: 'a map' },
      { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } },
    ]);
  });

  it('needs a part', async () => {
    expect((await thrownBy(() => contentParts([]))).code).toBe('INVALID_INPUT');
  });
});
