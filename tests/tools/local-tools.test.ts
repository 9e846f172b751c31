import { describe, expect, it } from '@jest/globals';
import { contentParts, LocalToolProvider, type ToolDefinition, tool } from 'millrace';
import { z } from 'zod';
import { thrownBy } from './thrown.ts';
import { toolCall, toolContext } from './tool-context.ts';

const parameters = {
  type: 'object',
  properties: { a: { type: 'number' }, b: { type: 'number' } },
  required: ['a', 'b'],
} as const;

const add = tool({ name: 'add', description: 'Adds.', parameters, execute: ({ a, b }) => a + b });
const noArguments = { type: 'object', properties: {} } as const;

function returning(name: string, execute: () => unknown) {
  return tool({ name, description: 'Returns.', parameters: noArguments, execute });
}

describe('LocalToolProvider', () => {
  it('S0-03 lists a registered tool and runs it by name; an unregistered name runs nothing', async () => {
    const calls: string[] = [];
    const local = new LocalToolProvider();
    local
      .register(returning('first', () => calls.push('first')))
      .register(returning('second', () => calls.push('second')));
    expect((await local.getTools()).map((definition) => definition.function.name)).toEqual(['first', 'second']);
    await local.executeTool(toolCall('second'), toolContext({ arguments: {} }));
    const error = await thrownBy(() => local.executeTool(toolCall('third'), toolContext({ arguments: {} })));
    expect(calls).toEqual(['second']);
    expect([error.code, error.message]).toEqual([
      'TOOL_NOT_FOUND',
      'Tool "third" is not known to LocalToolProvider; its tools are: first, second.',
    ]);
  });

  it('rejects an unregistered name with a promise, also where it has no tool', async () => {
    const answer = new LocalToolProvider().executeTool(toolCall('toString'), toolContext());
    expect(answer).toBeInstanceOf(Promise);
    await expect(answer).rejects.toThrow('its tools are: none.');
  });

  it('S4-45 refuses a second tool of the same name', async () => {
    const local = new LocalToolProvider([add], { name: 'sums' });
    const error = await thrownBy(() => local.register(add));
    expect([error.code, error.message]).toEqual([
      'DUPLICATE_TOOL',
      'sums has a tool "add" already; rename one of them.',
    ]);
    expect((await thrownBy(() => new LocalToolProvider([add, add]))).code).toBe('DUPLICATE_TOOL');
    expect(await local.getTools()).toHaveLength(1);
  });

  it('answers without a promise where the function does', () => {
    const local = new LocalToolProvider([add, returning('later', async () => 'done')]);
    expect(local.executeTool(toolCall('add'), toolContext({ arguments: { a: 1, b: 2 } }))).toEqual({
      toolCallId: 'call_1',
      content: '3',
      success: true,
    });
    expect(local.executeTool(toolCall('later'), toolContext({ arguments: {} }))).toBeInstanceOf(Promise);
  });

  it('awaits what the function returns, also a thenable, and makes content of it', async () => {
    const parts = contentParts([{ type: 'text', text: 'hi' }]);
    const thenable = { then: (resolve: (value: unknown) => void) => resolve({ found: 0 }) };
    const local = new LocalToolProvider([
      returning('thenable', () => thenable),
      returning('parts', async () => parts),
      returning('nothing', async () => {}),
    ]);
    const run = (name: string) => local.executeTool(toolCall(name), toolContext({ arguments: {} }));
    expect((await run('thenable')).content).toBe('{"found":0}');
    expect((await run('parts')).content).toEqual([{ type: 'text', text: 'hi' }]);
    expect((await run('nothing')).content).toBe('');
  });

  it('passes on what the function throws, rejects with or returns as an error', async () => {
    const error = new RangeError('x must be positive');
    const ways: readonly (() => unknown)[] = [
      () => {
        throw error;
      },
      () => Promise.reject(error),
      () => error,
      async () => error,
    ];
    for (const way of ways) {
      const local = new LocalToolProvider([returning('fail', way)]);
      await expect((async () => local.executeTool(toolCall('fail'), toolContext({ arguments: {} })))()).rejects.toBe(
        error,
      );
    }
  });

  it('does not check arguments that the engine has checked', () => {
    const seen: unknown[] = [];
    const local = new LocalToolProvider([
      tool({ name: 'see', description: 'Sees.', parameters, execute: (args) => seen.push(args) }),
    ]);
    const context = toolContext({ arguments: { a: 'x' } });
    expect(local.executeTool(toolCall('see', '{"a":1,"b":2}'), context)).toMatchObject({ content: '1' });
    expect(seen).toEqual([{ a: 'x' }]);
  });
});

