import { execFileSync } from 'node:child_process';
import { describe, expect, it } from '@jest/globals';
import { Ajv } from 'ajv';
import { Ajv2019 } from 'ajv/dist/2019.js';
import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { isPlainSchema, plainProblems, plainTest, problemOf } from 'millrace/internals';

const drafts = [Ajv, Ajv2019, Ajv2020].map(
  (draft) => new draft({ strict: false, logger: false, validateFormats: false, ownProperties: true, allErrors: true }),
);

const names =
  'type properties required additionalProperties items anyOf allOf title pattern minimum maximum maxLength minLength enum const'
    .concat(' default examples format uniqueItems minItems maxItems exclusiveMaximum exclusiveMinimum $ref not $defs')
    .split(' ');

/** Schemas, most of them valid, with now and then a value that its keyword cannot have. */
const { schema } = fc.letrec<{ schema: unknown; body: unknown; value: unknown }>((tie) => ({
  schema: fc.oneof({ maxDepth: 3 }, fc.boolean(), tie('body')),
  body: fc.dictionary(fc.constantFrom(...names), tie('value'), { maxKeys: 3 }),
  value: fc.oneof(
    { maxDepth: 3 },
    fc.constantFrom('string', 'object', 'objekt', '', 0, 1, -1, 0.5, null, true),
    fc.array(fc.constantFrom('string', 'null', 'a', 1), { maxLength: 3 }),
    fc.array(tie('schema'), { maxLength: 2 }),
    fc.dictionary(fc.constantFrom('a', 'b', '__proto__'), tie('schema'), { maxKeys: 2 }),
    tie('schema'),
  ),
}));

const jsonValue = fc
  .jsonValue({ maxDepth: 2 })
  .chain((value) =>
    fc.constantFrom<unknown>(
      value,
      'string',
      'a',
      'ab',
      '',
      '💡',
      0,
      1,
      0.5,
      null,
      true,
      [],
      [1, 'a'],
      {},
      { a: value },
      { b: 1 },
    ),
  );

/** Schemas as tools have them, with keywords in a form that is valid. */
const limit = fc.integer({ min: 0, max: 3 });
const usual = (depth: number): fc.Arbitrary<object> => {
  const inner = depth === 0 ? fc.constantFrom({}, { type: 'string' }, { type: 'integer' }) : usual(depth - 1);
  const several = fc.array(inner, { minLength: 1, maxLength: 2 });
  const limits = 'minimum maximum exclusiveMinimum exclusiveMaximum minLength maxLength minItems maxItems'.split(' ');
  const scalars = fc.uniqueArray(fc.constantFrom('a', 'b', 1, null, true), { minLength: 1, maxLength: 3 });
  const types = ['object', 'array', 'string', 'integer', 'number', 'boolean', 'null'];
  const keywords: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
    type: fc.oneof(
      fc.constantFrom(...types),
      fc.uniqueArray(fc.constantFrom(...types), { minLength: 1, maxLength: 3 }),
    ),
    properties: fc.dictionary(fc.constantFrom('a', 'b', 'a/b', '1'), inner, { maxKeys: 3 }),
    required: fc.uniqueArray(fc.constantFrom('a', 'b', 'c'), { maxLength: 3 }),
    additionalProperties: fc.oneof(fc.boolean(), inner),
    items: fc.oneof(fc.boolean(), inner),
    ...Object.fromEntries(limits.map((name) => [name, limit])),
    enum: scalars,
    const: fc.constantFrom('a', 1, null, false),
    anyOf: several,
    allOf: several,
    format: fc.constant('date'),
    description: fc.constant('Something.'),
  };
  return fc
    .subarray(Object.keys(keywords), { maxLength: 4 })
    .chain((names) => fc.record(Object.fromEntries(names.map((name) => [name, keywords[name] ?? fc.constant(0)]))));
};
const usualValue = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    fc.constantFrom('a', 'bcde', '', '💡', 0, 1, 2.5, -1, 5, null, true, false),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(fc.constantFrom('a', 'b', 'a/b', '1', 'd'), tie('value'), { maxKeys: 4 }),
  ),
})).value;

