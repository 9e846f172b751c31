import { describe, expect, it } from '@jest/globals';
import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import type { JSONSchema } from 'millrace';
import {
  fitOutputSchema,
  fitToolDescription,
  fitToolSchema,
  type SchemaRules,
  schemaDialects,
  schemaFlaws,
} from 'millrace/internals';
import { z } from 'zod';
import { anySchema, describedValue } from './random-tool-schema.ts';

/** Each set of rules once. */
const dialects: readonly (readonly [string, SchemaRules])[] = [
  ...new Map<SchemaRules, string>(Object.entries(schemaDialects).map(([name, rules]) => [rules, name])),
].map(([rules, name]) => [name, rules]);
const strict = schemaDialects['openai-strict'];

function fits(schema: JSONSchema, value: unknown): boolean {
  return new Ajv2020({ strict: false, validateFormats: false, validateSchema: false }).validate(schema, value);
}

describe.each(dialects)('a schema for %s', (_, rules) => {
  it('M-12 has no flaw once it is fitted, whatever it was, and is then fitted already', () => {
    fc.assert(
      fc.property(anySchema, (schema) => {
        const { schema: fitted } = fitToolSchema(schema, rules);
        expect(schemaFlaws(fitted, rules)).toEqual([]);
        expect(fitToolSchema({ ...fitted }, rules).changes).toEqual([]);
        const output = fitOutputSchema(schema, rules);
        const sentBy = output.strict || rules.relaxed === undefined ? rules : rules.relaxed;
        if (output.strict || rules.relaxed !== undefined) expect(schemaFlaws(output.schema, sentBy)).toEqual([]);
      }),
      { numRuns: 200 },
    );
  });

  it('M-12 accepts what the given one accepts, and no more unless it says so', () => {
    fc.assert(
      fc.property(describedValue, fc.jsonValue(), ({ schema, value }, other) => {
        const given = { type: 'object', properties: { p: schema }, required: ['p'] };
        const { schema: fitted, loose } = fitToolSchema(given, rules);
        expect(fits(fitted, { p: value })).toBe(true);
        if (!loose && fits(fitted, { p: other })) expect(fits(given, { p: other })).toBe(true);
      }),
      { numRuns: 40 },
    );
  });

  it('is fitted for any depth, width and number of references', () => {
    let deep: JSONSchema = { type: 'string' };
    for (let level = 0; level < 20_000; level++) deep = { anyOf: [{ type: 'object', properties: { a: deep } }] };
    const $defs = Object.fromEntries(
      Array.from({ length: 40 }, (_, level) => {
        const next = { $ref: `#/$defs/d${Math.min(39, level + 1)}` };
        return [`d${level}`, { type: 'object', properties: { a: next, b: next } }];
      }),
    );
    const doubling = { type: 'object', properties: { a: { $ref: '#/$defs/d0' } }, $defs };
    const wide = {
      type: 'object',
      properties: Object.fromEntries(Array.from({ length: 6_000 }, (_, n) => [`p${n}`, {}])),
    };
    for (const schema of [deep, doubling, wide, { $ref: '#' }, { allOf: [{ $ref: '#' }] }])
      expect(schemaFlaws(fitToolSchema(schema, rules).schema, rules)).toEqual([]);
  });
});

