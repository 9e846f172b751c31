import fc from 'fast-check';
import type { JSONSchema } from 'millrace';

const name = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom('a', 'b', 'city', 'mode', 'items', 'type', '$ref', 'properties') },
  fc.constantFrom('first name', 'x:y', '__proto__', 'größe', 'a/b', 'a~b', '50%', '', 'a'.repeat(80)),
);

const reference = fc.constantFrom(
  '#',
  '#/$defs/node',
  '#/$defs/leaf',
  '#/definitions/node',
  '#/properties/a',
  '#/properties/items/items',
  '#/$defs/a~1b',
  '#/nowhere',
  '#anchor',
  'https://example.com/schema.json',
);

const pattern = fc.constantFrom('^a+$', '^(?!x)', '\\d{3}', '\\p{L}+', '(a)\\1', '(', '[');
const format = fc.constantFrom('date-time', 'date', 'uuid', 'email', 'uri', 'int32', 'enum', 'own-format', '');
const values = fc.array(fc.constantFrom<unknown>('a', 'b', '', 0, 2, true, null, 1.5, { a: 1 }), { maxLength: 4 });
const type = fc.constantFrom<unknown>(
  'string',
  'number',
  'integer',
  'boolean',
  'object',
  'array',
  'null',
  ['string', 'null'],
  ['object', 'array', 'null'],
  ['number', 'string'],
  ['null'],
);

const junk = fc.constantFrom<unknown>('string', 7, null, [], {}, [{}], true, false, { type: 'any' });
const or = (right: fc.Arbitrary<unknown>) => fc.oneof({ weight: 12, arbitrary: right }, { weight: 1, arbitrary: junk });

const plainKeywords: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
  type: or(type),
  required: or(fc.array(name, { maxLength: 3 })),
  enum: or(values),
  const: fc.constantFrom<unknown>('a', 1, null, ['x']),
  default: fc.constantFrom<unknown>('a', 1, null),
  $ref: or(reference),
  description: or(fc.constantFrom('Words.', 'w'.repeat(500))),
  pattern: or(pattern),
  format: or(format),
  minLength: or(fc.constantFrom(0, 3, 100_000)),
  maxItems: or(fc.constantFrom(1, 100_000)),
  minItems: or(fc.constantFrom(0, 1, 7)),
  minimum: or(fc.integer()),
  exclusiveMinimum: or(fc.integer()),
  multipleOf: or(fc.constantFrom(1, 0.5, 0, -1)),
  nullable: or(fc.boolean()),
  $schema: or(fc.constantFrom('http://json-schema.org/draft-07/schema#', 'http://json-schema.org/draft-04/schema#')),
  'x-own': fc.constant({ items: 1 }),
};

function holding(inner: fc.Arbitrary<unknown>): Readonly<Record<string, fc.Arbitrary<unknown>>> {
  const held = fc.oneof({ weight: 10, arbitrary: inner }, { weight: 1, arbitrary: fc.constantFrom(true, false, null) });
  const map = fc.dictionary(name, held, { maxKeys: 3 });
  const list = fc.array(held, { maxLength: 3 });
  return {
    properties: or(map),
    additionalProperties: or(held),
    patternProperties: or(map),
    propertyNames: or(held),
    items: fc.oneof(or(held), list),
    prefixItems: or(list),
    anyOf: or(list),
    oneOf: or(list),
    allOf: or(list),
    not: or(held),
    if: or(held),
    $defs: or(fc.dictionary(fc.constantFrom('node', 'leaf', 'a/b'), held, { maxKeys: 2 })),
    definitions: or(fc.dictionary(fc.constantFrom('node', 'leaf'), held, { maxKeys: 2 })),
  };
}

/** One that may stand anywhere, right or wrong, with up to four keywords. */
function schemaOf(levels: number): fc.Arbitrary<JSONSchema> {
  const keywords = { ...plainKeywords, ...(levels > 0 && holding(schemaOf(levels - 1))) };
  const member = fc.oneof(
    ...Object.entries(keywords).map(([keyword, value]) => value.map((given) => [keyword, given] as const)),
  );
  return fc.array(member, { maxLength: 4 }).map((members) => Object.fromEntries(members));
}

const schema = schemaOf(3);

/** Any JSON as a schema: mostly with keywords of JSON Schema, right and wrong ones, at any depth. */
export const anySchema: fc.Arbitrary<JSONSchema> = fc.oneof(
  { weight: 8, arbitrary: schema },
  {
    weight: 4,
    arbitrary: fc
      .tuple(schema, fc.dictionary(name, schema, { maxKeys: 4 }))
      .map(([rest, properties]) => ({ ...rest, type: 'object', properties })),
  },
  { weight: 1, arbitrary: fc.dictionary(fc.string(), fc.jsonValue()) },
);

/** A schema and a value that it accepts. */
export interface DescribedValue {
  readonly schema: JSONSchema;
  readonly value: unknown;
}

const leaf: fc.Arbitrary<DescribedValue> = fc.oneof(
  fc.string({ minLength: 1, maxLength: 9 }).map((value) => ({ schema: { type: 'string', maxLength: 9 }, value })),
  fc.integer({ min: 0, max: 9 }).map((value) => ({ schema: { type: 'integer', minimum: 0, maximum: 9 }, value })),
  fc.boolean().map((value) => ({ schema: { type: ['boolean', 'null'] }, value })),
  fc.constantFrom('x', 'y').map((value) => ({ schema: { enum: ['x', 'y'] }, value })),
  fc.constant({ schema: { const: 'z' }, value: 'z' }),
);

function describedOf(levels: number): fc.Arbitrary<DescribedValue> {
  if (levels === 0) return leaf;
  const inner = describedOf(levels - 1);
  return fc.oneof(
    leaf,
    fc.array(inner, { minLength: 1, maxLength: 3 }).map((all) => ({
      schema: { type: 'array', items: { anyOf: all.map((each) => each.schema) } },
      value: all.map((each) => each.value),
    })),
    fc.dictionary(fc.constantFrom('a', 'b', 'c'), inner, { minKeys: 1 }).map((all) => ({
      schema: {
        type: 'object',
        properties: Object.fromEntries(Object.entries(all).map(([key, each]) => [key, each.schema])),
        required: Object.keys(all),
      },
      value: Object.fromEntries(Object.entries(all).map(([key, each]) => [key, each.value])),
    })),
    fc.tuple(inner, inner).map(([one, other]) => ({ schema: { anyOf: [one.schema, other.schema] }, value: one.value })),
    inner.map(({ schema: described, value }) => ({ schema: { allOf: [described, { description: 'W' }] }, value })),
  );
}

/** Schemas that all vendors can say, with a value. */
export const describedValue = describedOf(2);
