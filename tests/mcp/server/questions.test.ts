import { afterEach, describe, expect, it, jest } from '@jest/globals';
import type { CallToolResult, ElicitResult } from '@modelcontextprotocol/server';
import { type Agent, agent, agentTools, budget, InMemoryStateStore, type Tool, textOf, tool } from 'millrace';
import { type ListenOptions, type McpServerSettings, mcpServer } from 'millrace/mcp';
import { gate, type ScriptedLLMStep, scriptedLLM } from 'millrace/testing';
import type { AgentSettings } from 'millrace/types';
import { eventually } from '../../eventually.ts';
import { ModernWire } from './modern-wire.ts';

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  jest.restoreAllMocks();
  for (const close of closing.splice(0).reverse()) await close();
});

type Options = Partial<AgentSettings> & { readonly tools?: readonly Tool[] };

function clerk(steps: readonly ScriptedLLMStep[], options: Options = {}): Agent {
  return agent({ id: 'clerk', name: 'the clerk', provider: scriptedLLM(steps), ...options });
}

interface Served {
  readonly settings?: Partial<McpServerSettings>;
  readonly listen?: ListenOptions;
  readonly headers?: Readonly<Record<string, string>>;
}

async function served(theAgent: Agent, { settings, listen, headers }: Served = {}): Promise<ModernWire> {
  const server = mcpServer({ agent: theAgent, ...settings });
  closing.push(() => server.close());
  return new ModernWire((await server.listen(listen)).url, headers);
}

function said(result: CallToolResult | undefined): string {
  return (result?.content ?? []).map((part) => (part.type === 'text' ? part.text : part.type)).join('\n');
}

async function countOf(theAgent: Agent, state: 'canceled'): Promise<number> {
  let count = 0;
  for await (const _ of (await theAgent.options.taskStateStore?.list?.({ state })) ?? []) count++;
  return count;
}

/** A tool that needs approval, and counts how often it ran. */
function refundTool(): { readonly refund: Tool; readonly runs: () => number } {
  let runs = 0;
  const refund = tool({
    name: 'refund',
    description: 'Refunds.',
    parameters: { type: 'object', properties: { cents: { type: 'integer' } }, required: ['cents'] },
    needsApproval: true,
    execute: ({ cents }) => `refunded ${cents} (${++runs})`,
  });
  return { refund, runs: () => runs };
}

const callRefund: ScriptedLLMStep = { toolCalls: [{ name: 'refund', arguments: { cents: 5 } }] };
const results: ScriptedLLMStep = ({ messages }) => ({
  text: messages
    .filter(({ role }) => role === 'tool')
    .map(({ content }) => textOf(content))
    .join(' '),
});
const approve: ElicitResult = { action: 'accept', content: { approved: true } };
const stateKey = 'a key that has more than 32 bytes in it';
const go = { message: 'Go.' };

