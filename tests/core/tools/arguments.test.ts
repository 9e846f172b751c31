import { describe, expect, it } from '@jest/globals';
import type { StandardSchemaV1 } from '@standard-schema/spec';
import { checkedTools, LocalToolProvider, type Message, type Tool, type ToolProvider, tool } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { gate, type LLMStepCall } from 'millrace/testing';
import type { ArgumentCheck } from 'millrace/types';
import { z } from 'zod';
import { plainTools } from '../plain-tools.ts';
import { turnBench } from '../turn-bench.ts';
import { question, runTurn } from './run-turn.ts';

const bench = turnBench();

/** What a tool got, and what the model was told, where the model made one call of it. */
async function oneCall(provider: ToolProvider, call: LLMStepCall) {
  const model = bench.model([{ toolCalls: [call] }, { text: 'Done.' }]);
  const loop = new AgentLoop(bench.config(model, { toolProviders: [provider] }));
  const { seen, result } = await runTurn(loop);
  expect(result).toMatchObject({ status: 'completed' });
  const told = model.calls[1]?.messages.at(-1);
  const [complete] = seen.of('internal:tool-complete');
  return { told, complete, starts: seen.of('internal:tool-start') };
}

const got: unknown[] = [];
const execute = (args: unknown) => {
  got.push(args);
  return 'counted';
};

const zodTool = tool({
  name: 'count',
  description: 'Counts fruit.',
  parameters: z.object({ of: z.string().trim(), upTo: z.number().int().default(10) }),
  execute,
});

const jsonSchema = {
  type: 'object',
  properties: { of: { type: 'string' }, upTo: { type: 'integer', default: 10 } },
  required: ['of'],
} as const;
const jsonTool = tool({ name: 'count', description: 'Counts fruit.', parameters: jsonSchema, execute });

/** A Standard Schema whose checks take a while. */
function slowSchema(check: (value: unknown) => Promise<StandardSchemaV1.Result<{ readonly of: string }>>) {
  const schema: StandardSchemaV1<{ readonly of: string }> = {
    '~standard': { version: 1, vendor: 'slow', validate: check },
  };
  return tool({ name: 'count', description: 'Counts fruit.', parameters: schema, jsonSchema, execute });
}

const slowTool = slowSchema(async (value) => {
  const { success, data } = z.object({ of: z.string() }).safeParse(value);
  await new Promise((resolve) => setImmediate(resolve));
  return success ? { value: { of: `checked ${data.of}` } } : { issues: [{ message: 'is missing', path: ['of'] }] };
});

const remote: ToolProvider = {
  ...plainTools({ count: ({ arguments: args }) => execute(args) }),
  getTools: () => [
    { type: 'function', function: { name: 'count', description: 'Counts fruit.', parameters: jsonSchema } },
  ],
};

const local = (one: Tool) => new LocalToolProvider([one]);

