import { afterEach, describe, expect, it } from '@jest/globals';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { type Agent, agent, InMemoryStateStore, type Tool, textOf, tool } from 'millrace';
import { mcpServer } from 'millrace/mcp';
import { type ScriptedLLMStep, scriptedLLM } from 'millrace/testing';
import type { AgentSettings } from 'millrace/types';
import { z } from 'zod';
import { eventually } from '../../eventually.ts';
import { type AnyClient, type CallResult, type Era, eras } from './eras.ts';

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

type Options = Partial<AgentSettings> & { readonly tools?: readonly Tool[] };

function clerk(steps: readonly ScriptedLLMStep[], options: Options = {}): Agent {
  return agent({ name: 'the clerk', provider: scriptedLLM(steps), ...options });
}

async function clientOf(
  era: Era,
  theAgent: Agent,
  answer?: Parameters<Era['connect']>[0]['answer'],
): Promise<AnyClient> {
  const server = mcpServer({ agent: theAgent });
  closing.push(() => server.close());
  const client = await era.connect({ server, answer });
  closing.push(() => client.close());
  return client;
}

function said({ content }: CallResult): string {
  return content.map(({ type, text }) => (type === 'text' ? String(text) : type)).join('\n');
}

const refund = tool({
  name: 'refund',
  description: 'Refunds.',
  parameters: { type: 'object', properties: { cents: { type: 'integer' } }, required: ['cents'] },
  needsApproval: true,
  execute: ({ cents }) => `refunded ${cents}`,
});
const ask = tool({
  name: 'ask',
  description: 'Asks.',
  parameters: { type: 'object' },
  execute: (_args, context) => `They said ${String(context.ask({ prompt: 'Which colour?' }))}.`,
});
const lastResults: ScriptedLLMStep = ({ messages }) => ({
  text: messages
    .filter(({ role }) => role === 'tool')
    .map(({ content }) => textOf(content))
    .join(' '),
});

describe.each(eras)('an MCP server for $name', (era) => {
  it('P-09 lists the agent as a tool, and runs a turn for a call', async () => {
    const client = await clientOf(era, clerk([{ text: 'Hello.' }]));
    expect((await client.listTools()).map(({ name }) => name)).toEqual(['the_clerk']);
    expect(said(await client.call({ message: 'Hi.' }))).toBe('Hello.');
  });

  it('P-09 speaks the revision of the client', async () => {
    const client = await clientOf(era, clerk([]));
    expect(client.revision).toBe(era.isNew ? '2026-07-28' : '2025-11-25');
  });

  it('P-09 shows the progress of the turn', async () => {
    const add = tool({ name: 'add', description: 'Adds.', parameters: { type: 'object' }, execute: () => 3 });
    const client = await clientOf(era, clerk([{ toolCalls: [{ name: 'add' }] }, { text: 'Three.' }], { tools: [add] }));
    const messages: unknown[] = [];
    await client.call({ message: 'Add.' }, { onprogress: ({ message }) => void messages.push(message) });
    expect(messages).toEqual(['begins', 'add runs', 'add is done', 'step 2', 'Three.']);
  });

  it('P-09 has the questions of the turn answered, two at once and one after them', async () => {
    const calls = [{ name: 'refund', arguments: { cents: 900 } }, { name: 'ask' }];
    const steps = [{ toolCalls: calls }, { toolCalls: [{ name: 'refund', arguments: { cents: 1 } }] }, lastResults];
    const asked: string[] = [];
    const client = await clientOf(era, clerk(steps, { tools: [refund, ask] }), ({ message }) => {
      asked.push(message);
      if (message === 'Which colour?') return { action: 'accept', content: { answer: 'blue' } };
      return { action: 'accept', content: { approved: message.includes('900') } };
    });
    const text = said(await client.call({ message: 'Go.' }));
    expect(text).toMatch(/^refunded 900 They said blue\. .*rejected/);
    expect(asked).toEqual([
      'May the tool "refund" run with these arguments? {"cents":900}',
      'Which colour?',
      'May the tool "refund" run with these arguments? {"cents":1}',
    ]);
  });

  it('P-09 says that nobody answered where the client cannot ask', async () => {
    const store = new InMemoryStateStore();
    const steps = [{ toolCalls: [{ name: 'refund', arguments: { cents: 1 } }] }];
    const client = await clientOf(era, clerk(steps, { tools: [refund], taskStateStore: store }));
    const result = await client.call({ message: 'Go.' });
    expect(result.isError).toBe(true);
    expect(said(result)).toMatch(/^The agent waits for an answer that this client did not give \(approval of refund\)/);
    expect([...store.list({ state: 'input-required' })]).toHaveLength(1);
  });

  it('P-09 cancels the turn with the call', async () => {
    const ada = clerk([{ text: 'Half', never: true }]);
    const controller = new AbortController();
    const server = mcpServer({ agent: ada });
    closing.push(() => server.close());
    const ends: string[] = [];
    server.agent.on('status-update', ({ status, final }) => final && ends.push(status.state));
    const client = await era.connect({ server });
    closing.push(() => client.close());
    const options = { signal: controller.signal, onprogress: () => controller.abort() };
    await expect(client.call({ message: 'Go.' }, options)).rejects.toThrow();
    await eventually(() => ends.length > 0);
    expect(ends).toEqual(['canceled']);
  });

  it('P-09 gives a value as structured content', async () => {
    const outputSchema = z.object({ city: z.string(), celsius: z.number() });
    const value = { city: 'Oslo', celsius: 4 };
    const client = await clientOf(
      era,
      clerk([{ toolCalls: [{ name: '__finish__', arguments: value }] }], { outputSchema }),
    );
    const [listed] = await client.listTools();
    expect(listed?.outputSchema).toMatchObject({ properties: { celsius: { type: 'number' } } });
    const result = await client.call({ message: 'Weather?' });
    expect(result.structuredContent).toEqual(value);
  });

  it('refuses a tool that it does not have', async () => {
    const server = mcpServer({ agent: clerk([]), toolName: 'another' });
    closing.push(() => server.close());
    const client = await era.connect({ server });
    closing.push(() => client.close());
    await expect(client.call({ message: 'Hi.' })).rejects.toMatchObject({ code: -32_602 });
  });
});

describe('an MCP server for clients of 2026-07-28', () => {
  it('P-09 promises no change of its one tool, and ends what listens for changes when it closes', async () => {
    const server = mcpServer({ agent: clerk([]) });
    closing.push(() => server.close());
    const mode = { pin: '2026-07-28' };
    const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } });
    await client.connect(new StreamableHTTPClientTransport(new URL((await server.listen()).url)));
    closing.push(() => client.close());
    const listening = await client.listen({ toolsListChanged: true });
    expect(listening.honoredFilter).toEqual({});
    await server.close();
    expect(await listening.closed).toBe('graceful');
  });
});
