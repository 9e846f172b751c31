import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import { type AgentEvent, LocalToolProvider, retry, type Tool, type ToolProvider, tool } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { LiteLLMProvider, type LiteLLMProviderOptions } from 'millrace/litellm';
import { type ModelServer, type ScriptStep, startModelServer } from 'millrace/testing';
import { type LiteLLMProxy, startLiteLLM } from './litellm-proxy.ts';
import { describeReal } from './real-part.ts';

const vendorKey = 'sk-of-the-vendor';

const add = tool({
  name: 'add',
  description: 'Adds two numbers.',
  parameters: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'] },
  execute: ({ a, b }) => a + b,
});

const calculate = tool({
  name: 'calculate',
  description: 'Works out a product.',
  parameters: { type: 'object', properties: { expression: { type: 'string' } }, required: ['expression'] },
  execute: ({ expression }) => expression.split('*').reduce((product, factor) => product * Number(factor), 1),
});

describeReal(['litellm'], 'LiteLLMProvider behind the real proxy', () => {
  let proxy: LiteLLMProxy;
  let vendor: ModelServer;
  let port = 0;

  const answers = async (script?: readonly ScriptStep[], delayMs = 0): Promise<ModelServer> => {
    await vendor.close();
    vendor = await startModelServer({ port, delayMs, ...(script && { script }) });
    return vendor;
  };
  const providerWith = (options: Partial<LiteLLMProviderOptions> = {}): LiteLLMProvider =>
    new LiteLLMProvider({ baseUrl: proxy.baseUrl, apiKey: proxy.masterKey, model: 'openai/demo', ...options });
  const turn = (
    said: string,
    { llmProvider = providerWith(), tools = [add] }: { llmProvider?: LiteLLMProvider; tools?: readonly Tool[] } = {},
  ) => {
    const toolProviders: readonly ToolProvider[] = tools.length > 0 ? [new LocalToolProvider(tools)] : [];
    return new AgentLoop({ agentId: 'a', llmProvider, toolProviders }).startTurn([{ role: 'user', content: said }]);
  };
  const failureOf = (options: Partial<LiteLLMProviderOptions> = {}): Promise<unknown> =>
    turn('Hello', { llmProvider: providerWith(options), tools: [] })
      .result()
      .then(
        (result) => result,
        (error) => error,
      );

  beforeAll(async () => {
    vendor = await startModelServer();
    port = vendor.port;
    proxy = await startLiteLLM({ openaiBaseUrl: vendor.baseUrl, openaiKey: vendorKey });
  });
  afterAll(async () => {
    await proxy?.close();
    await vendor?.close();
  });
  afterEach(() => vendor.assertDone());

  it('streams an answer piece by piece, with the usage that the vendor counts', async () => {
    await answers([{ text: 'One two three.', usage: { promptTokens: 17, completionTokens: 5, totalTokens: 22 } }], 50);
    const events: AgentEvent[] = [];
    const running = turn('Count.', { tools: [] });
    running.subscribe((event) => events.push(event));
    const { text, usage } = await running.result();
    expect(text).toBe('One two three.');
    const pieces = events.filter((event) => event.kind === 'artifact-update').length;
    expect(pieces).toBeGreaterThanOrEqual(3);
    expect(usage).toMatchObject({ promptTokens: 17, completionTokens: 5 });
    expect(vendor.headers[0]?.authorization).toBe(`Bearer ${vendorKey}`);
    expect(vendor.requests[0]).toMatchObject({ model: 'demo', stream: true });
  });

  it('gives the same where the answer is not streamed', async () => {
    await answers([{ text: 'Whole.', usage: { promptTokens: 3, completionTokens: 2, totalTokens: 5 } }]);
    const llmProvider = providerWith({ capabilities: { streaming: false } });
    expect(await turn('Say.', { llmProvider, tools: [] }).result()).toMatchObject({
      text: 'Whole.',
      usage: { promptTokens: 3, completionTokens: 2 },
    });
  });

  it('runs the calls of one answer side by side, and the vendor gets each result with its call', async () => {
    await answers([
      {
        toolCalls: [
          { name: 'add', arguments: { a: 1, b: 2 } },
          { name: 'add', arguments: { a: 30, b: 4 } },
        ],
      },
      { text: 'Three and 34.' },
    ]);
    const { text, toolCalls } = await turn('Add.').result();
    expect({ text, toolCalls }).toEqual({ text: 'Three and 34.', toolCalls: 2 });
    const { messages } = vendor.requests[1] ?? {};
    const [, asked, ...results] = Array.isArray(messages) ? messages : [];
    const ids = asked.tool_calls.map(({ id }: { readonly id: string }) => id);
    expect(new Set(ids).size).toBe(2);
    expect(results).toEqual([
      expect.objectContaining({ role: 'tool', tool_call_id: ids[0], content: '3' }),
      expect.objectContaining({ role: 'tool', tool_call_id: ids[1], content: '34' }),
    ]);
  });

  it('works with the demo model as with any: it asks for a tool and tells what came of it', async () => {
    await answers();
    const { text, toolCalls } = await turn('What is 12 * 7?', { tools: [calculate] }).result();
    expect(toolCalls).toBe(1);
    expect(text).toContain('84');
  });

  it.each<[string, ScriptStep, object]>([
    [
      '429 with its pause',
      { status: 429, headers: { 'retry-after': '7' } },
      { code: 'PROVIDER_RATE_LIMIT', retryAfterMs: 7_000 },
    ],
    ['401', { status: 401 }, { code: 'PROVIDER_AUTH' }],
    ['404', { status: 404 }, { code: 'PROVIDER_NOT_FOUND' }],
    ['400', { status: 400 }, { code: 'PROVIDER_BAD_REQUEST' }],
    ['500', { status: 500 }, { code: 'PROVIDER_SERVER', retryable: true }],
  ])('knows a vendor that answers %s, and no key stands in the error', async (_, step, expected) => {
    await answers([step]);
    const failure = await failureOf();
    expect(failure).toMatchObject(expected);
    const shown = `${String(failure)} ${JSON.stringify(failure)}`;
    expect(shown).not.toContain(proxy.masterKey);
    expect(shown).not.toContain(vendorKey);
    expect(vendor.received).toBe(1);
  });

  it('knows a key that the proxy refuses, and a model that it does not have', async () => {
    await answers([]);
    expect(await failureOf({ apiKey: 'sk-of-nobody' })).toMatchObject({ code: 'PROVIDER_AUTH' });
    expect(await failureOf({ model: 'nobody/has-it' })).toMatchObject({
      code: expect.stringMatching(/^PROVIDER_(BAD_REQUEST|NOT_FOUND)$/),
    });
  });

  it('tries again by its own policy alone: the proxy adds no requests', async () => {
    await answers([{ status: 503 }, { status: 503 }, { text: 'At last.' }]);
    const llmProvider = retry({ initialDelayMs: 1 })(providerWith());
    const loop = new AgentLoop({ agentId: 'a', llmProvider });
    expect((await loop.startTurn([{ role: 'user', content: 'Go' }]).result()).text).toBe('At last.');
    expect(vendor.received).toBe(3);
  });

  it('takes a vendor that breaks off in the middle for a failure, never for an answer', async () => {
    await answers([{ text: 'One two three four five six', chunkSize: 4, closeAfter: 3 }]);
    expect(await failureOf()).toMatchObject({ code: expect.stringMatching(/^PROVIDER_/) });
  });

  it('closes the connection to the vendor when the turn is cancelled', async () => {
    await answers([{ text: 'One two three', chunkSize: 4, stallAfter: 2 }]);
    const running = turn('Count.', { tools: [] });
    const begun = new Promise<void>((resolve) => {
      running.subscribe((event) => event.kind === 'artifact-update' && resolve());
    });
    await begun;
    expect(vendor.open).toBe(1);
    await running.cancel('enough');
    await running.settled;
    await vendor.whenIdle();
    expect({ open: vendor.open, aborted: vendor.aborted }).toEqual({ open: 0, aborted: 1 });
  });
});