describe('arguments', () => {
  it.each([
    ['a Standard Schema', () => local(zodTool), { of: 'apples', upTo: 10 }],
    ['a JSON Schema', () => local(jsonTool), { of: ' apples ' }],
    ['an asynchronous Standard Schema', () => local(slowTool), { of: 'checked  apples ' }],
    ['a JSON Schema that checkedTools reads', () => checkedTools(remote), { of: ' apples ' }],
  ])('that fit %s reach the tool as it gives them', async (_, provider, expected) => {
    got.length = 0;
    const { told, complete, starts } = await oneCall(provider(), { name: 'count', arguments: { of: ' apples ' } });
    expect(got).toEqual([expected]);
    expect(starts.map(({ arguments: args }) => args)).toEqual([expected]);
    expect(complete).toMatchObject({ success: true, arguments: expected });
    expect(told).toEqual({ role: 'tool', toolCallId: 'call_1_0', content: 'counted' });
  });

  it.each([
    ['a Standard Schema', () => local(zodTool), 'arguments.of: '],
    ['a JSON Schema', () => local(jsonTool), 'arguments.of is required'],
    ['an asynchronous Standard Schema', () => local(slowTool), 'arguments.of: is missing'],
    ['a JSON Schema that checkedTools reads', () => checkedTools(remote), 'arguments.of is required'],
  ])(
    'S1-56 that violate %s give the model an error result that names the field; the tool is not called',
    async (_, provider, words) => {
      got.length = 0;
      const { told, complete, starts } = await oneCall(provider(), { name: 'count', arguments: { upTo: 3 } });
      expect(got).toEqual([]);
      expect(starts).toEqual([]);
      expect(complete).toMatchObject({
        success: false,
        arguments: { upTo: 3 },
        error: { code: 'TOOL_ARGUMENTS', message: expect.stringContaining(words) },
        durationMs: 0,
      });
      expect(told).toMatchObject({ role: 'tool', status: 'error', content: expect.stringContaining(words) });
    },
  );

  it('S1-56 that are wrong once can be right in the next iteration', async () => {
    got.length = 0;
    const model = bench.model([
      { toolCalls: [{ name: 'count', arguments: { of: 3 } }] },
      { toolCalls: [{ name: 'count', arguments: { of: 'apples' } }] },
      { text: 'Done.' },
    ]);
    const loop = new AgentLoop(bench.config(model, { toolProviders: [local(zodTool)] }));
    await runTurn(loop);
    expect(got).toEqual([{ of: 'apples', upTo: 10 }]);
  });

  it.each(['', '  ', '{}'])('S1-56 of none at all, sent as %j, are an empty object', async (text) => {
    const free = tool({ name: 'now', description: 'Tells the time.', parameters: z.object({}), execute });
    got.length = 0;
    await oneCall(local(free), { name: 'now', arguments: text });
    expect(got).toEqual([{}]);
  });

  it('S2-34 S1-46 that are not JSON give an error result, with the text in the event; the tool is not called', async () => {
    got.length = 0;
    const { told, complete, starts } = await oneCall(local(zodTool), { name: 'count', arguments: '{"of": apples}' });
    expect(got).toEqual([]);
    expect(starts).toEqual([]);
    expect(complete).toMatchObject({
      arguments: { _raw: '{"of": apples}' },
      success: false,
      error: { code: 'TOOL_ARGUMENTS' },
    });
    expect(told).toMatchObject({
      status: 'error',
      content: expect.stringMatching('"count" are not JSON .*send one JSON'),
    });
  });

  it('S2-34 that are not JSON reach a tool that accepts them raw, past the schema', async () => {
    const raw = tool({
      name: 'run',
      description: 'Runs a program.',
      parameters: z.object({ code: z.string() }),
      acceptsRaw: true,
      execute,
    });
    got.length = 0;
    const { complete, starts } = await oneCall(local(raw), { name: 'run', arguments: 'print(1)' });
    expect(got).toEqual([{ _raw: 'print(1)' }]);
    expect(starts).toMatchObject([{ arguments: { _raw: 'print(1)' } }]);
    expect(complete).toMatchObject({ success: true });
  });

  it('that are JSON are checked also where a tool accepts raw ones', async () => {
    const raw = tool({
      name: 'run',
      description: 'Runs a program.',
      parameters: z.object({ code: z.string() }),
      acceptsRaw: true,
      execute,
    });
    got.length = 0;
    expect((await oneCall(local(raw), { name: 'run', arguments: { code: 1 } })).complete).toMatchObject({
      error: { code: 'TOOL_ARGUMENTS' },
    });
    expect(got).toEqual([]);
  });

  it.each([
    [
      'throws',
      (): ArgumentCheck => {
        throw new TypeError('no schema');
      },
    ],
    ['rejects', () => Promise.reject(new TypeError('no schema'))],
  ])('whose check %s are refused with what went wrong', async (_, checkArguments) => {
    const provider: ToolProvider = {
      ...remote,
      getTools: () => [
        { type: 'function', function: { name: 'count', description: 'Counts.', parameters: {} }, checkArguments },
      ],
    };
    got.length = 0;
    const { told } = await oneCall(provider, { name: 'count' });
    expect(told).toMatchObject({ status: 'error', content: 'Tool error: no schema' });
    expect(got).toEqual([]);
  });

  it('are checked once, also where the check is asynchronous', async () => {
    let checks = 0;
    const counted = slowSchema(async () => {
      checks++;
      return { value: { of: 'apples' } };
    });
    await oneCall(local(counted), { name: 'count' });
    expect(checks).toBe(1);
  });

  it('that are being checked do not hold the calls beside them, nor a cancel', async () => {
    const check = gate();
    const slow = slowSchema(async () => {
      await check.pass();
      return { value: { of: 'apples' } };
    });
    const loop = bench.loop([{ toolCalls: [{ name: 'count' }, { name: 'quick' }] }], {
      toolProviders: [local(slow), plainTools({ quick: () => 1 })],
    });
    const turn = loop.startTurn(question, { taskId: 't' });
    const completed = new Promise<void>((resolve) => {
      turn.subscribe(({ kind }) => kind === 'internal:tool-complete' && resolve());
    });
    await completed;
    await check.reached;
    got.length = 0;
    await turn.cancel('enough');
    check.open();
    await new Promise((resolve) => setImmediate(resolve));
    expect(got).toEqual([]);
    expect(bench.store.read('t').at(-1)).toMatchObject({ type: 'turn.canceled', reason: 'enough' });
  });
});