describe('a call whose arguments nobody has checked', () => {
  const local = new LocalToolProvider([add, returning('ping', () => 'pong')]);

  it('is parsed, checked and converted first', async () => {
    const doubled = tool({
      name: 'double',
      description: 'Doubles.',
      parameters: z.object({ n: z.coerce.number(), times: z.number().default(2) }),
      execute: ({ n, times }) => n * times,
    });
    const answer = await new LocalToolProvider([doubled]).executeTool(toolCall('double', { n: '21' }), toolContext());
    expect(answer.content).toBe('42');
  });

  it.each(['', ' ', '{}'])('may be without any: %p', async (text) => {
    expect((await local.executeTool(toolCall('ping', text), toolContext())).content).toBe('pong');
  });

  it('is refused where they do not fit', async () => {
    const error = await thrownBy(() => local.executeTool(toolCall('add', { a: 1 }), toolContext()));
    expect([error.code, error.message]).toEqual(['TOOL_ARGUMENTS', 'Tool "add" was not run: arguments.b is required.']);
  });

  it('is refused where they are not JSON, unless the tool takes them raw', async () => {
    const error = await thrownBy(() => local.executeTool(toolCall('add', '{"a":'), toolContext()));
    expect(error.code).toBe('TOOL_ARGUMENTS');
    expect(error.message).toMatch(/^Tool "add" was not run: the arguments are not JSON \(.+\)\.$/);
    const raw = tool({
      name: 'run',
      description: 'Runs.',
      parameters: { type: 'object', properties: { code: { type: 'string' } }, required: ['code'] },
      acceptsRaw: true,
      execute: (args) => ('_raw' in args ? `raw ${args._raw}` : `code ${args.code}`),
    });
    const free = new LocalToolProvider([raw]);
    expect((await free.executeTool(toolCall('run', 'print(1)'), toolContext())).content).toBe('raw print(1)');
    expect((await free.executeTool(toolCall('run', { code: 'x' }), toolContext())).content).toBe('code x');
  });
});

describe('a function registered with its definition', () => {
  const definition: ToolDefinition = {
    type: 'function',
    function: { name: 'add', description: 'Adds.', parameters },
    timeoutMs: 10,
    sequential: true,
  };

  it('is listed with its policy and a check, and runs', async () => {
    const local = new LocalToolProvider();
    local.register(definition, (args) => JSON.stringify(args));
    const [listed] = await local.getTools();
    expect(listed).toMatchObject({ ...definition, checkArguments: expect.any(Function) });
    expect(await listed?.checkArguments?.({ a: 1 })).toEqual({ ok: false, message: 'arguments.b is required' });
    const context = toolContext({ arguments: { a: 1, b: 2 } });
    expect(await local.executeTool(toolCall('add'), context)).toMatchObject({ content: '{"a":1,"b":2}' });
  });

  it('keeps a check of its own', async () => {
    const checkArguments = () => ({ ok: true as const, value: 'checked' });
    const [listed] = await new LocalToolProvider().register({ ...definition, checkArguments }, () => '').getTools();
    expect(listed?.checkArguments).toBe(checkArguments);
  });

  it('is checked like the options of a tool', async () => {
    const wrong = { ...definition, timeoutMs: -1 };
    expect((await thrownBy(() => new LocalToolProvider().register(wrong, () => ''))).message).toContain(
      'timeoutMs is -1',
    );
  });
});

describe('the first listing', () => {
  it('rejects where a JSON Schema is not one, each time, and lists what is right', async () => {
    const local = new LocalToolProvider([add]);
    expect(await local.getTools()).toHaveLength(1);
    const wrong = { type: 'object', properties: { a: { type: 'text' } } } as const;
    local.register(tool({ name: 'bad', description: 'Bad.', parameters: wrong, execute: () => '' }));
    for (const _ of [1, 2]) {
      const error = await thrownBy(() => local.getTools());
      expect(error.code).toBe('INVALID_CONFIG');
      expect(error.message).toContain('The JSON Schema of tool "bad" is not valid: schema/properties/a/type');
    }
  });

  it('is shared by turns that start at the same time, and made again for a tool that comes meanwhile', async () => {
    let prepared = 0;
    const counted = (name: string) => ({ ...returning(name, () => ''), prepare: async () => void prepared++ });
    const local = new LocalToolProvider([counted('first')]);
    const listings = [local.getTools(), local.getTools()];
    expect(prepared).toBe(1);
    local.register(counted('second'));
    expect(await local.getTools()).toHaveLength(2);
    await Promise.all(listings);
    expect(prepared).toBe(3);
    expect(local.getTools()).toHaveLength(2);
  });

  it('is the only one that takes a promise', async () => {
    const local = new LocalToolProvider([add]);
    expect(local.getTools()).toBeInstanceOf(Promise);
    await local.getTools();
    expect(local.getTools()).toHaveLength(1);
    local.register(tool({ name: 'z', description: 'Zod.', parameters: z.object({}), execute: () => '' }));
    expect(local.getTools()).toHaveLength(2);
  });
});