describe('a question of a turn, for a client of 2026-07-28', () => {
  it('ends the call with what to ask, and the retry with the answer gives the result', async () => {
    const { refund } = refundTool();
    const wire = await served(clerk([callRefund, results], { tools: [refund] }));
    const { result } = await wire.call({ arguments: go });
    expect(result).toMatchObject({
      resultType: 'input_required',
      inputRequests: {
        '1:0': { method: 'elicitation/create', params: { mode: 'form', requestedSchema: { required: ['approved'] } } },
      },
    });
    const { requestState } = result ?? {};
    const retry = await wire.call({ arguments: go, inputResponses: { '1:0': approve }, requestState });
    expect(retry.result?.resultType).toBe('complete');
    expect(said(retry.result)).toBe('refunded 5 (1)');
  });

  it('P-10 survives the server: another one with the same key and store takes the answer', async () => {
    const { refund, runs } = refundTool();
    const taskStateStore = new InMemoryStateStore();
    const first = mcpServer({ agent: clerk([callRefund], { tools: [refund], taskStateStore }), stateKey });
    const asked = await new ModernWire((await first.listen()).url).call({ arguments: go });
    await first.close();
    const retry = {
      arguments: go,
      inputResponses: { '1:0': approve },
      requestState: asked.result?.requestState,
    };
    const next = () => clerk([results], { tools: [refund], taskStateStore });
    const stranger = await served(next(), { settings: { stateKey: 'another key of more than 32 bytes, too' } });
    expect((await stranger.call(retry)).error).toMatchObject({
      code: -32_602,
      data: { reason: 'invalid_request_state' },
    });
    expect(runs()).toBe(0);
    const second = await served(next(), { settings: { stateKey } });
    expect(said((await second.call(retry)).result)).toBe('refunded 5 (1)');
  });

  it('P-10 is answered for its own call only: what was changed is -32602, and nothing runs', async () => {
    const { refund, runs } = refundTool();
    const [key = '', other = ''] = ['the-first-key-of-all', 'the-second-key-of-all'];
    const store = new InMemoryStateStore();
    const ada = clerk([callRefund, results], { tools: [refund], taskStateStore: store });
    const server = mcpServer({ agent: ada, answerTimeoutMs: 60_000 });
    closing.push(() => server.close());
    const { url } = await server.listen({ apiKeys: [key, other] });
    const wire = new ModernWire(url, { authorization: `Bearer ${key}` });
    const inputResponses = { '1:0': approve };
    const requestState = String((await wire.call({ arguments: go })).result?.requestState);
    const [, payload = ''] = requestState.split('.');
    const forged = Buffer.from(
      Buffer.from(payload, 'base64url')
        .toString()
        .replace(/"taskId":"./, '"taskId":"_'),
    ).toString('base64url');
    const refused = [
      await wire.call({ arguments: go, inputResponses, requestState: requestState.replace(payload, forged) }),
      await wire.call({ arguments: go, inputResponses, requestState: `${requestState}x` }),
      await wire.call({ arguments: go, inputResponses, requestState: 'nonsense' }),
      await wire.call({ arguments: { message: 'Stop.' }, inputResponses, requestState }),
      await wire.call({ arguments: { ...go, conversation: 'c' }, inputResponses, requestState }),
      await new ModernWire(url, { authorization: `Bearer ${other}` }).call({
        arguments: go,
        inputResponses,
        requestState,
      }),
    ];
    const now = Date.now();
    jest.spyOn(Date, 'now').mockReturnValue(now + 62_000);
    refused.push(await wire.call({ arguments: go, inputResponses, requestState }));
    jest.restoreAllMocks();
    const error = { code: -32_602, data: { reason: 'invalid_request_state' } };
    expect(refused).toEqual(refused.map(() => expect.objectContaining({ error: expect.objectContaining(error) })));
    expect(runs()).toBe(0);
    expect([...store.list({ state: 'input-required' })]).toHaveLength(1);
    expect(said((await wire.call({ arguments: go, inputResponses, requestState })).result)).toBe('refunded 5 (1)');
  });

  it('may be answered twice, at once and later: the tool runs once, and each retry has the result', async () => {
    const { refund, runs } = refundTool();
    const held = gate();
    const last: ScriptedLLMStep = { text: ['Do', held.pass(), 'ne.'] };
    const wire = await served(clerk([callRefund, last], { tools: [refund] }));
    const { result } = await wire.call({ arguments: go });
    const retry = { arguments: go, inputResponses: { '1:0': approve }, requestState: result?.requestState };
    const first = wire.call(retry);
    await held.reached;
    const second = wire.call(retry);
    held.open();
    expect([said((await first).result), said((await second).result)]).toEqual(['Done.', 'Done.']);
    expect(said((await wire.call(retry)).result)).toBe('Done.');
    const otherwise = { '1:0': { action: 'decline' as const } };
    expect(said((await wire.call({ ...retry, inputResponses: otherwise })).result)).toBe('Done.');
    expect(runs()).toBe(1);
  });

  it('is asked again where the retry leaves it out, or answers another one', async () => {
    const { refund } = refundTool();
    const calls = [1, 2].map((cents) => ({ name: 'refund', arguments: { cents } }));
    const wire = await served(clerk([{ toolCalls: calls }, results], { tools: [refund] }));
    const asked = await wire.call({ arguments: go });
    expect(Object.keys(asked.result?.inputRequests ?? {})).toEqual(['1:0', '1:1']);
    const inputResponses = { '1:1': approve, '7:7': approve };
    const { result } = await wire.call({ arguments: go, inputResponses, requestState: asked.result?.requestState });
    expect(Object.keys(result?.inputRequests ?? {})).toEqual(['1:0']);
    const rest = { '1:0': { action: 'decline' as const } };
    const ended = await wire.call({ arguments: go, inputResponses: rest, requestState: result?.requestState });
    expect(said(ended.result)).toMatch(/rejected.*refunded 2 \(1\)/);
  });

  it('ends the call where the user does not answer, and the turn where it is not kept', async () => {
    const { refund } = refundTool();
    const inputResponses = { '1:0': { action: 'cancel' as const } };
    const server = mcpServer({ agent: clerk([callRefund], { tools: [refund] }) });
    closing.push(() => server.close());
    const wire = new ModernWire((await server.listen()).url);
    const asked = await wire.call({ arguments: go });
    const { result } = await wire.call({ arguments: go, inputResponses, requestState: asked.result?.requestState });
    expect(result?.isError).toBe(true);
    expect(said(result)).toBe('The agent needs an answer that it did not get (approval of refund).');
    expect(await countOf(server.agent, 'canceled')).toBe(1);
  });

  it('ends the turn if its client never comes back, where turns are not kept', async () => {
    const { refund } = refundTool();
    const server = mcpServer({ agent: clerk([callRefund, callRefund], { tools: [refund] }), answerTimeoutMs: 50 });
    closing.push(() => server.close());
    const wire = new ModernWire((await server.listen()).url);
    await wire.call({ arguments: go });
    let count = 0;
    await eventually(() => {
      void countOf(server.agent, 'canceled').then((found) => {
        count = found;
      });
      return count === 1;
    });
  });

  it('ends the turn with the server, where turns are not kept', async () => {
    const { refund } = refundTool();
    const server = mcpServer({ agent: clerk([callRefund], { tools: [refund] }) });
    await new ModernWire((await server.listen()).url).call({ arguments: go });
    expect(await countOf(server.agent, 'canceled')).toBe(0);
    await server.close();
    expect(await countOf(server.agent, 'canceled')).toBe(1);
  });

  it('offers its choices, and takes one of them only', async () => {
    const seat = tool({
      name: 'seat',
      description: 'Asks for a seat.',
      parameters: { type: 'object' },
      execute: (_args, { ask }) =>
        `Seat: ${String(ask({ prompt: 'Which?', data: { choices: ['window', 'aisle'] } }))}.`,
    });
    const taskStateStore = new InMemoryStateStore();
    const wire = await served(clerk([{ toolCalls: [{ name: 'seat' }] }, results], { tools: [seat], taskStateStore }));
    const { result } = await wire.call({ arguments: go });
    const answer = { type: 'string', enum: ['window', 'aisle'] };
    expect(result?.inputRequests).toEqual({
      '1:0': {
        method: 'elicitation/create',
        params: {
          mode: 'form',
          message: 'Which?',
          requestedSchema: { type: 'object', properties: { answer }, required: ['answer'] },
        },
      },
    });
    const { requestState } = result ?? {};
    const give = (content: Record<string, string>) =>
      wire.call({ arguments: go, inputResponses: { '1:0': { action: 'accept', content } }, requestState });
    expect((await give({ answer: 'wing' })).result?.isError).toBe(true);
    expect(said((await give({ answer: 'aisle' })).result)).toBe('Seat: aisle.');
  });

  it('of a sub-agent is asked as its own, and an approval and a question beside it at the same time', async () => {
    const { refund } = refundTool();
    const ask = tool({
      name: 'ask',
      description: 'Asks.',
      parameters: { type: 'object' },
      execute: (_args, context) => `They said ${String(context.ask({ prompt: 'Which colour?' }))}.`,
    });
    const shared = budget({ maxTokens: 100_000 });
    const taskStateStore = new InMemoryStateStore();
    const below = agent({
      name: 'cashier',
      description: 'Refunds.',
      provider: scriptedLLM([callRefund, results]),
      tools: [refund],
      taskStateStore,
      extensions: [shared.extension()],
    });
    const calls = [
      { name: 'cashier', arguments: { message: 'Refund.' } },
      { name: 'refund', arguments: { cents: 9 } },
      { name: 'ask' },
    ];
    const theClerk = agent({
      name: 'the clerk',
      provider: scriptedLLM([{ toolCalls: calls }, results]),
      toolProviders: [agentTools([below])],
      tools: [refund, ask],
      taskStateStore,
      extensions: [shared.extension()],
    });
    const wire = await served(theClerk, { settings: { stateKey } });
    const { result } = await wire.call({ arguments: go });
    const requests = Object.entries(result?.inputRequests ?? {});
    expect(requests.map(([id, { params }]) => [id, params && 'message' in params && params.message])).toEqual([
      ['1:0', 'May the tool "refund" run with these arguments? {"cents":5}'],
      ['1:1', 'May the tool "refund" run with these arguments? {"cents":9}'],
      ['1:2', 'Which colour?'],
    ]);
    const inputResponses = {
      '1:0': approve,
      '1:1': { action: 'decline' as const },
      '1:2': { action: 'accept' as const, content: { answer: 'blue' } },
    };
    const before = shared.used.totalTokens;
    const ended = await wire.call({ arguments: go, inputResponses, requestState: result?.requestState });
    expect(said(ended.result)).toMatch(/^refunded 5 \(1\) .*rejected.* They said blue\.$/);
    expect(shared.used.totalTokens).toBeGreaterThan(before);
  });

  it('keeps conversations of one caller from those of another', async () => {
    const seen: number[] = [];
    const step: ScriptedLLMStep = ({ messages }) => {
      seen.push(messages.length);
      return { text: 'Yes.' };
    };
    const [key = '', other = ''] = ['the-first-key-of-all', 'the-second-key-of-all'];
    const server = mcpServer({ agent: clerk([step, step, step]) });
    closing.push(() => server.close());
    const { url } = await server.listen({ apiKeys: [key, other] });
    const args = { message: 'Hi.', conversation: 'ours' };
    for (const each of [key, key, other])
      await new ModernWire(url, { authorization: `Bearer ${each}` }).call({ arguments: args });
    expect(seen).toEqual([1, 3, 1]);
  });

  it.each([['short'], [new Uint8Array(31)], [7]])('refuses the key %p', (key) => {
    const settings = { agent: clerk([]), stateKey: key };
    expect(() => Reflect.apply(mcpServer, undefined, [settings])).toThrow(
      /stateKey must be a random key of at least 32 bytes/,
    );
  });
});
