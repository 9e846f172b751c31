import { expect, it } from '@jest/globals';
import {
  type AgentEvent,
  checkedTools,
  contentParts,
  LocalToolProvider,
  type ToolContext,
  type ToolProvider,
  tool,
} from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { type LLMStep, scriptedLLM } from 'millrace/testing';
import { filter, lastValueFrom, toArray } from 'rxjs';
import { z } from 'zod';

const parameters = {
  type: 'object',
  properties: { city: { type: 'string' }, days: { type: 'integer' } },
  required: ['city'],
} as const;

/** A turn of the given model calls and a closing one: what the model was asked, and how the calls of tools ended. */
async function turnOf(provider: ToolProvider, ...steps: readonly LLMStep[]) {
  const llmProvider = scriptedLLM([...steps, { text: 'done' }]);
  const loop = new AgentLoop({ agentId: 'agent', llmProvider, toolProviders: [provider] });
  const turn = loop.startTurn([{ role: 'user', content: 'go' }], { taskId: 'task', contextId: 'context' });
  const ends = turn.pipe(
    filter((event: AgentEvent) => event.kind === 'internal:tool-complete'),
    toArray(),
  );
  const completes = await lastValueFrom(ends);
  llmProvider.assertDone();
  const results = llmProvider.calls.at(-1)?.messages.filter(({ role }) => role === 'tool') ?? [];
  return { completes, results, offered: llmProvider.calls[0]?.tools ?? [] };
}

it('S1-49 S4-10 a function that is registered is offered, gets checked arguments and a context, and its value goes back', async () => {
  const seen: [unknown, ToolContext][] = [];
  const weather = tool({
    name: 'weather',
    description: 'Tells the weather.',
    parameters: z.object({ city: z.string().trim(), days: z.number().default(3) }),
    execute: (args, context) => {
      seen.push([args, context]);
      return { sky: 'blue', clouds: 0 };
    },
  });
  const { results, offered } = await turnOf(new LocalToolProvider([weather]), {
    toolCalls: [{ name: 'weather', arguments: { city: ' Rome ' } }],
  });
  expect(offered.map(({ function: { name } }) => name)).toEqual(['weather']);
  expect(seen.map(([args]) => args)).toEqual([{ city: 'Rome', days: 3 }]);
  expect(seen[0]?.[1]).toMatchObject({ taskId: 'task', contextId: 'context', agentId: 'agent', callId: '1:0' });
  expect(results).toMatchObject([{ toolCallId: 'call_1_0', content: '{"sky":"blue","clouds":0}' }]);
});

it('S1-56 S4-11 a JSON Schema reaches the model unchanged; arguments that do not fit it are told, and nothing runs', async () => {
  let runs = 0;
  const weather = tool({ name: 'weather', description: 'Tells.', parameters, execute: () => (runs += 1) });
  const { results, offered, completes } = await turnOf(
    new LocalToolProvider([weather]),
    { toolCalls: [{ name: 'weather', arguments: { days: 1.5 } }] },
    { toolCalls: [{ name: 'weather', arguments: { city: 'Rome' } }] },
  );
  expect(offered[0]?.function.parameters).toEqual(parameters);
  expect(runs).toBe(1);
  expect(results[0]).toMatchObject({ status: 'error' });
  expect(results[0]?.content).toContain('arguments.city is required; arguments.days must be integer');
  expect(results[1]).toMatchObject({ content: '1' });
  expect(completes).toMatchObject([{ success: false }, { success: true }]);
});

it('S1-48 a provider is asked once per call; its content becomes the one message of the call', async () => {
  const asked: [string, string][] = [];
  const remote: ToolProvider = {
    name: 'remote',
    getTools: () => [{ type: 'function', function: { name: 'weather', description: 'Tells.', parameters } }],
    executeTool: async (call, context) => {
      asked.push([call.id, context.callId]);
      const failed = call.id === 'call_1_1';
      return {
        toolCallId: call.id,
        content: failed ? 'no such city' : 'sunny',
        success: !failed,
        ...(failed && { error: 'unknown' }),
      };
    },
  };
  const { results, completes } = await turnOf(checkedTools(remote), {
    toolCalls: [
      { name: 'weather', arguments: { city: 'Rome' } },
      { name: 'weather', arguments: { city: 'Atlantis' } },
      { name: 'weather', arguments: {} },
    ],
  });
  expect(asked).toEqual([
    ['call_1_0', '1:0'],
    ['call_1_1', '1:1'],
  ]);
  expect(results).toMatchObject([
    { toolCallId: 'call_1_0', content: 'sunny' },
    { toolCallId: 'call_1_1', content: 'no such city', status: 'error' },
    { toolCallId: 'call_1_2', status: 'error' },
  ]);
  expect(results[2]?.content).toContain('arguments.city is required');
  const byCall = new Map(completes.map((event) => [event.callId, event]));
  expect(byCall.get('1:0')).toMatchObject({ success: true });
  expect(byCall.get('1:1')).toMatchObject({ success: false, error: { message: 'unknown' } });
});

it('what a function returns or throws is what the model reads', async () => {
  const returns: Record<string, () => unknown> = {
    zero: () => 0,
    no: () => false,
    nothing: () => '',
    picture: () => contentParts([{ type: 'image_url', image_url: { url: 'https://example.com/a.png' } }]),
    far: () => {
      throw new RangeError('x must be positive');
    },
    bytes: () => Buffer.from('x'),
  };
  const tools = Object.entries(returns).map(([name, execute]) =>
    tool({ name, description: 'Returns.', parameters: z.object({}), execute }),
  );
  const toolCalls = Object.keys(returns).map((name) => ({ name }));
  const { results } = await turnOf(new LocalToolProvider(tools), { toolCalls });
  expect(results.map(({ content }) => content)).toEqual([
    '0',
    'false',
    '',
    [{ type: 'image_url', image_url: { url: 'https://example.com/a.png' } }],
    'Tool error: RangeError: x must be positive',
    expect.stringContaining('binary data'),
  ]);
});
