import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { jsonValues, ObjectStart, withoutAbsent } from 'millrace/internals';

const ok = { verdict: 'ok' };
const json = '{"verdict":"ok"}';

describe('the JSON values of an answer', () => {
  it.each([
    ['bare', json],
    ['behind a byte order mark', `\uFEFF${json}`],
    ['in a fence', `\`\`\`json\n${json}\n\`\`\``],
    ['in a fence between sentences', `Sure:\n\`\`\`\n${json}\n\`\`\`\nAnything else?`],
    ['behind a sentence', `Here is the JSON:\n${json}`],
    ['before a sentence', `${json}\n\nI hope that {this} helps [see above].`],
    ['behind thinking that has braces', `<think>hm {"verdict":"no"}</think>\n\n${json}`],
    ['behind thinking without its first tag', `hm {"verdict":"no"}</think>${json}`],
    ['behind thinking in capitals', `<THINKING>{"verdict":"no"}</THINKING>${json}`],
    ['behind a stray bracket', `Use { and [ with care: ${json}`],
    ['twice', `${json} that is ${json}`],
  ])('M-14 are read %s', (_, text) => {
    expect(jsonValues(text)).toEqual([ok]);
  });

  it.each([
    ['with a comma too many', '{"verdict":"ok","more":{"verdict":"no"},}'],
    ['with single quotes', "{'verdict':'ok'}"],
    ['cut off', '{"verdict":"ok","more":{"verdict":"no"}'],
    ['in thinking that never ends', `<think>${json}`],
    ['absent', 'No.'],
  ])('M-14 are none where JSON is %s', (_, text) => {
    expect(jsonValues(text)).toEqual([]);
  });

  it('M-14 are all, where an answer has several', () => {
    expect(jsonValues(`${json} or {"verdict":"no"} or ["a"]`)).toEqual([ok, { verdict: 'no' }, ['a']]);
  });

  it('M-14 are any value that stands in a fence', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (value) => {
        expect(jsonValues(`So:\n\`\`\`json\n${JSON.stringify(value)}\n\`\`\`\n`)).toEqual([
          JSON.parse(JSON.stringify(value)),
        ]);
      }),
    );
  });

  it('are found in linear time, whatever brackets there are', () => {
    for (const unit of ['[', '{', '{"', '<think>', '{"a":[', 'x{ '])
      expect(jsonValues(unit.repeat(100_000))).toEqual([]);
  });
});

describe('where the object of a streamed answer begins', () => {
  it.each([
    ['<think>hm {"a":1}</think>```json\n{"a":2}\n```', '{"a":2}\n```'],
    ['Use {braces}: { "a" : 2 } ', '{ "a" : 2 } '],
    ['{}', '{}'],
    ['nothing', ''],
  ])('is found however %j is cut', (text, rest) => {
    fc.assert(
      fc.property(fc.array(fc.nat(text.length)), (cuts) => {
        const start = new ObjectStart();
        const places = [0, ...cuts.toSorted((a, b) => a - b), text.length];
        const found = places.slice(1).map((to, index) => start.push(text.slice(places[index], to)));
        expect(found.join('')).toBe(rest);
      }),
    );
  });
});

describe('null for a member that is absent', () => {
  const optional = { type: 'object', properties: { a: { type: 'string' }, b: { type: 'string' } }, required: ['a'] };

  it.each([
    [optional, { a: 'x', b: null }, { a: 'x' }],
    [optional, { a: null, c: null }, { a: null, c: null }],
    [{ type: 'object', properties: { a: { type: ['string', 'null'] } } }, { a: null }, { a: null }],
    [{ type: 'object', properties: { a: {} } }, { a: null }, { a: null }],
    [{ type: 'object', properties: { a: { enum: ['x'] }, c: { const: 1 } } }, { a: null, c: null }, {}],
    [{ type: 'array', items: optional }, [{ a: 'x', b: null }], [{ a: 'x' }]],
    [{ anyOf: [optional, { type: 'null' }] }, { a: 'x', b: null }, { a: 'x' }],
    [{ additionalProperties: optional }, { k: { a: 'x', b: null } }, { k: { a: 'x' } }],
    [
      { $ref: '#/$defs/node', $defs: { node: { properties: { n: { $ref: '#/$defs/node' }, s: { type: 'string' } } } } },
      { n: { n: null, s: null }, s: null },
      { n: {} },
    ],
  ])('is left out by %j', (schema, value, rest) => {
    expect(withoutAbsent(value, schema)).toEqual(rest);
  });

  it('leaves the same value where there is none', () => {
    const value = { a: 'x', list: [{ b: 1 }] };
    expect(withoutAbsent(value, optional)).toBe(value);
  });
});
