import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { JSONSchema } from 'millrace';
import { parseXml, toXml, xmlTemplate } from 'millrace/internals';
import { typedObject } from './random-schema.ts';

const schema: JSONSchema = {
  type: 'object',
  properties: {
    title: { type: 'string' },
    score: { type: 'number' },
    count: { type: 'integer' },
    sure: { type: 'boolean' },
    tags: { type: 'array', items: { type: 'string' } },
    author: { $ref: '#/$defs/person' },
    readers: { type: 'array', items: { $ref: '#/$defs/person' } },
    note: { anyOf: [{ type: 'string' }, { type: 'null' }] },
  },
  $defs: { person: { type: 'object', properties: { name: { type: 'string' }, age: { type: 'integer' } } } },
};

const read = (text: string, of: JSONSchema = schema) => {
  const parsed = parseXml(text, of);
  return parsed.ok ? parsed.value : parsed.flaw;
};

describe('parseXml', () => {
  it('reads entities, nested objects, lists, numbers and booleans', () => {
    const text = `<output>
      <title>Tom &amp; Jerry &lt;3 &#x41;&#66;&quot;&apos;</title>
      <score>-1.5e2</score><count>12</count><sure>True</sure>
      <tags><item>a</item><item>b &gt; c</item></tags>
      <author><name>Ann</name><age>41</age></author>
      <readers><item><name>Bo</name><age>7</age></item><item><name>Cy</name></item></readers>
      <note>null</note>
    </output>`;
    expect(read(text)).toEqual({
      title: 'Tom & Jerry <3 AB"\'',
      score: -150,
      count: 12,
      sure: true,
      tags: ['a', 'b > c'],
      author: { name: 'Ann', age: 41 },
      readers: [{ name: 'Bo', age: 7 }, { name: 'Cy' }],
      note: null,
    });
  });

  it('is the inverse of toXml for values of any schema', () => {
    fc.assert(
      fc.property(typedObject, ({ schema: any, value }) => {
        expect(parseXml(toXml(value, 'output'), any)).toStrictEqual({ ok: true, value });
      }),
      { numRuns: 500 },
    );
  });

  it('reads text that stands in CDATA or between comments as it is', () => {
    expect(read('<output><title> <![CDATA[ if (a < b && c) </title> ]]> </title></output>')).toEqual({
      title: ' if (a < b && c) </title> ',
    });
    expect(read('<output><title>one<!-- <title> --> two</title><!-- <score>1</score> --></output>')).toEqual({
      title: 'one two',
    });
  });

  it('finds the element within other text, without caring for capitals, and takes the last that holds something', () => {
    expect(read('Sure!\n```xml\n<Output><Score>3</SCORE></OUTPUT>\n```\nAnything else?')).toEqual({ score: 3 });
    const template = xmlTemplate(schema);
    expect(read(`The form was:\n${template}\nFilled in:\n<output><score>3</score></output>`)).toEqual({ score: 3 });
    expect(read('<output><score>3</score></output> (as asked: one <output></output> element)')).toEqual({ score: 3 });
  });

  it('ends elements whose closing tags are missing where the next known one begins', () => {
    expect(read('<output><title>Hello<score>3</score><sure>true')).toEqual({ title: 'Hello', score: 3, sure: true });
    expect(read('<output><title>Hello<score>3</output> Bye')).toEqual({ title: 'Hello', score: 3 });
    expect(read('<output><tags><item>a<item>b</tags><count>1</count></output>')).toEqual({
      tags: ['a', 'b'],
      count: 1,
    });
    expect(read('<output><tags><item>a</item><count>1</count></output>')).toEqual({ tags: ['a'], count: 1 });
    expect(read('<output><author><name>Ann<age>41<score>2</score></output>')).toEqual({
      author: { name: 'Ann', age: 41 },
      score: 2,
    });
  });

  it('ends an element with the one around it, though its own closing tag comes too late', () => {
    expect(read('<output><author><name>Ann</author><score>1</score></name></output>')).toEqual({
      author: { name: 'Ann' },
      score: 1,
    });
  });

  it('takes unknown tags and bare signs within a text as text', () => {
    expect(read('<output><title>use <b>bold</b> if a<b && c > d &nbsp; &</title></output>')).toEqual({
      title: 'use <b>bold</b> if a<b && c > d &nbsp; &',
    });
    expect(read('<output><title>the <score> tag</title><score>1</score></output>')).toEqual({
      title: 'the <score> tag',
      score: 1,
    });
  });

  it('passes over elements that the schema does not know, and looks into them', () => {
    expect(read('<output><thought>Hm</thought><fields><score>3</score></fields></nothing></output>')).toEqual({
      score: 3,
    });
  });

  it('joins a list that stands as repeated elements, and lets the last of another repeated element count', () => {
    expect(read('<output><tags>a</tags><tags>b</tags><score>1</score><score>2</score></output>')).toEqual({
      tags: ['a', 'b'],
      score: 2,
    });
    expect(read('<output><readers><reader><name>Bo</name></reader></readers></output>')).toEqual({
      readers: [{ name: 'Bo' }],
    });
  });

  it('tells empty elements by what the schema wants', () => {
    expect(read('<output><title/><tags/><author></author><readers> </readers><score></score></output>')).toEqual({
      title: '',
      tags: [],
      author: {},
      readers: [],
      score: '',
    });
  });

  it('leaves what does not fit as text, for the check of the schema', () => {
    expect(
      read('<output><score>high</score><count>1,000</count><sure>yes</sure><author>Ann</author></output>'),
    ).toEqual({
      score: 'high',
      count: '1,000',
      sure: 'yes',
      author: 'Ann',
    });
  });

  it('reads members without the element around them', () => {
    expect(read('<title>Hello</title>\n<score>3</score>')).toEqual({ title: 'Hello', score: 3 });
  });

  it('says in words why there is nothing', () => {
    expect(read('')).toMatch(/^The answer is empty; it must be <output>/);
    expect(read('I would rather not.')).toMatch(/^The answer has no element <output>; it must be <output>/);
    expect(read('<output></output>')).toEqual({});
  });

  it('reads a schema that leads back to itself, as deep as the answer goes', () => {
    const tree: JSONSchema = {
      $ref: '#/$defs/node',
      $defs: { node: { type: 'object', properties: { v: { type: 'integer' }, next: { $ref: '#/$defs/node' } } } },
    };
    expect(read('<output><v>1</v><next><v>2</v><next><v>3</v></next></next></output>', tree)).toEqual({
      v: 1,
      next: { v: 2, next: { v: 3 } },
    });
    expect(() => read(`<output>${'<next>'.repeat(20_000)}`, tree)).not.toThrow();
  });

  it('lays alternatives one over the other', () => {
    const shapes: JSONSchema = {
      oneOf: [
        { type: 'object', properties: { kind: { const: 'circle' }, r: { type: 'number' } } },
        { type: 'object', properties: { kind: { const: 'square' }, side: { type: ['number', 'string'] } } },
      ],
    };
    expect(read('<output><kind>square</kind><side>2</side></output>', shapes)).toEqual({ kind: 'square', side: 2 });
    expect(read('<output><kind>square</kind><side>2 m</side></output>', shapes)).toEqual({
      kind: 'square',
      side: '2 m',
    });
  });

  it('takes a text that may also be something else for that only where it is written just so', () => {
    const either = (...types: readonly string[]): JSONSchema => ({
      type: 'object',
      properties: {
        x: { anyOf: types.map((type) => ({ type, ...(type === 'object' ? { properties: { y: {} } } : {}) })) },
      },
    });
    expect(read('<output><x>007</x></output>', either('string', 'number'))).toEqual({ x: '007' });
    expect(read('<output><x>7</x></output>', either('string', 'number'))).toEqual({ x: 7 });
    expect(read('<output><x>True</x></output>', either('string', 'boolean'))).toEqual({ x: 'True' });
    expect(read('<output><x><b>bold</b> text</x></output>', either('string', 'object'))).toEqual({
      x: '<b>bold</b> text',
    });
    expect(read('<output><x><y>bold</y></x></output>', either('string', 'object'))).toEqual({ x: { y: 'bold' } });
  });

  it('never throws, whatever the text', () => {
    const piece = fc.oneof(
      fc.constantFrom(
        '<output>',
        '</output>',
        '<tags>',
        '</tags>',
        '<item>',
        '</item>',
        '<author>',
        '</author>',
        '<name>',
      ),
      fc.constantFrom(
        '<',
        '>',
        '&',
        '&#',
        '&#x110000;',
        '&#xD800;',
        '<!--',
        '-->',
        '<![CDATA[',
        ']]>',
        '<title/>',
        '<a b="',
        '"',
      ),
      fc.string({ unit: 'binary', maxLength: 4 }),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
        const parsed = parseXml(pieces.join(''), schema);
        expect(parsed.ok ? 'value' in parsed : parsed.flaw.length > 0).toBe(true);
      }),
      { numRuns: 200 },
    );
  });
});
