import { describe, expect, it } from '@jest/globals';
import { type ClientToolAnswer, ClientToolProvider } from 'millrace';
import { z } from 'zod';
import { thrownBy } from './thrown.ts';
import { listContext, toolCall, toolContext } from './tool-context.ts';

const locate = { name: 'locate', description: 'Where the user is.', parameters: { type: 'object' } };

/** A provider of tools as they come from outside: their types are not known. */
function provider(tools: unknown): ClientToolProvider {
  return Reflect.construct(ClientToolProvider, [tools, { name: 'phone' }]);
}

describe('ClientToolProvider', () => {
  it('lists its tools as reads, which run again where the process died within them', async () => {
    const [definition] = await provider([locate]).getTools(listContext);
    expect(definition).toMatchObject({ type: 'function', function: locate, readOnly: true, onInDoubt: 'retry' });
  });

  it('gives what the client answers as the result, and why it failed', async () => {
    const answered = (answer: ClientToolAnswer) =>
      provider([locate]).executeTool(toolCall('locate'), toolContext({ arguments: {}, ask: () => answer }));
    expect(await answered({ result: { city: 'Oslo' } })).toMatchObject({ content: '{"city":"Oslo"}', success: true });
    expect(await answered({ error: 'no signal' })).toMatchObject({ success: false, error: 'no signal' });
  });

  it.each([
    ['parameters that are null', { ...locate, parameters: null }, /^Tool "locate": parameters is null; give the JSON/],
    [
      'parameters that are a list',
      { ...locate, parameters: [] },
      /^Tool "locate": parameters is an array; give the JSON/,
    ],
    [
      'parameters of no object',
      { ...locate, parameters: {} },
      /^Tool "locate": parameters.type is undefined; .*"object"/,
    ],
    [
      'a Standard Schema',
      { ...locate, parameters: z.object({}) },
      /^Tool "locate": parameters is an object; give the JSON/,
    ],
    ['an empty name', { ...locate, name: '' }, /^A tool without a name: name is ""; use 1 to 64/],
    ['no description', { ...locate, description: undefined }, /^Tool "locate": description is undefined; say/],
    ['a member too much', { ...locate, execute: () => 1 }, /^Tool "locate": execute is a function; it is no member/],
    ['no object', 'locate', /^A tool is described by \{ name, .* not by "locate"/],
  ])('refuses a tool with %s, naming the tool and the cure', async (_what, tool, message) => {
    const error = await thrownBy(() => provider([tool]));
    expect(error).toMatchObject({ code: 'INVALID_CONFIG', message: expect.stringMatching(message) });
  });

  it('refuses what is no list of tools', async () => {
    const error = await thrownBy(() => provider({ locate }));
    expect(error).toMatchObject({ code: 'INVALID_CONFIG', message: expect.stringMatching(/^phone takes a list/) });
  });

  it('refuses two tools of one name', async () => {
    const error = await thrownBy(() => provider([locate, { ...locate, description: 'Elsewhere.' }]));
    expect(error).toMatchObject({
      code: 'DUPLICATE_TOOL',
      message: expect.stringMatching(/^phone has two tools "locate"/),
    });
  });
});
