import { describe, expect, it } from '@jest/globals';
import type { StandardSchemaV1 } from '@standard-schema/spec';
import { LocalToolProvider, type ToolPolicy, tool } from 'millrace';
import { assertToolOptions } from 'millrace/internals';
import { z } from 'zod';
import * as mini from 'zod/mini';
import { thrownBy } from './thrown.ts';
import { toolCall, toolContext } from './tool-context.ts';

const cityJson = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } as const;
const plain = { name: 'weather', description: 'Tells the weather.', parameters: cityJson, execute: () => 'sunny' };

describe('tool with a Standard Schema', () => {
  const weather = tool({
    name: 'weather',
    description: 'Tells the weather.',
    parameters: z.object({ city: z.string().trim().min(1), days: z.number().int().default(3) }),
    timeoutMs: 500,
    readOnly: true,
    execute: ({ city, days }, context) => `${city} ${days} ${context.callId}`,
  });

  it('S3-41 takes the JSON Schema for the model from the schema', () => {
    expect(weather.definition).toMatchObject({
      type: 'function',
      timeoutMs: 500,
      readOnly: true,
      function: {
        name: 'weather',
        description: 'Tells the weather.',
        parameters: {
          type: 'object',
          properties: { city: { type: 'string', minLength: 1 }, days: { type: 'integer', default: 3 } },
          required: ['city'],
        },
      },
    });
    expect(weather.definition.function.parameters).not.toHaveProperty('$schema');
    expect(weather.definition).not.toHaveProperty('sequential');
  });

  it('hands execute the converted output of the schema', () => {
    const check = weather.definition.checkArguments?.({ city: ' Rome ' });
    expect(check).toEqual({ ok: true, value: { city: 'Rome', days: 3 } });
    expect(weather.execute({ city: 'Rome', days: 3 }, toolContext())).toBe('Rome 3 1:0');
  });

  it('names each field that does not fit', () => {
    expect(weather.definition.checkArguments?.({ city: 1, days: 'x' })).toEqual({
      ok: false,
      message:
        'arguments.city: Invalid input: expected string, received number; arguments.days: Invalid input: expected number, received string',
    });
  });

  it('waits for a schema that checks asynchronously', async () => {
    const parameters = z.object({ n: z.number() }).refine(async ({ n }) => n > 0, { path: ['n'], error: 'too small' });
    const { definition } = tool({ ...plain, parameters, execute: () => '' });
    const checks = [definition.checkArguments?.({ n: 1 }), definition.checkArguments?.({ n: 0 })];
    expect(checks.every((check) => check instanceof Promise)).toBe(true);
    expect(await Promise.all(checks)).toEqual([
      { ok: true, value: { n: 1 } },
      { ok: false, message: 'arguments.n: too small' },
    ]);
  });

  it('needs the option jsonSchema where the schema cannot tell it, and says so', async () => {
    const parameters = mini.object({ city: mini.string() });
    const error = await thrownBy(() => tool({ ...plain, parameters, execute: () => '' }));
    expect([error.code, error.message]).toEqual([
      'INVALID_CONFIG',
      'Tool "weather": its zod schema does not tell its JSON Schema; use zod 4, since zod 3 has none, or give that as the option jsonSchema (outputSchema: output.jsonSchema).',
    ]);
    const given = tool({ ...plain, parameters, jsonSchema: cityJson, execute: ({ city }) => city.length });
    expect(given.definition.function.parameters).toBe(cityJson);
    expect(given.definition.checkArguments?.({ city: 1 })).toMatchObject({ ok: false });
  });

  it('says why a schema has no JSON Schema', async () => {
    const parameters = z.object({ day: z.date() });
    const { code, message } = await thrownBy(() => tool({ ...plain, parameters, execute: () => '' }));
    expect(code).toBe('INVALID_CONFIG');
    expect(message).toMatch(
      /^Tool "weather": its zod schema has no JSON Schema \(Date.*give one as the option jsonSchema\.$/,
    );
  });

  it('refuses a schema of something else than an object', async () => {
    const parameters = z.union([z.object({ a: z.string() }), z.object({ b: z.string() })]);
    expect((await thrownBy(() => tool({ ...plain, parameters, execute: () => '' }))).message).toBe(
      'Tool "weather": its zod schema does not describe an object; wrap what it describes in one.',
    );
  });

  it('takes a schema that is a function, answers with draft-07 only, and names its path by segments', () => {
    const props: StandardSchemaV1<unknown, { n: number }>['~standard'] & { jsonSchema: object } = {
      version: 1,
      vendor: 'own',
      validate: (value) =>
        value === 1 ? { value: { n: 1 } } : { issues: [{ message: 'is wrong', path: [{ key: 'a b' }, 0, 'c'] }] },
      jsonSchema: {
        input({ target }: { target: string }) {
          if (target !== 'draft-07') throw new Error('only draft-07');
          return { $schema: 'http://json-schema.org/draft-07/schema#', type: 'object', properties: { n: {} } };
        },
      },
    };
    const parameters = Object.assign(() => {}, { '~standard': props });
    const { definition } = tool({ ...plain, parameters, execute: ({ n }) => n });
    expect(definition.function.parameters).toEqual({ type: 'object', properties: { n: {} } });
    expect(definition.checkArguments?.(1)).toEqual({ ok: true, value: { n: 1 } });
    expect(definition.checkArguments?.(2)).toEqual({ ok: false, message: 'arguments["a b"][0].c: is wrong' });
  });
});

describe('tool with a JSON Schema', () => {
  it('offers the tool and runs it with checked arguments and a context', async () => {
    const seen: unknown[] = [];
    const local = new LocalToolProvider([
      tool({ ...plain, execute: (args, context) => seen.push(args, context.taskId) }),
    ]);
    expect((await local.getTools()).map(({ function: { name } }) => name)).toEqual(['weather']);
    await local.executeTool(toolCall('weather'), toolContext({ arguments: { city: 'Rome' } }));
    expect(seen).toEqual([{ city: 'Rome' }, 'task']);
  });

  it('sends the schema as it stands', () => {
    expect(tool(plain).definition.function.parameters).toBe(cityJson);
  });

  it('calls execute as a method of its options', () => {
    const named = tool({
      ...plain,
      execute() {
        return this.name;
      },
    });
    expect(named.execute({ city: 'Rome' }, toolContext())).toBe('weather');
  });
});

describe('the options of a tool', () => {
  const wrong: readonly (readonly [change: object, message: string])[] = [
    [
      { name: 'two words' },
      'Tool "two words": name is "two words"; use 1 to 64 of the characters a-z, A-Z, 0-9, _ and -.',
    ],
    [{ name: 'x'.repeat(65) }, 'use 1 to 64 of the characters'],
    [{ name: '' }, 'A tool without a name: name is ""; use 1 to 64 of the characters'],
    [{ name: undefined }, 'A tool without a name: name is undefined;'],
    [
      { description: '  ' },
      'Tool "weather": description is "  "; say in a sentence what the tool does, for the model.',
    ],
    [{ description: 7 }, 'description is 7;'],
    [
      { parameters: undefined },
      'Tool "weather": parameters is undefined; give a Standard Schema or a JSON Schema of an object.',
    ],
    [{ parameters: [] }, 'parameters is an array;'],
    [{ parameters: { type: 'string' } }, 'parameters.type is "string"; arguments are an object: give type "object".'],
    [{ parameters: {} }, 'parameters.type is undefined;'],
    [{ jsonSchema: cityJson }, 'jsonSchema is an object; it goes with a Standard Schema only; leave it out.'],
    [{ execute: 'run' }, 'execute is "run"; give a function (args, context) => result.'],
    [{ timeoutMs: -1 }, 'timeoutMs is -1; give a finite number of milliseconds, or 0 for no limit.'],
    [{ timeoutMs: Number.NaN }, 'timeoutMs is NaN;'],
    [{ timeoutMs: Number.POSITIVE_INFINITY }, 'timeoutMs is Infinity;'],
    [{ timeoutMs: '5' }, 'timeoutMs is "5";'],
    [{ sequential: 'yes' }, 'sequential is "yes"; give true or false.'],
    [{ readOnly: 1 }, 'readOnly is 1; give true or false.'],
    [{ idempotent: null }, 'idempotent is null; give true or false.'],
    [{ acceptsRaw: {} }, 'acceptsRaw is an object; give true or false.'],
    [{ onInDoubt: 'again' }, 'onInDoubt is "again"; give "retry", "fail", "ask" or a function.'],
    [{ onInDoubt: 'retry' }, 'running it twice has to be safe: set idempotent or readOnly too, or use "fail".'],
    [{ timeout: 5 }, 'Tool "weather": timeout is 5; it is no option of a tool; those are '],
    [
      { parameters: undefined, inputSchema: z.object({}) },
      'Tool "weather": inputSchema is an object; it is no option of a tool; those are ',
    ],
    [
      { parameters: { city: z.string() } },
      'Tool "weather": parameters is an object whose member "city" is a schema, and no schema itself; wrap it, with Zod as z.object({ city: … }).',
    ],
  ];

  it.each(wrong)('refuses %p', async (change, message) => {
    const options: unknown = { ...plain, ...change };
    const error = await thrownBy(() => assertToolOptions(options));
    expect(error.code).toBe('INVALID_CONFIG');
    expect(error.message).toContain(message);
  });

  it.each([null, 5, 'tool', []])('refuses %p in the place of options', async (value) => {
    expect((await thrownBy(() => assertToolOptions(value))).message).toMatch(
      /^A tool is described by an object, not by /,
    );
  });

  it('checks the explicit JSON Schema of a Standard Schema too', async () => {
    const parameters = mini.object({});
    const jsonSchema = { type: 'array' };
    expect((await thrownBy(() => tool({ ...plain, parameters, jsonSchema, execute: () => '' }))).message).toContain(
      'jsonSchema.type is "array"; arguments are an object',
    );
  });

  const policies: readonly ToolPolicy[] = [
    { timeoutMs: 0 },
    { timeoutMs: 1.5, sequential: true },
    { onInDoubt: 'retry', readOnly: true },
    { onInDoubt: 'retry', idempotent: true },
    { onInDoubt: 'fail', acceptsRaw: false },
    { onInDoubt: async () => ({ outcome: 'unknown' }) },
  ];

  it.each(policies)('hands the policy %p to the definition', (policy) => {
    expect(tool({ ...plain, ...policy }).definition).toMatchObject(policy);
  });
});