describe('a schema of a tool', () => {
  const node = {
    type: 'object',
    properties: { name: { type: 'string' }, parts: { type: 'array', items: { $ref: '#/definitions/node' } } },
  };
  const tree = { type: 'object', properties: { root: { $ref: '#/definitions/node' } }, definitions: { node } };
  const inside = (schema: unknown) => ({ type: 'object', properties: { p: schema } });

  it('is sent as it is if the vendor accepts it', () => {
    const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
    for (const [name, rules] of dialects)
      if (rules.closed === undefined)
        expect([name, fitToolSchema(schema, rules).schema === schema]).toEqual([name, true]);
  });

  it('keeps the members that each branch of a union at the root requires', () => {
    const preview = { type: 'object', properties: { mode: { const: 'preview' } }, required: ['mode'] };
    const apply = { properties: { mode: { const: 'apply' }, id: { type: 'string' } }, required: ['mode', 'id'] };
    for (const keyword of ['oneOf', 'anyOf'])
      expect(fitToolSchema({ type: 'object', [keyword]: [preview, apply] }, schemaDialects.anthropic)).toEqual({
        schema: {
          type: 'object',
          properties: { mode: { enum: ['preview', 'apply'] }, id: { type: 'string' } },
          required: ['mode'],
          description: `Give ${keyword === 'oneOf' ? 'exactly' : 'at least'} one of: mode "preview"; mode "apply" with id`,
        },
        changes: [`${keyword} was joined to one object at the root`],
        loose: true,
      });
  });

  it.each([
    ['openai', { type: 'object' }, { type: 'object', properties: {} }],
    ['openai', inside({ type: 'array' }), inside({ type: 'array', items: {} })],
    [
      'openai',
      inside({ type: 'string', pattern: '^(?!x)' }),
      inside({ type: 'string', description: 'pattern: "^(?!x)"' }),
    ],
    ['openai', inside({ type: ['array', 'any'], required: true }), inside({ type: ['array'], items: {} })],
    [
      'anthropic',
      inside({ type: 'array', items: [{ type: 'string' }] }),
      inside({ type: 'array', prefixItems: [{ type: 'string' }] }),
    ],
    [
      'anthropic',
      { type: 'object', properties: { 'a b': {}, c: {} }, required: ['a b'] },
      { type: 'object', properties: { c: {} }, required: [], description: 'Also takes "a b": {}' },
    ],
    ['google', inside({ type: 'string', enum: ['a', ''] }), inside({ type: 'string', enum: ['a'] })],
    ['google', inside({ const: 'a' }), inside({ type: 'string', enum: ['a'] })],
    [
      'google',
      { type: 'object', properties: {}, required: ['a'] },
      {
        type: 'object',
        properties: { a: { anyOf: [{ type: 'string' }, { type: 'number' }, { type: 'boolean' }] } },
        required: ['a'],
      },
    ],
    [
      'google-openapi',
      inside({ type: ['string', 'null'], minLength: 1 }),
      inside({ type: 'string', nullable: true, minLength: 1 }),
    ],
    [
      'google-openapi',
      inside({ type: 'integer', enum: [0, 2] }),
      inside({ type: 'integer', description: 'One of: 0, 2' }),
    ],
    [
      'google-openapi',
      inside({ anyOf: [{ type: 'string' }, { type: 'null' }], description: 'W' }),
      inside({ type: 'string', nullable: true, description: 'W' }),
    ],
    ['moonshot', inside({ type: 'string', anyOf: [{ minLength: 1 }] }), inside({ type: 'string', minLength: 1 })],
    [
      'moonshot',
      tree,
      {
        type: 'object',
        properties: { root: { $ref: '#/$defs/node' } },
        $defs: {
          node: {
            ...node,
            properties: { name: { type: 'string' }, parts: { type: 'array', items: { $ref: '#/$defs/node' } } },
          },
        },
      },
    ],
    [
      'bedrock',
      { ...inside({ $ref: '#/$defs/a' }), description: 'W', $defs: { a: { type: 'string' } } },
      inside({ type: 'string' }),
    ],
    [
      'llama-cpp',
      inside({ type: 'string', maxLength: 100_000 }),
      inside({ type: 'string', description: 'maxLength: 100000' }),
    ],
  ] as const)('becomes what %s accepts: %j', (dialect, given, sent) => {
    expect(fitToolSchema(given, schemaDialects[dialect]).schema).toEqual(sent);
  });

  it('is remembered for its object', () => {
    const schema = inside({ type: 'array' });
    expect(fitToolSchema(schema, schemaDialects.openai).schema).toBe(
      fitToolSchema(schema, schemaDialects.openai).schema,
    );
  });

  it('has a description of 1,024 characters at most, cut after a word', () => {
    const words = fitToolDescription('word '.repeat(400), schemaDialects.openai);
    expect(words.length).toBeLessThanOrEqual(1_024);
    expect(words).toMatch(/word…$/);
    expect(fitToolDescription('a'.repeat(2_000), schemaDialects.anthropic)).toHaveLength(2_000);
  });
});

describe('M-13 a schema of an answer', () => {
  const sent = (schema: z.ZodType) => fitOutputSchema({ ...z.toJSONSchema(schema, { io: 'input' }) }, strict);

  it.each([
    ['an object', z.object({ a: z.string() }), true],
    ['an optional and a default member', z.object({ a: z.string().optional(), n: z.number().default(1) }), true],
    ['nested objects and arrays', z.object({ a: z.array(z.object({ b: z.string().optional() })) }), true],
    ['a union', z.object({ a: z.union([z.object({ k: z.literal('x') }), z.object({ k: z.literal('y') })]) }), true],
    ['enum, lengths and formats', z.object({ a: z.enum(['x', 'y']), b: z.string().min(2), c: z.url() }), true],
    ['a record', z.object({ a: z.record(z.string(), z.number()) }), false],
    ['an open object', z.looseObject({ a: z.string() }), false],
    ['any value', z.object({ a: z.unknown() }), false],
  ])('of %s is sent in a form that OpenAI accepts', (_, schema, isStrict) => {
    const { schema: fitted, strict: isSentStrict } = sent(schema);
    expect(isSentStrict).toBe(isStrict);
    expect(schemaFlaws(fitted, isStrict ? strict : schemaDialects.openai)).toEqual([]);
  });

  it('keeps recursion, and says a default in the description', () => {
    const schema = {
      type: 'object',
      properties: { n: { type: 'integer', default: 1 }, next: { $ref: '#' } },
      required: ['n'],
    };
    expect(fitOutputSchema(schema, strict)).toMatchObject({
      strict: true,
      schema: {
        properties: {
          n: { type: 'integer', description: 'default: 1' },
          next: { anyOf: [{ $ref: '#/$defs/root' }, { type: 'null' }] },
        },
        required: ['n', 'next'],
        $defs: { root: { additionalProperties: false, required: ['n', 'next'] } },
      },
    });
  });
});

describe('a schema whose members package and server read in two ways', () => {
  it('M-12 has strings alone in its enums for Google, whose package sends a constant as an enum', () => {
    const schema = { type: 'object', properties: { a: { const: 1 }, b: { enum: ['x', 2] } } };
    const { schema: sent } = fitToolSchema(schema, schemaDialects.google);
    expect(sent).toMatchObject({ properties: { a: { type: 'number' }, b: { enum: ['x'] } } });
    expect(JSON.stringify(sent['properties'])).not.toMatch(/"(const|enum)":(\d|\[\d)/);
  });
});

it('M-12 a schema of 3,000 definitions that refer to each other is fitted in time that grows with their number', () => {
  const name = (index: number) => `#/$defs/d${index % 3_000}`;
  const definitions = Array.from({ length: 3_000 }, (_, index) => [
    `d${index}`,
    { type: 'object', properties: { next: { $ref: name(index + 1) } } },
  ]);
  const schema = {
    type: 'object',
    properties: { first: { $ref: name(0) } },
    $defs: Object.fromEntries(definitions),
  };
  expect(schemaFlaws(fitToolSchema(schema, schemaDialects.careful).schema, schemaDialects.careful)).toEqual([]);
});
