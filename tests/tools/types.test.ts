import { expect, it } from '@jest/globals';
import type { StandardSchemaV1 } from '@standard-schema/spec';
import { type JSONSchema, LocalToolProvider, type Tool, type ToolContext, tool } from 'millrace';
import type { ArgumentsOf, FromJsonSchema, RawArguments } from 'millrace/internals';
import { z } from 'zod';
import { same } from '../same-type.ts';

const described = { name: 'weather', description: 'Tells the weather.' };

it('execute gets the output type of a Standard Schema', () => {
  const parameters = z.object({ city: z.string(), days: z.number().default(1), at: z.string().transform(Number) });
  const weather = tool({
    ...described,
    parameters,
    execute(args, context) {
      same<typeof args, { city: string; days: number; at: number }>(true);
      same<typeof context, ToolContext>(true);
      // @ts-expect-error: there is no such argument.
      return args.town;
    },
  });
  expect(same<Parameters<typeof weather.execute>[0], { city: string; days: number; at: number }>(true)).toBe(true);
});

it('execute gets the type that a literal JSON Schema describes', () => {
  const weather = tool({
    ...described,
    parameters: {
      type: 'object',
      properties: {
        city: { type: 'string' },
        unit: { enum: ['C', 'F'] },
        days: { type: 'array', items: { type: 'integer' } },
        place: { type: 'object', properties: { lat: { type: ['number', 'null'] } }, required: ['lat'] },
        version: { const: 1 },
        any: {},
      },
      required: ['city', 'days'],
    },
    execute(args) {
      // @ts-expect-error: it is a string.
      const city: number = args.city;
      return city;
    },
  });
  interface Expected {
    readonly city: string;
    readonly days: readonly number[];
    readonly unit?: 'C' | 'F';
    readonly place?: { readonly lat: number | null };
    readonly version?: 1;
    readonly any?: unknown;
  }
  const given: Expected = { city: 'Rome', days: [1], unit: 'C', place: { lat: null } };
  const args: Parameters<typeof weather.execute>[0] = given;
  const back: Expected = args;
  expect(back).toBe(given);
});

it('execute gets a record where a JSON Schema says no more', () => {
  const wide: JSONSchema = { type: 'object' };
  const one = tool({ ...described, parameters: wide, execute: (args) => args['city'] });
  const widened = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
  const other = tool({ ...described, parameters: widened, execute: (args) => args['city'] });
  type Fields = Readonly<Record<string, unknown>>;
  expect(same<typeof one, Tool<Fields>>(true)).toBe(true);
  expect(same<typeof other, Tool<Fields>>(true)).toBe(true);
  expect(
    same<
      FromJsonSchema<{ type: 'object'; properties: { a: { type: 'string' } }; required: string[] }>,
      { readonly a?: string }
    >(true),
  ).toBe(true);
});

it('execute of a tool that accepts raw arguments may get those', () => {
  const parameters = z.object({ code: z.string() });
  const raw = tool({
    ...described,
    parameters,
    acceptsRaw: true,
    execute: (args) => ('_raw' in args ? args._raw : args.code),
  });
  expect(same<typeof raw, Tool<{ code: string } | RawArguments, unknown, string, string>>(true)).toBe(true);
  const not = tool({ ...described, parameters, acceptsRaw: false, execute: ({ code }) => code });
  expect(same<typeof not, Tool<{ code: string }, unknown, string, string>>(true)).toBe(true);
});

it('takes functions of the right arguments only', () => {
  const parameters = z.object({ city: z.string() });
  const cityLength = (args: { city: string }) => args.city.length;
  const needsMore = (args: { city: string; town: string }) => args.town;
  const rightOne = tool({ ...described, parameters, execute: cityLength });
  // @ts-expect-error: the schema has no town.
  tool({ ...described, parameters, execute: needsMore });
  // @ts-expect-error: timeoutMs is a number.
  expect(() => tool({ ...described, parameters, execute: cityLength, timeoutMs: '5' })).toThrow('timeoutMs');
  const list: readonly Tool[] = [rightOne];
  expect(new LocalToolProvider([rightOne, ...list.slice(1)]).getTools()).toHaveLength(1);
});

it('takes schemas of objects only', () => {
  // @ts-expect-error: arguments are an object.
  expect(() => tool({ ...described, parameters: z.string(), execute: String })).toThrow('does not describe an object');
  const either = z.union([z.object({ city: z.string() }), z.object({ town: z.string() })]);
  const converted = z.object({ city: z.string() }).transform(({ city }) => ({ town: city }));
  const of = tool({ ...described, jsonSchema: { type: 'object' }, parameters: converted, execute: ({ town }) => town });
  expect(same<typeof of, Tool<{ town: string }, unknown, string, string>>(true)).toBe(true);
  const named = z.object({ city: z.string() }).transform(({ city }) => city);
  const cityOf = tool({ ...described, parameters: named, execute: (city) => city.length });
  expect(same<typeof cityOf, Tool<string, unknown, string, number>>(true)).toBe(true);
  const tidied = z.preprocess((given) => given, z.object({ city: z.string() }));
  const tidy = tool({ ...described, parameters: tidied, execute: ({ city }) => city });
  expect(same<typeof tidy, Tool<{ city: string }, unknown, string, string>>(true)).toBe(true);
  expect(same<ArgumentsOf<typeof either>, { city: string } | { town: string }>(true)).toBe(true);
});

it('ArgumentsOf reads any Standard Schema', () => {
  expect(same<ArgumentsOf<StandardSchemaV1<{ in: 1 }, { out: 2 }>>, { out: 2 }>(true)).toBe(true);
});
