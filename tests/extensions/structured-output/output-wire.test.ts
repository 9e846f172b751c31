import { describe, expect, it } from '@jest/globals';
import { agent, type LLMCapabilities, type LLMProvider, structuredOutput } from 'millrace';
import { scriptedLLM } from 'millrace/testing';
import { lastValueFrom, toArray } from 'rxjs';
import { z } from 'zod';
import { question } from '../../core/dead-turn.ts';
import { turnBench } from '../../core/turn-bench.ts';
import { same } from '../../same-type.ts';

const bench = turnBench();
const finish = (value: unknown, ...more: readonly string[]) => ({
  toolCalls: [{ name: '__finish__', arguments: more.length > 0 ? [JSON.stringify(value), ...more] : { value } }],
});
const shape = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('circle'), radius: z.number() }),
  z.object({ kind: z.literal('square'), side: z.number() }),
]);

const withCapabilities = (provider: LLMProvider, capabilities: LLMCapabilities): LLMProvider => ({
  capabilities,
  call: (params) => provider.call(params),
});

describe('an output that is no object', () => {
  it('U-11 may be an array, a union, a number or null, with the type of the schema', async () => {
    const tags = agent({ provider: bench.model([finish(['a', 'b'])]), output: { schema: z.array(z.string()) } });
    const shapes = agent({ provider: bench.model([finish({ kind: 'circle', radius: 2 })]), output: { schema: shape } });
    const counts = agent({ provider: bench.model([finish(7)]), outputSchema: z.number() });
    const maybe = agent({ provider: bench.model([finish(null)]), output: { schema: z.string().nullable() } });
    const [one, two, three, four] = [
      await tags.run('?'),
      await shapes.run('?'),
      await counts.run('?'),
      await maybe.run('?'),
    ];
    if (one.status !== 'completed' || two.status !== 'completed') throw new Error('not completed');
    if (three.status !== 'completed' || four.status !== 'completed') throw new Error('not completed');
    expect(same<typeof one.value, string[]>(true)).toBe(true);
    expect(same<typeof two.value, z.infer<typeof shape>>(true)).toBe(true);
    expect(same<typeof three.value, number>(true)).toBe(true);
    expect(same<typeof four.value, string | null>(true)).toBe(true);
    expect([one.value, two.value, three.value, four.value]).toEqual([
      ['a', 'b'],
      { kind: 'circle', radius: 2 },
      7,
      null,
    ]);
  });

  it('U-11 is asked for as the member of an object, with its definitions at the root', async () => {
    const model = bench.model([finish([{ name: 'a', parts: [] }])]);
    const schema = {
      type: 'array',
      items: { $ref: '#/$defs/node' },
      $defs: { node: { type: 'object', properties: { name: { type: 'string' }, parts: { $ref: '#' } } } },
    } as const;
    const { value } = await bench
      .loop([], { llmProvider: model, extensions: [structuredOutput({ schema })] })
      .startTurn(question)
      .result();
    expect(value).toEqual([{ name: 'a', parts: [] }]);
    expect(model.calls[0]?.tools?.[0]?.function.parameters).toEqual({
      type: 'object',
      required: ['value'],
      additionalProperties: false,
      properties: { value: { type: 'array', items: { $ref: '#/$defs/node' } } },
      $defs: {
        node: { type: 'object', properties: { name: { type: 'string' }, parts: { $ref: '#/properties/value' } } },
      },
    });
  });

  it('U-11 is asked for again where it does not fit, the place named', async () => {
    const model = bench.model([finish(['a', 2]), finish(['a'])]);
    const ada = agent({ provider: model, output: { schema: z.array(z.string()), parseRetries: 1 } });
    expect((await ada.run('?')).value).toEqual(['a']);
    expect(JSON.stringify(model.calls[1]?.messages)).toContain('value[1]');
    const never = agent({
      provider: bench.model([finish([1])]),
      output: { schema: z.array(z.string()), parseRetries: 0 },
    });
    await expect(never.run('?')).rejects.toMatchObject({ code: 'PARSE_ERROR' });
  });

  it('U-11 comes in a responseFormat and as XML too', async () => {
    const native = bench.model([{ text: '{"value":[1,2]}' }]);
    const able = withCapabilities(native, { responseFormat: true });
    const numbers = agent({ provider: able, output: { schema: z.array(z.number()), mode: 'native' } });
    expect((await numbers.run('?')).value).toEqual([1, 2]);
    expect(native.calls[0]?.responseFormat?.schema).toMatchObject({ type: 'object', required: ['value'] });
    const xml = withCapabilities(bench.model([{ text: '<output><value>7</value></output>' }]), { tools: false });
    const count = agent({ provider: xml, output: { schema: z.number() } });
    expect((await count.run('?')).value).toBe(7);
  });

  it('U-11 streams as partial values, without the object around it', async () => {
    const writing = { toolCalls: [{ name: '__finish__', arguments: ['{"val', 'ue":["a', 'b","c"', ']}'] }] };
    const ada = agent({ provider: bench.model([writing]), output: { schema: z.array(z.string()) } });
    expect(await lastValueFrom(ada.startTurn('?').partials().pipe(toArray()))).toEqual([['a'], ['ab', 'c']]);
  });

  it('U-11 may be changed by an extension, and is checked then', async () => {
    const extensions = (value: unknown) => [
      { name: 'ends', afterLLMCall: () => undefined, beforeFinish: () => ({ finish: { value } }) },
      structuredOutput({ schema: z.array(z.string()) }),
    ];
    const fits = bench.loop([{ text: 'Done.' }], { extensions: extensions(['a']) }).startTurn(question);
    expect((await fits.result()).value).toEqual(['a']);
    const wrong = bench.loop([{ text: 'Done.' }], { extensions: extensions(['a', 1]) }).startTurn(question);
    await expect(wrong.result()).rejects.toMatchObject({ code: 'PARSE_ERROR' });
  });
});

describe('the value of a turn', () => {
  it('U-11 is there where the turn completed, and nowhere else', async () => {
    const ada = agent({ provider: scriptedLLM([finish(7)]), output: { schema: z.number() } });
    const result = await ada.run('?');
    if (result.status === 'completed') expect(same<typeof result.value, number>(true)).toBe(true);
    else expect(same<typeof result.value, undefined>(true)).toBe(true);
    expect(result.value).toBe(7);
    const ends = { name: 'ends', beforeFinish: () => ({ finish: { text: 'That is all.' } }) };
    const without = agent({
      provider: scriptedLLM([{ text: 'Done.' }]),
      output: { schema: z.number() },
      extensions: [ends],
    });
    await expect(without.run('?')).rejects.toMatchObject({ code: 'PARSE_ERROR' });
  });

  it('U-11 has one way to be asked for, which a change of the agent replaces', async () => {
    const provider = scriptedLLM([finish('a')]);
    const both = () => agent({ provider, output: { schema: z.number() }, outputSchema: z.number() });
    expect(both).toThrow('output or outputSchema');
    const ada = agent({ provider, output: { schema: z.number() } }).with({ outputSchema: z.string() });
    const result = await ada.run('?');
    expect(same<typeof result.value, string | undefined>(true)).toBe(true);
    expect(result.value).toBe('a');
  });
});
