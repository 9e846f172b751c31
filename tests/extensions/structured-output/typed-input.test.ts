import { describe, expect, it } from '@jest/globals';
import { typedInput } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { z } from 'zod';
import { turnBench } from '../../core/turn-bench.ts';

const bench = turnBench();
const request = typedInput({ schema: z.object({ city: z.string(), days: z.array(z.int()) }), name: 'request' });

describe('typedInput', () => {
  it('S3-01 refuses input that does not fit, naming the field, before the model is called', async () => {
    const model = bench.model([]);
    const loop = new AgentLoop(bench.config(model));
    const ask = async () => {
      // @ts-expect-error the city is a text
      const messages = await request.messages({ city: 3, days: [] });
      return loop.startTurn(messages).result();
    };
    await expect(ask()).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringContaining('input.city'),
    });
    expect(model.calls).toHaveLength(0);
  });

  it('S3-02 writes the input as XML behind the system prompt', async () => {
    const model = bench.model([{ text: 'Cold.' }]);
    const loop = new AgentLoop(bench.config(model, { systemPrompt: 'You forecast the weather.' }));
    await loop.startTurn(await request.messages({ city: 'Oslo & <Bergen>', days: [1, 2] })).result();
    expect(model.calls[0]?.messages).toEqual([
      { role: 'system', content: 'You forecast the weather.' },
      {
        role: 'user',
        content: [
          '<request>',
          '  <city>Oslo &amp; &lt;Bergen&gt;</city>',
          '  <days>',
          '    <item>1</item>',
          '    <item>2</item>',
          '  </days>',
          '</request>',
        ].join('\n'),
      },
    ]);
  });

  it('takes input that is no object, too', async () => {
    const words = typedInput({ schema: z.array(z.string()) });
    const word = typedInput({ schema: z.string() });
    expect((await word.messages('a < b'))[0].content).toBe('<input>a &lt; b</input>');
    expect((await words.messages(['one']))[0].content).toContain('<item>one</item>');
    await expect(Reflect.apply(word.messages, undefined, [7])).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  });

  it.each([
    [{}, /schema is missing/],
    [{ schema: 7 }, /schema must be a Standard Schema or a JSON Schema/],
    [{ schema: { type: 'object' }, name: '' }, /name must .*, not ""/],
    [{ schema: { type: 'object' }, nam: 'x' }, /no option "nam"/],
  ])('refuses wrong options: %j', (options, message) => {
    expect(() => Reflect.apply(typedInput, undefined, [options])).toThrow(message);
  });

  it('checks by a JSON Schema as well', async () => {
    const typed = typedInput({
      schema: { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] } as const,
    });
    expect(await typed.messages({ n: 1 })).toEqual([{ role: 'user', content: '<input>\n  <n>1</n>\n</input>' }]);
    // @ts-expect-error a text is no number
    await expect(typed.messages({ n: 'one' })).rejects.toThrow(/input\.n must be integer/);
  });
});
