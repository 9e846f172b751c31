import { describe, expect, it } from '@jest/globals';
import { type Agent, agent, agentTools, LocalToolProvider, type Message, type ToolContext, tool } from 'millrace';
import { type ScriptedLLMStep, scriptedLLM } from 'millrace/testing';
import { z } from 'zod';
import { plainTools } from '../core/plain-tools.ts';
import { same } from '../same-type.ts';
import { says, user } from './agent-bench.ts';
import { answer, handing, teamBench } from './team-bench.ts';

const { on, player, made } = teamBench();
const call: ScriptedLLMStep = { text: 'Wait.', toolCalls: [{ name: 'look', id: 'k' }] };

interface Shop {
  readonly customer: string;
}

/** A tool that keeps what it is told. */
function looking() {
  const seen: ToolContext<Shop>[] = [];
  const look = tool<Shop>()({
    name: 'look',
    description: 'Looks.',
    parameters: z.object({}),
    execute: (_, context) => {
      seen.push(context);
      return `for ${context.context.customer}`;
    },
  });
  return { look, seen, given: () => seen.map(({ context }) => context) };
}

const shop: Shop = { customer: 'Ada' };

describe('the context of a tool', () => {
  it('U-08 has the history, up to the response that makes the call', async () => {
    const histories: (readonly Message[])[] = [];
    const toolProviders = [plainTools({ look: ({ messages }) => histories.push(messages) })];
    const ada = on.agent([{ text: 'Hi.' }, call, { text: 'Done.' }], { toolProviders, systemPrompt: 'Be brief.' });
    await ada.run('Hello');
    await ada.run('Look.');
    const made = { role: 'assistant', content: 'Wait.', toolCalls: [expect.objectContaining({ id: 'k' })] };
    expect(histories).toEqual([[user('Hello'), says('Hi.'), user('Look.'), made]]);
  });

  it('U-08 has the value of the application, also in another agent, in a sub-agent and after a resume', async () => {
    const { look, given } = looking();
    const tools = { toolProviders: [new LocalToolProvider([look])] };
    const bo = on.agent([call, { text: 'Deep.' }], { id: 'bo', ...tools });
    const asks = { toolCalls: [{ name: 'bo', arguments: { message: 'Go on.' } }] };
    const ada = on.agent([asks, { text: 'So.' }], { toolProviders: [agentTools([bo])] });
    await ada.run('Ask.', { context: shop });
    const two = made([player('a', [handing('b')]), player('b', [call, ...answer('B.')], tools)], { handOff: true });
    await two.ask('Help.', { context: shop });

    const pausing = on.agent([call, { text: 'Done.' }], {
      id: 'cy',
      ...tools,
      extensions: [{ name: 'asks', approveToolCall: () => ({ decision: 'ask' }) }],
    });
    const { taskId, questions } = await pausing.run('Look.', { context: shop });
    const answers = Object.fromEntries(questions.map(({ id }) => [id, { approved: true }]));
    const later: Shop = { customer: 'Grace' };
    await pausing.resume(taskId, { answers, context: later }).result();
    expect(given()).toEqual([shop, shop, later]);
    expect(given()[0]).toBe(shop);
  });

  it('U-08 is never journaled, and undefined where none is given', async () => {
    const seen: unknown[] = [];
    const toolProviders = [plainTools({ look: ({ context }) => seen.push(context) })];
    const secret = { token: 'very-secret', connection: () => 'not JSON' };
    const ada = on.agent([call, { text: 'Done.' }, call, { text: 'Done.' }], { toolProviders });
    await ada.run('Look.', { taskId: 't', context: secret });
    await ada.run('Look.');
    expect(seen).toEqual([secret, undefined]);
    expect(JSON.stringify(await on.bench.store.read('t'))).not.toContain('very-secret');
    expect(JSON.stringify(on.bench.spans.spans().map(({ attributes }) => attributes))).not.toContain('very-secret');
  });

  it('U-08 reaches hooks and the function of the system prompt', async () => {
    const seen: unknown[] = [];
    const ada = on.agent([{ text: 'Hi.' }], {
      systemPrompt: ({ context }) => `You serve ${String(context)}.`,
      extensions: [{ name: 'looks', beforeTurn: ({ context }) => void seen.push(context) }],
    });
    await ada.run('Hello', { context: 'Ada' });
    expect(seen).toEqual(['Ada']);
  });

  it('U-08 has the type of agent<Context>() and tool<Context>()', async () => {
    const { look, given } = looking();
    const provider = scriptedLLM([call, { text: 'Done.' }]);
    const ada = agent<Shop>()({ provider, tools: [look] });
    await ada.run('Look.', { context: shop });
    expect(given()).toEqual([shop]);
    // @ts-expect-error: a context of another type.
    const wrong = () => ada.run('Look.', { context: { customer: 7 } });
    // @ts-expect-error: a tool for another context.
    const other = () => agent<{ readonly till: number }>()({ provider, tools: [look] });
    const typed = agent<Shop>()({ provider, outputSchema: z.object({ city: z.string() }) });
    expect(same<typeof typed, Agent<{ city: string }, Shop, never>>(true)).toBe(true);
    const asTool: Agent = typed;
    expect([typeof wrong, typeof other, asTool]).toEqual(['function', 'function', typed]);
  });
});