describe('a call', () => {
  it('S0-21 S2-33 of an unknown tool gives an error result that lists the known ones; nothing runs, the turn goes on', async () => {
    const tools = plainTools({ count: execute, weigh: execute });
    got.length = 0;
    const { told, complete, starts } = await oneCall(tools, { name: 'cuont', arguments: { of: 'apples' } });
    const message = 'tool "cuont" is not known; known tools: count, weigh';
    expect(told).toEqual({ role: 'tool', toolCallId: 'call_1_0', content: `Tool error: ${message}`, status: 'error' });
    expect(complete).toMatchObject({
      toolName: 'cuont',
      arguments: { of: 'apples' },
      error: { code: 'TOOL_NOT_FOUND', message },
    });
    expect(starts).toEqual([]);
    expect(got).toEqual([]);
  });

  it('S0-21 is told where there are no tools at all', async () => {
    const { told } = await oneCall(plainTools({}), { name: 'count' });
    expect(told).toMatchObject({ content: 'Tool error: tool "count" is not known; there are no tools' });
  });

  it('S1-46 without a name gives an error result', async () => {
    const { told, complete } = await oneCall(plainTools({ count: execute }), { name: '' });
    expect(told).toMatchObject({ content: 'Tool error: the call names no tool; known tools: count', status: 'error' });
    expect(complete).toMatchObject({ toolName: '', error: { code: 'TOOL_NOT_FOUND' } });
  });

  it('S1-46 with an id that is missing or repeated goes by ours, and each has its own result', async () => {
    const tools = plainTools({ echo: ({ callId, arguments: args }) => `${callId} ${JSON.stringify(args)}` });
    const calls = ['same', 'same', '', 'other'].map((id, n) => ({ name: 'echo', id, arguments: { n } }));
    const model = bench.model([{ toolCalls: calls }, { text: 'Done.' }]);
    const loop = new AgentLoop(bench.config(model, { toolProviders: [tools] }));
    const { seen } = await runTurn(loop);
    const ids = ['same', '1:1', '1:2', 'other'];
    const [asking, ...told] = (model.calls[1]?.messages ?? []).slice(-5);
    expect(asking).toMatchObject({ toolCalls: ids.map((id) => ({ id })) });
    expect(told).toEqual(
      ids.map((toolCallId, n): Message => ({ role: 'tool', toolCallId, content: `1:${n} {"n":${n}}` })),
    );
    expect(seen.of('internal:tool-complete').map(({ callId }) => callId)).toEqual(['1:0', '1:1', '1:2', '1:3']);
  });
});
