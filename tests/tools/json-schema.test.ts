import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { JSONSchema } from 'millrace';
import { jsonSchemaChecker, verifyJsonSchema } from 'millrace/internals';
import type { ArgumentCheck } from 'millrace/types';
import { thrownBy } from './thrown.ts';

async function messageFor(schema: JSONSchema, value: unknown): Promise<string> {
  const check = await jsonSchemaChecker(schema, 'tool "t"')(value);
  return check.ok ? 'ok' : check.message;
}

describe('jsonSchemaChecker', () => {
  const schema = {
    type: 'object',
    properties: {
      city: { type: 'string', minLength: 2 },
      unit: { enum: ['C', 'F'] },
      days: { type: 'array', items: { type: 'object', properties: { 'a b': { type: ['integer', 'null'] } } } },
      version: { const: 1 },
      never: false,
    },
    required: ['city'],
    additionalProperties: false,
  };

  const cases: readonly (readonly [value: unknown, message: string])[] = [
    [{ city: 'Rome' }, 'ok'],
    [{}, 'arguments.city is required'],
    [{ city: 5 }, 'arguments.city must be string'],
    [{ city: 'R' }, 'arguments.city must NOT have fewer than 2 characters'],
    [{ city: 'Rome', unit: 'K' }, 'arguments.unit must be one of ["C","F"]'],
    [{ city: 'Rome', version: 2 }, 'arguments.version must be 1'],
    [{ city: 'Rome', never: 1 }, 'arguments.never is not allowed'],
    [{ city: 'Rome', towm: 1 }, 'arguments.towm is not a known argument'],
    [{ city: 'Rome', days: [{}, { 'a b': 'x' }] }, 'arguments.days[1]["a b"] must be integer or null'],
    [{ city: 1, unit: 2 }, 'arguments.city must be string; arguments.unit must be one of ["C","F"]'],
    ['Rome', 'arguments must be object'],
    [null, 'arguments must be object'],
  ];

  it.each(cases)('answers %j with %p', async (value, message) => {
    expect(await messageFor(schema, value)).toBe(message);
  });

  it('hands the value on as it came: no default, no coercion, no field less', async () => {
    const value = Object.freeze({ n: 1, more: true });
    const withDefault = {
      type: 'object',
      properties: { n: { type: 'number' }, unit: { type: 'string', default: 'C' } },
    };
    const check = await jsonSchemaChecker(withDefault, 'tool "t"')(value);
    expect(check).toEqual({ ok: true, value: { n: 1, more: true } });
    expect(check.ok && check.value).toBe(value);
    expect(await messageFor(withDefault, { n: '1' })).toBe('arguments.n must be number');
  });

  it('answers without a promise from the second check on', async () => {
    const check = jsonSchemaChecker({ type: 'object' }, 'tool "t"');
    await check({});
    expect(check({})).toEqual({ ok: true, value: {} });
    expect(jsonSchemaChecker({ type: 'object', title: 'another' }, 'tool "t"')({})).toEqual({ ok: true, value: {} });
  });

  it('does not take what an object inherits for an argument', async () => {
    expect(await messageFor({ type: 'object', required: ['constructor', 'toString'] }, {})).toBe(
      'arguments.constructor is required; arguments.toString is required',
    );
  });

  it('bounds the message', async () => {
    const many = Object.fromEntries(Array.from({ length: 200 }, (_, index) => [`field${index}`, index]));
    const message = await messageFor({ type: 'object', additionalProperties: { type: 'string' } }, many);
    expect(message).toMatch(/^arguments\.field0 must be string; .*; and 190 more$/);
    const wide = {
      type: 'object',
      properties: { unit: { enum: Array.from({ length: 900 }, (_, index) => `unit${index}`) } },
    };
    expect((await messageFor(wide, { unit: 'x' })).length).toBeLessThan(1_100);
    const long = { ['x'.repeat(5_000)]: 1 };
    expect((await messageFor({ type: 'object', additionalProperties: false }, long)).length).toBeLessThan(1_100);
  });

  it('agrees with the JSON values it is shown, whatever they are, and leaves them as they are', async () => {
    const check = jsonSchemaChecker(
      { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] },
      'tool "t"',
    );
    await check({});
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const before = JSON.stringify(value);
        const fits =
          typeof value === 'object' && value !== null && !Array.isArray(value) && Number.isInteger(value['n']);
        expect(check(value)).toMatchObject({ ok: fits } satisfies Partial<ArgumentCheck>);
        expect(JSON.stringify(value)).toBe(before);
      }),
    );
  });
});

