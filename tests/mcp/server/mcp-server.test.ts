import { describe, expect, it } from '@jest/globals';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CallToolResultSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { InMemoryStateStore, textOf, tool } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { mcpTools } from 'millrace/mcp';
import { gate, type ScriptedLLMStep, scriptedLLM } from 'millrace/testing';
import { z } from 'zod';
import { eventually } from '../../eventually.ts';
import { type Answer, call, clerk, clientOf, closing, said, served } from './mcp-bench.ts';

const refund = tool({
  name: 'refund',
  description: 'Refunds.',
  parameters: { type: 'object', properties: { cents: { type: 'integer' } }, required: ['cents'] },
  needsApproval: true,
  execute: ({ cents }) => `refunded ${cents}`,
});

describe('mcpServer', () => {
  it('offers an agent as one tool, whose calls are turns of their own, or of a conversation', async () => {
    const seen: number[] = [];
    const step: ScriptedLLMStep = ({ messages }) => {
      seen.push(messages.length);
      return { text: `Answer ${seen.length}.` };
    };
    const url = await served(clerk([step, step, step, step]));
    const client = await clientOf(url);
    const { tools } = await client.listTools();
    expect(tools).toMatchObject([
      { name: 'the_clerk', description: 'Files things.', inputSchema: { required: ['message'] } },
    ]);
    expect(said(await call(client, { message: 'One.' }))).toBe('Answer 1.');
    const result = await call(client, { message: 'Two.', conversation: 'ours' });
    expect(result._meta).toMatchObject({ 'millrace/task-id': expect.any(String) });
    await call(client, { message: 'Three.', conversation: 'ours' });
    await call(await clientOf(url), { message: 'Four.', conversation: 'ours' });
    expect(seen).toEqual([1, 1, 3, 1]);
  });

  it('tells what the turn does as progress', async () => {
    const add = tool({ name: 'add', description: 'Adds.', parameters: { type: 'object' }, execute: () => 3 });
    const steps = [{ toolCalls: [{ name: 'add' }] }, { text: 'Three.' }];
    const client = await clientOf(await served(clerk(steps, { tools: [add] })));
    const messages: unknown[] = [];
    const request = { method: 'tools/call' as const, params: { name: 'the_clerk', arguments: { message: 'Add.' } } };
    const onprogress = ({ message }: { message?: string | undefined }) => messages.push(message);
    await client.request(request, CallToolResultSchema, { onprogress });
    expect(messages).toEqual(['begins', 'add runs', 'add is done', 'step 2', 'Three.']);
  });

  it('cancels the turn with the call', async () => {
    const ada = clerk([{ text: 'Half', never: true }], { taskStateStore: new InMemoryStateStore() });
    const ends: string[] = [];
    ada.on('status-update', ({ status, final }) => final && ends.push(status.state));
    const client = await clientOf(await served(ada));
    const controller = new AbortController();
    const request = { method: 'tools/call' as const, params: { name: 'the_clerk', arguments: { message: 'Go.' } } };
    const options = { signal: controller.signal, onprogress: () => controller.abort() };
    await expect(client.request(request, CallToolResultSchema, options)).rejects.toThrow();
    await eventually(() => ends.length > 0);
    expect(ends).toEqual(['canceled']);
  });

  it('asks for approvals and answers by elicitation', async () => {
    const ask = tool({
      name: 'ask',
      description: 'Asks.',
      parameters: { type: 'object' },
      execute: (_args, context) => `They said ${String(context.ask({ prompt: 'Which colour?' }))}.`,
    });
    const calls = [{ name: 'refund', arguments: { cents: 900 } }, { name: 'ask' }];
    const last: ScriptedLLMStep = ({ messages }) => ({
      text: messages
        .slice(-2)
        .map(({ content }) => textOf(content))
        .join(' '),
    });
    const ada = clerk([{ toolCalls: calls }, last], { tools: [refund, ask] });
    const asked: string[] = [];
    const answer: Answer = ({ message }) => {
      asked.push(message);
      return message.includes('refund')
        ? { action: 'accept', content: { approved: true } }
        : { action: 'accept', content: { answer: 'blue' } };
    };
    const client = await clientOf(await served(ada), { answer });
    expect(said(await call(client, { message: 'Go.' }))).toBe('refunded 900 They said blue.');
    expect(asked).toEqual(['May the tool "refund" run with these arguments? {"cents":900}', 'Which colour?']);
  });

  it('takes a refusal as one', async () => {
    const last: ScriptedLLMStep = ({ messages }) => ({ text: textOf(messages.at(-1)?.content) });
    const ada = clerk([{ toolCalls: [{ name: 'refund', arguments: { cents: 1 } }] }, last], { tools: [refund] });
    const client = await clientOf(await served(ada), { answer: () => ({ action: 'decline' }) });
    expect(said(await call(client, { message: 'Go.' }))).toMatch(/not approved|rejected|declined/i);
  });

  it('says so where the client cannot ask its user, and leaves a durable turn to whoever can answer', async () => {
    const steps = [{ toolCalls: [{ name: 'refund', arguments: { cents: 1 } }] }];
    const passing = await clientOf(await served(clerk(steps, { tools: [refund] })));
    const lost = await call(passing, { message: 'Go.' });
    expect(lost.isError).toBe(true);
    expect(said(lost)).toBe('The agent needs an answer that it did not get (approval of refund).');

    const store = new InMemoryStateStore();
    const lasting = await clientOf(await served(clerk(steps, { tools: [refund], taskStateStore: store })));
    const { _meta } = await call(lasting, { message: 'Go.' });
    const taskId = String(_meta?.['millrace/task-id']);
    expect(taskId).not.toBe('undefined');
    expect([...store.list({ state: 'input-required' })].map((task) => task.taskId)).toEqual([taskId]);
  });

  it('cancels a turn that asks, durable or not, with the call, and with its client', async () => {
    const steps = [{ toolCalls: [{ name: 'refund', arguments: { cents: 1 } }] }];
    const store = new InMemoryStateStore();
    const ada = clerk([...steps, ...steps], { tools: [refund], taskStateStore: store });
    const url = await served(ada);
    const client = await clientOf(url, { answer: () => ({ action: 'cancel' }) });
    const canceled = () => [...store.list({ state: 'canceled' })].length;
    const controller = new AbortController();
    client.setRequestHandler(ElicitRequestSchema, () => {
      controller.abort();
      return new Promise(() => {});
    });
    const request = { method: 'tools/call' as const, params: { name: 'the_clerk', arguments: { message: 'Go.' } } };
    await expect(client.request(request, CallToolResultSchema, { signal: controller.signal })).rejects.toThrow();
    await eventually(() => canceled() === 1);

    const asked = new Promise<void>((resolve) => {
      client.setRequestHandler(ElicitRequestSchema, () => {
        resolve();
        return new Promise(() => {});
      });
    });
    const left = call(client, { message: 'Go.' }).catch(() => {});
    await asked;
    const { transport } = client;
    const session = transport instanceof StreamableHTTPClientTransport ? transport.sessionId : undefined;
    await client.close();
    await fetch(url, { method: 'DELETE', headers: { 'mcp-session-id': String(session) } });
    await eventually(() => canceled() === 2);
    await left;
  });

  it('says how much of a long call stands behind what its user is shown', async () => {
    const name = 'n'.repeat(3_000);
    const steps: ScriptedLLMStep[] = [
      { toolCalls: [{ name: 'refund', arguments: { cents: 1, name } }] },
      { text: 'No.' },
    ];
    const asked: string[] = [];
    const answer: Answer = ({ message }) => {
      asked.push(message);
      return { action: 'decline' };
    };
    const client = await clientOf(await served(clerk(steps, { tools: [refund] })), { answer });
    await call(client, { message: 'Go.' });
    expect(asked[0]).toMatch(/\{"cents":1,"name":"n{1981}… \(1021 more characters are not shown\)$/);
  });

  it('gives a value as structured content', async () => {
    const outputSchema = z.object({ city: z.string(), celsius: z.number() });
    const ada = clerk([{ toolCalls: [{ name: '__finish__', arguments: { city: 'Oslo', celsius: 4 } }] }], {
      outputSchema,
    });
    const client = await clientOf(await served(ada));
    const { tools } = await client.listTools();
    expect(tools[0]?.outputSchema).toMatchObject({ properties: { celsius: { type: 'number' } } });
    const result = await call(client, { message: 'Weather?' });
    expect(result.structuredContent).toEqual({ city: 'Oslo', celsius: 4 });
    expect(said(result)).toBe('{"city":"Oslo","celsius":4}');
  });

  it('tells of a failure its code, and nothing else', async () => {
    const client = await clientOf(await served(clerk([{ error: new Error('db.internal:5432 refused') }])));
    const result = await call(client, { message: 'Go.' });
    expect(result.isError).toBe(true);
    expect(said(result)).toBe('The agent could not finish (PROVIDER_FAILED).');
  });

  it('refuses arguments that are none, and more turns than it may run', async () => {
    const held = gate();
    const ada = clerk([{ gate: held.pass(), text: 'At last.' }]);
    const client = await clientOf(await served(ada, { settings: { maxTurns: 1 } }));
    expect(said(await call(client, {}))).toMatch(/^message must be a string/);
    const first = call(client, { message: 'Go.' });
    expect(await call(client, { message: 'Go.' })).toMatchObject({
      isError: true,
      content: [{ text: 'Too many turns run; try again later.' }],
    });
    held.open();
    expect(said(await first)).toBe('At last.');
  });

  it('is a server like any other for our own agents, whose user gets its questions', async () => {
    const last: ScriptedLLMStep = ({ messages }) => ({ text: textOf(messages.at(-1)?.content) });
    const far = clerk([{ toolCalls: [{ name: 'refund', arguments: { cents: 5 } }] }, last], { tools: [refund] });
    const tools = mcpTools({ servers: { far: { url: await served(far) } } });
    closing.push(() => tools.close());
    const config = {
      agentId: 'near',
      llmProvider: scriptedLLM([{ toolCalls: [{ name: 'far__the_clerk', arguments: { message: 'Refund.' } }] }, last]),
      toolProviders: [tools],
      taskStateStore: new InMemoryStateStore(),
    };
    const turn = new AgentLoop(config).startTurn([{ role: 'user', content: 'go' }]);
    const { questions } = await turn.result();
    expect(questions).toMatchObject([
      { kind: 'input', prompt: 'May the tool "refund" run with these arguments? {"cents":5}' },
    ]);
    const ended = await AgentLoop.resume(turn.taskId, config, { answers: { '1:0': { approved: true } } }).result();
    expect(ended.text).toBe('refunded 5');
  });
});
