import { describe, expect, it } from '@jest/globals';
import { toStandardJsonSchema } from '@valibot/to-json-schema';
import { type } from 'arktype';
import { Schema } from 'effect';
import { agent, tool } from 'millrace';
import { scriptedLLM } from 'millrace/testing';
import * as v from 'valibot';
import { z } from 'zod';
import { thrownBy } from './thrown.ts';

const jsonSchema = {
  type: 'object',
  properties: { city: { type: 'string' }, days: { type: 'integer' } },
  required: ['city', 'days'],
} as const;

const effectSchema = Schema.Struct({ city: Schema.String, days: Schema.Int });

/** The same shape, as each library has it. */
const schemas = {
  'Zod 4': z.object({ city: z.string(), days: z.int() }),
  Valibot: toStandardJsonSchema(v.object({ city: v.string(), days: v.pipe(v.number(), v.integer()) })),
  ArkType: type({ city: 'string', days: 'number.integer' }),
  'Effect Schema': Schema.toStandardJSONSchemaV1(Schema.toStandardSchemaV1(effectSchema)),
  'JSON Schema': jsonSchema,
} as const;
const names = ['Zod 4', 'Valibot', 'ArkType', 'Effect Schema', 'JSON Schema'] as const;
const good = { city: 'Oslo', days: 3 };
const bad = { city: 7, days: 3 };

/** One tool for each library: what it is called with is typed by its schema. */
function forecastOf(name: (typeof names)[number], seen: unknown[]) {
  const described = { name: 'forecast', description: 'Tells the weather.' };
  const said = (city: string, days: number) => {
    seen.push({ city, days });
    return `${city.toUpperCase()} ${days.toFixed(0)}`;
  };
  switch (name) {
    case 'Zod 4':
      return tool({ ...described, parameters: schemas[name], execute: ({ city, days }) => said(city, days) });
    case 'Valibot':
      return tool({ ...described, parameters: schemas[name], execute: ({ city, days }) => said(city, days) });
    case 'ArkType':
      return tool({ ...described, parameters: schemas[name], execute: ({ city, days }) => said(city, days) });
    case 'Effect Schema':
      return tool({ ...described, parameters: schemas[name], execute: ({ city, days }) => said(city, days) });
    case 'JSON Schema':
      return tool({ ...described, parameters: schemas[name], execute: ({ city, days }) => said(city, days) });
  }
}

describe('schemas of the libraries that the guide names', () => {
  it.each(names)('U-12 describe tools, and check and type their arguments: %s', async (name) => {
    const seen: unknown[] = [];
    const call = (args: object) => ({ toolCalls: [{ name: 'forecast', arguments: JSON.stringify(args) }] });
    const provider = scriptedLLM([call(bad), call(good), { text: 'Fine.' }]);
    const { messages } = await agent({ name: 'a', provider, tools: [forecastOf(name, seen)], retry: null }).run('Hi.');
    expect(seen).toEqual([good]);
    const told = messages.flatMap((message) => (message.role === 'tool' ? [String(message.content)] : []));
    expect(told).toEqual([expect.stringContaining('arguments.city'), 'OSLO 3']);
    expect(provider.calls[0]?.tools?.[0]?.function.parameters).toMatchObject({
      type: 'object',
      properties: { city: { type: 'string' } },
      required: expect.arrayContaining(['city', 'days']),
    });
  });

  it.each(names)('U-12 describe outputs, and check and type the value: %s', async (name) => {
    const finish = (value: object) => ({ toolCalls: [{ name: '__finish__', arguments: JSON.stringify(value) }] });
    const provider = scriptedLLM([finish(bad), finish(good)]);
    const result = await agent({
      name: 'a',
      provider,
      output: { schema: schemas[name] },
      retry: null,
    }).run('Hi.');
    expect(result.value).toEqual(good);
    expect(provider.calls).toHaveLength(2);
  });

  it.each<readonly [string, unknown, RegExp]>([
    ['Valibot', v.object({ city: v.string() }), /toStandardJsonSchema\(schema\) of "@valibot\/to-json-schema"/],
    [
      'Effect, without any standard',
      effectSchema,
      /Schema\.toStandardJSONSchemaV1\(Schema\.toStandardSchemaV1\(schema\)\)/,
    ],
    ['Effect, without its JSON Schema', Schema.toStandardSchemaV1(effectSchema), /Schema\.toStandardJSONSchemaV1/],
  ])('U-12 say what to pass where a schema cannot tell its JSON Schema: %s', async (_, parameters, cure) => {
    const options = { name: 'forecast', description: 'Tells.', parameters, execute: () => '' };
    const error = await thrownBy(async () => Reflect.apply(tool, undefined, [options]));
    expect(error).toMatchObject({ code: 'INVALID_CONFIG', message: expect.stringMatching(cure) });
  });
});
