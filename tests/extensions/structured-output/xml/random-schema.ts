import fc from 'fast-check';
import type { JSONSchema } from 'millrace';

/** A JSON Schema and a value that follows it. */
export interface Typed {
  readonly schema: JSONSchema;
  readonly value: unknown;
}

const text = fc.string({
  unit: fc.constantFrom(
    'a',
    'B',
    '<',
    '>',
    '&',
    '"',
    ' ',
    '\n',
    '\t',
    '\r',
    '\u0000',
    ']]>',
    '<item>',
    '</output>',
    '&amp;',
    '&#65;',
    'é',
    '😀',
    '<!--',
    '<![CDATA[',
  ),
});

const scalar: fc.Arbitrary<Typed> = fc.oneof(
  text.map((value) => ({ schema: { type: 'string' }, value })),
  fc
    .double({ noNaN: true, noDefaultInfinity: true })
    .map((value) => ({ schema: { type: 'number' }, value: value + 0 })),
  fc.integer().map((value) => ({ schema: { type: 'integer' }, value })),
  fc.boolean().map((value) => ({ schema: { type: 'boolean' }, value })),
  fc.constantFrom('red', 'green', 3, true).map((value) => ({ schema: { enum: ['red', 'green', 3, true] }, value })),
  fc.constantFrom(null, 7).map((value) => ({ schema: { anyOf: [{ type: 'number' }, { type: 'null' }] }, value })),
  fc.constant({ schema: { type: ['string', 'null'] }, value: null }),
);

const name = fc.oneof(
  fc.constantFrom('a', 'A', 'item', 'entry', 'output', 'first name', '1st', '__proto__', 'x:y', 'größe', '"<&'),
  fc.string(),
);

const { typed } = fc.letrec<{ typed: Typed; list: Typed; object: Typed; map: Typed }>((tie) => ({
  typed: fc.oneof({ maxDepth: 4, withCrossShrink: true }, scalar, tie('list'), tie('object'), tie('map')),
  list: fc.tuple(tie('typed'), fc.nat(3)).map(([entry, length]) => ({
    schema: { type: 'array', items: entry.schema },
    value: Array.from({ length }, () => entry.value),
  })),
  object: fc.dictionary(name, fc.tuple(tie('typed'), fc.boolean()), { maxKeys: 4 }).map((members) => ({
    schema: {
      type: 'object',
      properties: Object.fromEntries(Object.entries(members).map(([key, [member]]) => [key, member.schema])),
    },
    value: Object.fromEntries(
      Object.entries(members).flatMap(([key, [member, present]]) => (present ? [[key, member.value]] : [])),
    ),
  })),
  map: fc.dictionary(name, fc.integer(), { maxKeys: 3 }).map((value) => ({
    schema: { type: 'object', additionalProperties: { type: 'integer' } },
    value: { ...value },
  })),
}));

/** Objects of nested lists, objects, maps and scalars, with names and texts that are hard on XML. */
export const typedObject: fc.Arbitrary<Typed> = fc.dictionary(name, typed, { maxKeys: 4 }).map((members) => ({
  schema: {
    type: 'object',
    properties: Object.fromEntries(Object.entries(members).map(([key, member]) => [key, member.schema])),
  },
  value: Object.fromEntries(Object.entries(members).map(([key, member]) => [key, member.value])),
}));