describe('C-09 a schema that is checked without its meta-schema', () => {
  it('is valid in each draft', () => {
    const plain = { count: 0 };
    fc.assert(
      fc.property(schema, (given) => {
        if (!isPlainSchema(given)) return;
        plain.count++;
        for (const ajv of drafts) expect(ajv.validateSchema(given as object)).toBe(true);
      }),
      { numRuns: 20_000 },
    );
    expect(plain.count).toBeGreaterThan(1_000);
  });

  it('C-09 says of a value what each draft says, in the words of ajv', () => {
    const said = { yes: 0, no: 0 };
    fc.assert(
      fc.property(schema, fc.array(jsonValue, { minLength: 1, maxLength: 8 }), (given, values) => {
        const test = isPlainSchema(given) ? plainTest(given) : undefined;
        if (!test) return;
        const checks = drafts.map((ajv) => ajv.compile(given as object));
        for (const value of values) {
          said[test(value) ? 'yes' : 'no']++;
          for (const check of checks) {
            check(value);
            const problems = (check.errors ?? []).map(problemOf);
            expect([given, value, plainProblems(given, value)]).toEqual([given, value, problems]);
          }
          for (const check of checks) expect([given, value, check(value)]).toEqual([given, value, test(value)]);
        }
      }),
      { numRuns: 5_000 },
    );
    expect(Math.min(said.yes, said.no)).toBeGreaterThan(1_000);
  });

  it('C-09 says the same as each draft for schemas as tools have them', () => {
    const said = { yes: 0, no: 0 };
    fc.assert(
      fc.property(usual(2), fc.array(usualValue, { minLength: 1, maxLength: 8 }), (given, values) => {
        const test = isPlainSchema(given) ? plainTest(given) : undefined;
        if (!test) throw new Error('It should have a test.');
        for (const check of drafts.map((ajv) => ajv.compile(given)))
          for (const value of values) {
            said[test(value) ? 'yes' : 'no']++;
            const allows = check(value);
            const problems = (check.errors ?? []).map(problemOf);
            expect([given, value, test(value), plainProblems(given, value)]).toEqual([given, value, allows, problems]);
          }
      }),
      { numRuns: 2_000 },
    );
    expect(Math.min(said.yes, said.no)).toBeGreaterThan(1_000);
  });

  it.each([
    [
      { type: 'object', properties: { city: { type: 'string' } }, required: ['city'], additionalProperties: false },
      true,
    ],
    [{ type: ['string', 'null'], description: 'A city.', enum: ['Rome', null] }, true],
    [{ type: 'array', items: { anyOf: [{ type: 'integer', minimum: 0 }, { const: 'none' }] } }, true],
    [{ $ref: '#/$defs/city' }, false],
    [{ type: 'objekt' }, false],
    [{ type: 'object', required: 'city' }, false],
    [{ 'x-vendor': 1 }, false],
  ])('%j: %s', (given, isPlain) => expect(isPlainSchema(given)).toBe(isPlain));
});

describe('C-09 the first turn of a process', () => {
  /** Five tools with plain schemas are called, one of a provider without checks of its own. */
  const loadedBy = (given: 'right' | 'wrong', schemas = 'plain'): readonly string[] => {
    const script = new URL('children/first-turn.mjs', import.meta.url).pathname;
    return JSON.parse(execFileSync(process.execPath, [script, given, schemas], { encoding: 'utf8' })).packages;
  };

  it('C-09 loads no schema compiler for plain schemas', () => expect(loadedBy('right')).not.toContain('ajv'));

  it.each(['right', 'wrong'] as const)('loads none for schemas of zod, with %s arguments', (given) => {
    expect(loadedBy(given, 'zod')).not.toContain('ajv');
  });

  it('C-09 loads none to say what is wrong with arguments', () => expect(loadedBy('wrong')).not.toContain('ajv'));
});
