import type { Server } from 'node:http';
import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import { agent, InMemoryStateStore } from 'millrace';
import { LiteLLMProvider } from 'millrace/litellm';
import { openAIHandler } from 'millrace/openai';
import OpenAI from 'openai';
import { assistant, slowText } from '../front-ends/model.ts';
import { listening, serverOf } from '../front-ends/node-server.ts';
import { type LiteLLMProxy, startLiteLLM } from './litellm-proxy.ts';
import { describeReal } from './real-part.ts';

const key = 'sk-of-the-agents';
/** As LiteLLM names what it asks. */
const model = 'openai/assistant';

describeReal(['litellm'], 'the LiteLLM proxy in front of agents', () => {
  let store = new InMemoryStateStore();
  let effects = 0;
  let served: (request: Request) => Promise<Response>;
  let server: Server;
  let proxy: LiteLLMProxy;
  let client: OpenAI;

  const messages = (content: string) => [{ role: 'user' as const, content }];
  const states = async () => (await store.list({ limit: 100 })).map(({ state }) => state);

  function renew(): void {
    store = new InMemoryStateStore();
    effects = 0;
    served = openAIHandler({
      agents: [assistant(store, () => effects++)],
      scopeOf: (request) => (request.headers.get('authorization') === `Bearer ${key}` ? 'proxy' : undefined),
      onDisconnect: 'continue',
    });
  }

  beforeAll(async () => {
    renew();
    server = serverOf((request) => served(request));
    proxy = await startLiteLLM({ openaiBaseUrl: `${await listening(server)}/v1`, openaiKey: key });
    client = new OpenAI({ baseURL: proxy.baseUrl, apiKey: proxy.masterKey });
  });
  afterEach(renew);
  afterAll(async () => {
    await proxy?.close();
    server?.closeAllConnections();
    server?.close();
  });

  it('V-16 gives the client the answer, whole and streamed, with usage and without tool calls', async () => {
    const whole = await client.chat.completions.create({ model, messages: messages('answer') });
    expect(whole.choices[0]).toMatchObject({
      finish_reason: 'stop',
      message: { content: 'Let me look.\n\nAll is done.' },
    });
    expect(whole.choices[0]?.message.tool_calls ?? null).toBeNull();
    const stream_options = { include_usage: true };
    const stream = await client.chat.completions.create({
      model,
      messages: messages('slow'),
      stream: true,
      stream_options,
    });
    const pieces: string[] = [];
    let usage: OpenAI.CompletionUsage | null | undefined;
    for await (const chunk of stream) {
      const piece = chunk.choices[0]?.delta.content;
      if (piece) pieces.push(piece);
      usage ??= chunk.usage;
    }
    expect([pieces.join(''), pieces.length > 10]).toEqual([slowText, true]);
    expect(usage?.total_tokens).toEqual(expect.any(Number));
  });

  it('V-17 starts one turn where it fails: the proxy does not retry it', async () => {
    const once = client.withOptions({ maxRetries: 0 });
    const error = await once.chat.completions
      .create({ model, messages: messages('fail') })
      .catch((reason: unknown) => reason);
    expect(error).toMatchObject({ status: 400 });
    expect(`${error}${JSON.stringify(error)}`).not.toContain('SECRET');
    expect(await states()).toEqual(['failed']);
  });

  it('V-18 tells the client that an approval is required; the tool does not run', async () => {
    const once = client.withOptions({ maxRetries: 0 });
    const asked = once.chat.completions.create({ model, messages: messages('refund') });
    await expect(asked).rejects.toThrow(/needs an approval/);
    expect([effects, await states()]).toEqual([0, ['canceled']]);
  });

  it('V-16 cancels the turn where the client of the proxy aborts', async () => {
    const stream = await client.chat.completions.create({ model, messages: messages('slow'), stream: true });
    for await (const { choices } of stream) if (choices[0]?.delta.content) break;
    while (!(await states()).includes('canceled')) await new Promise((resolve) => setTimeout(resolve, 20));
  });

  it('V-19 hands on a refusal with the name of the parameter', async () => {
    const asked = client.chat.completions.create({ model, messages: messages('Hi'), n: 2 });
    await expect(asked).rejects.toThrow(/n is not supported/);
    expect(await states()).toEqual([]);
  });

  it('V-18 hands on responses: their conversation, and an approval that is given', async () => {
    const asked = await client.responses.create({ model, input: 'refund' });
    const request = asked.output.find((item) => item.type === 'mcp_approval_request');
    const approval = { type: 'mcp_approval_response', approval_request_id: request?.id ?? '', approve: true } as const;
    const done = await client.responses.create({ model, input: [approval], previous_response_id: asked.id });
    expect([done.output_text, effects]).toEqual(['All is done.', 1]);
    const after = await client.responses.create({ model, input: 'Thanks', previous_response_id: done.id });
    expect(after.status).toBe('completed');
  });

  it('serves an agent whose model is an agent, through the proxy', async () => {
    const provider = new LiteLLMProvider({ baseUrl: proxy.baseUrl, apiKey: proxy.masterKey, model });
    const asker = agent({ id: 'asker', provider, taskStateStore: new InMemoryStateStore() });
    expect(await asker.run('answer')).toMatchObject({ text: 'Let me look.\n\nAll is done.' });
    expect(await states()).toEqual(['completed']);
  });
});