describe('drafts', () => {
  const tuple = { type: 'array', items: [{ type: 'string' }], additionalItems: false };
  const tuple2020 = { type: 'array', prefixItems: [{ type: 'string' }], items: false };
  const drafts: readonly (readonly [string, object])[] = [
    ['http://json-schema.org/draft-07/schema#', tuple],
    ['https://json-schema.org/draft-07/schema', tuple],
    ['https://json-schema.org/draft/2019-09/schema', tuple],
    ['https://json-schema.org/draft/2020-12/schema', tuple2020],
  ];

  it.each(drafts)('reads a schema of %s', async ($schema, pair) => {
    const schema = { $schema, type: 'object', properties: { pair } };
    await verifyJsonSchema(schema, 'tool "t"');
    expect(await messageFor(schema, { pair: ['a'] })).toBe('ok');
    expect(await messageFor(schema, { pair: ['a', 'b'] })).toContain('arguments.pair');
  });

  it('takes 2020-12 where none is named', async () => {
    expect(await messageFor({ type: 'object', properties: { pair: tuple2020 } }, { pair: [1] })).toBe(
      'arguments.pair[0] must be string',
    );
  });

  it('follows references, also of two schemas that have one $id', async () => {
    const referring = (type: string) => ({
      $id: 'https://example.com/args',
      type: 'object',
      properties: { a: { $ref: '#/$defs/a' } },
      $defs: { a: { $id: 'https://example.com/a', type } },
    });
    expect(await messageFor(referring('string'), { a: 1 })).toBe('arguments.a must be string');
    expect(await messageFor(referring('number'), { a: 1 })).toBe('ok');
  });

  it('ignores what it does not know: formats, keywords of OpenAPI, old escapes in patterns, $async', async () => {
    const schema = {
      type: 'object',
      $async: true,
      properties: { at: { type: 'string', format: 'moon-phase', example: 'full', pattern: '^\\-?[\\w\\-]+$' } },
      required: ['at'],
    };
    await verifyJsonSchema(schema, 'tool "t"');
    expect([await messageFor(schema, { at: 'x-y' }), await messageFor(schema, { at: '!' })]).toEqual([
      'ok',
      'arguments.at must match pattern "^\\-?[\\w\\-]+$"',
    ]);
    expect(await messageFor(schema, {})).toBe('arguments.at is required');
  });
});

describe('a schema that is not one', () => {
  const invalid: readonly (readonly [schema: JSONSchema, message: string])[] = [
    [
      { type: 'objekt' },
      'The JSON Schema of tool "t" is not valid: schema/type must be equal to one of the allowed values',
    ],
    [{ type: 'object', properties: [] }, 'schema/properties must be object'],
    [{ type: 'object', required: 'city' }, 'schema/required must be array'],
    [{ type: 'object', properties: { n: { minimum: '0' } } }, 'schema/properties/n/minimum must be number'],
    [
      { $schema: 'http://json-schema.org/draft-04/schema#' },
      '"$schema" is "http://json-schema.org/draft-04/schema#"; use draft 2020-12, 2019-09 or draft-07.',
    ],
  ];

  it.each(invalid)('is reported: %j', async (schema, message) => {
    const error = await thrownBy(() => verifyJsonSchema(schema, 'tool "t"'));
    expect(error.code).toBe('INVALID_CONFIG');
    expect(error.message).toContain(message);
  });

  it('is reported by the first check where only compiling shows it', async () => {
    const check = jsonSchemaChecker({ type: 'object', properties: { a: { $ref: '#/$defs/b' } } }, 'tool "t"');
    const { code, message } = await thrownBy(() => check({}));
    expect([code, message]).toEqual([
      'INVALID_CONFIG',
      'The JSON Schema of tool "t" is not valid: can\'t resolve reference #/$defs/b from id #.',
    ]);
  });
});
