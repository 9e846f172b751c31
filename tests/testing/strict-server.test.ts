import { createAnthropic } from '@ai-sdk/anthropic';
import { createGoogleGenerativeAI } from '@ai-sdk/google';
import { createOpenAI } from '@ai-sdk/openai';
import type { LanguageModelV3, LanguageModelV3Message } from '@ai-sdk/provider';
import { afterEach, describe, expect, it } from '@jest/globals';
import { type ModelServer, type ModelServerOptions, modelServer, type ProfileName } from 'millrace/testing';
import OpenAI from 'openai';

type Json = Readonly<Record<string, unknown>>;

const servers: ModelServer[] = [];

async function start(options: ModelServerOptions): Promise<ModelServer> {
  const server = await modelServer(options);
  servers.push(server);
  return server;
}

afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

const paths: Partial<Record<ProfileName, (model: string) => string>> = {
  'openai-responses': () => '/responses',
  anthropic: () => '/messages',
  google: (model) => `/models/${model}:generateContent`,
};

async function post(server: ModelServer, strict: ProfileName, body: Json): Promise<{ status: number; body: Json }> {
  const model = String(body['model']);
  const path = paths[strict]?.(model) ?? '/chat/completions';
  const response = await fetch(`${server.baseUrl}${path}`, { method: 'POST', body: JSON.stringify(body) });
  return { status: response.status, body: (await response.json()) as Json };
}

const call = (id: string, name = 'look') => ({ id, type: 'function', function: { name, arguments: '{}' } });
const chatTool = (name = 'look', parameters: Json = { type: 'object', properties: {} }) => ({
  type: 'function',
  function: { name, parameters },
});
const user = { role: 'user', content: 'Hi' };
const half = { role: 'user', content: '\ud83d' };

/** A request that one rule of a profile refuses: the name of the rule, and the body. */
const refused: readonly (readonly [ProfileName, string, Json])[] = [
  ['openai-chat', 'text', { model: 'gpt-4o', messages: [half] }],
  ['openai-chat', 'names', { model: 'gpt-4o', messages: [user], tools: [chatTool('no spaces')] }],
  ['openai-chat', 'pairs', { model: 'gpt-4o', messages: [user, { role: 'assistant', tool_calls: [call('a')] }] }],
  ['openai-chat', 'pairs', { model: 'gpt-4o', messages: [user, { role: 'tool', tool_call_id: 'a', content: '' }] }],
  ['openai-chat', 'schema', { model: 'gpt-4o', messages: [user], tools: [chatTool('a', { anyOf: [{}] })] }],
  ['openai-chat', 'refuses', { model: 'o3', messages: [user], temperature: 0 }],
  ['openai-chat', 'maxTokensField', { model: 'o3', messages: [user], max_tokens: 10 }],
  ['openai-chat', 'efforts', { model: 'o3', messages: [user], reasoning_effort: 'minimal' }],
  ['openai-chat', 'effortWithTools', { model: 'gpt-5.5', messages: [user], tools: [chatTool()] }],
  ['openai-chat', 'empty', { model: 'gpt-4o', messages: [user, { role: 'assistant', content: '' }, user] }],
  [
    'openai-chat',
    'state',
    { model: 'gpt-4o', messages: [user, { role: 'assistant', content: 'a', reasoning_details: [] }, user] },
  ],
  [
    'openai-chat',
    'schema',
    {
      model: 'gpt-4o',
      messages: [user],
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'a', strict: true, schema: { type: 'object', properties: { b: { type: 'string' } } } },
      },
    },
  ],
  ['openai-responses', 'refuses', { model: 'gpt-5.6-sol', input: 'Hi', temperature: 0 }],
  ['openai-responses', 'efforts', { model: 'gpt-5.6-sol', input: 'Hi', reasoning: { effort: 'minimal' } }],
  [
    'openai-responses',
    'pairs',
    { model: 'gpt-4o', input: [{ type: 'function_call_output', call_id: 'a', output: '' }] },
  ],
  [
    'openai-responses',
    'state',
    { model: 'gpt-5.6-sol', input: [user, { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'x' }] },
  ],
  ['openai-responses', 'state', { model: 'gpt-5.6-sol', input: [user, { type: 'item_reference', id: 'rs_1' }] }],
  ['anthropic', 'required', { model: 'claude-opus-4-8', messages: [user] }],
  ['anthropic', 'takesBlank', { model: 'claude-opus-4-8', max_tokens: 9, messages: [{ role: 'user', content: ' ' }] }],
  ['anthropic', 'refuses', { model: 'claude-opus-4-8', max_tokens: 9, messages: [user], temperature: 0 }],
  [
    'anthropic',
    'takesPrefill',
    { model: 'claude-opus-4-8', max_tokens: 9, messages: [user, { role: 'assistant', content: '{' }] },
  ],
  [
    'anthropic',
    'takesForcedToolWhileReasoning',
    {
      model: 'claude-opus-4-8',
      max_tokens: 9,
      thinking: { type: 'adaptive' },
      messages: [user],
      tools: [{ name: 'look', input_schema: { type: 'object' } }],
      tool_choice: { type: 'any' },
    },
  ],
  [
    'anthropic',
    'state',
    {
      model: 'claude-opus-4-8',
      max_tokens: 9,
      messages: [user, { role: 'assistant', content: [{ type: 'thinking', thinking: 'a', signature: 'b' }] }, user],
    },
  ],
  [
    'anthropic',
    'pairs',
    {
      model: 'claude-opus-4-8',
      max_tokens: 9,
      messages: [user, { role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'look', input: {} }] }, user],
    },
  ],
  ['google', 'takesAnyStart', { model: 'gemini-3-pro', contents: [{ role: 'model', parts: [{ text: 'Hi' }] }] }],
  [
    'google',
    'state',
    {
      model: 'gemini-3-pro',
      contents: [
        { role: 'user', parts: [{ text: 'Hi' }] },
        { role: 'model', parts: [{ functionCall: { name: 'look', args: {} } }] },
        { role: 'user', parts: [{ functionResponse: { name: 'look', response: {} } }] },
      ],
    },
  ],
  [
    'google',
    'schema',
    {
      model: 'gemini-3-pro',
      contents: [{ role: 'user', parts: [{ text: 'Hi' }] }],
      tools: [{ functionDeclarations: [{ name: 'a', parameters: { type: 'object', anyOf: [{}] } }] }],
    },
  ],
  [
    'mistral',
    'takesUserAfterTool',
    {
      model: 'mistral-large',
      tools: [chatTool()],
      messages: [
        user,
        { role: 'assistant', content: '', tool_calls: [call('abcdefghi')] },
        { role: 'tool', tool_call_id: 'abcdefghi', content: 'a' },
        user,
      ],
    },
  ],
  [
    'mistral',
    'callIds',
    {
      model: 'mistral-large',
      tools: [chatTool()],
      messages: [
        user,
        { role: 'assistant', content: '', tool_calls: [call('call_1')] },
        { role: 'tool', tool_call_id: 'call_1', content: 'a' },
      ],
    },
  ],
  ['mistral', 'systemAnywhere', { model: 'mistral-large', messages: [user, { role: 'system', content: 'a' }, user] }],
  [
    'bedrock',
    'callsWithoutTools',
    {
      model: 'us.anthropic.claude-haiku-4-5',
      messages: [
        user,
        { role: 'assistant', content: '', tool_calls: [call('a')] },
        { role: 'tool', tool_call_id: 'a', content: 'a' },
      ],
    },
  ],
  [
    'groq',
    'takesCacheMarks',
    {
      model: 'llama-4',
      messages: [{ role: 'user', content: [{ type: 'text', text: 'a', cache_control: { type: 'ephemeral' } }] }],
    },
  ],
  [
    'google-chat',
    'signatureStandIn',
    {
      model: 'gemini-3-pro',
      tools: [chatTool()],
      messages: [
        user,
        { role: 'assistant', content: '', tool_calls: [call('a')] },
        { role: 'tool', tool_call_id: 'a', content: 'a' },
      ],
    },
  ],
];

describe('a strict server', () => {
  it.each(refused)('M-24 of %s refuses by the rule %s', async (strict, rule, body) => {
    const server = await start({ strict, script: [] });
    const answer = await post(server, strict, body);
    expect(answer.status).toBe(400);
    expect(JSON.stringify(answer.body)).toContain(`(rule ${rule} of ${strict})`);
    server.assertDone();
  });

  it('M-24 refuses in the form of its vendor', async () => {
    const form = async (strict: ProfileName, body: Json): Promise<Json> =>
      (await post(await start({ strict }), strict, body)).body;
    expect(await form('anthropic', { model: 'claude-opus-4-8', messages: [user] })).toMatchObject({
      type: 'error',
      error: { type: 'invalid_request_error' },
    });
    expect(await form('google', { model: 'gemini-3-pro', contents: [] })).toMatchObject({
      error: { code: 400, status: 'INVALID_ARGUMENT' },
    });
    expect(await form('mistral', { model: 'mistral-large', messages: [half] })).toMatchObject({ object: 'error' });
    expect(await form('openai-responses', { model: 'o3', input: 'Hi', temperature: 0 })).toMatchObject({
      error: { type: 'invalid_request_error', param: 'temperature' },
    });
  });

  it('M-24 knows its own model only, and the wire of its vendor only', async () => {
    const server = await start({ strict: 'anthropic', model: 'claude-opus-4-8' });
    const other = await post(server, 'anthropic', { model: 'claude-opus-9', max_tokens: 9, messages: [user] });
    expect(other).toMatchObject({ status: 404, body: { type: 'error', error: { type: 'not_found_error' } } });
    expect((await post(server, 'groq', { model: 'claude-opus-4-8', messages: [user] })).status).toBe(404);
  });

  it('M-24 is of a profile that exists', async () => {
    const strict = 'nobody' as ProfileName;
    await expect(modelServer({ strict })).rejects.toThrow(/strict must be one of unknown, openai-responses/);
  });
});

const models: Readonly<Record<string, readonly [ProfileName, (baseURL: string) => LanguageModelV3, Json?]>> = {
  'openai-responses': [
    'openai-responses',
    (baseURL) => createOpenAI({ baseURL, apiKey: 'k' }).responses('gpt-5.6-sol'),
    { openai: { store: false, include: ['reasoning.encrypted_content'] } },
  ],
  'openai-responses with stored items': [
    'openai-responses',
    (baseURL) => createOpenAI({ baseURL, apiKey: 'k' }).responses('gpt-5.6-sol'),
  ],
  'openai-chat': ['openai-chat', (baseURL) => createOpenAI({ baseURL, apiKey: 'k' }).chat('gpt-4o')],
  anthropic: [
    'anthropic',
    (baseURL) => createAnthropic({ baseURL, apiKey: 'k' })('claude-sonnet-4-5'),
    { anthropic: { thinking: { type: 'enabled', budgetTokens: 1024 } } },
  ],
  google: ['google', (baseURL) => createGoogleGenerativeAI({ baseURL, apiKey: 'k' })('gemini-3-pro')],
};

const calculate = {
  type: 'function' as const,
  name: 'calculate',
  description: 'Computes an arithmetic expression.',
  inputSchema: {
    type: 'object' as const,
    properties: { expression: { type: 'string' as const } },
    required: ['expression'],
  },
};
const question: LanguageModelV3Message = { role: 'user', content: [{ type: 'text', text: 'What is 12 * 7?' }] };

type AssistantContent = Extract<LanguageModelV3Message, { role: 'assistant' }>['content'];
type Answer = Awaited<ReturnType<LanguageModelV3['doGenerate']>>['content'];

function withResult(content: Answer): LanguageModelV3Message[] {
  const parts = content.flatMap((part): AssistantContent => {
    const { providerMetadata: providerOptions } = part;
    const more = providerOptions === undefined ? {} : { providerOptions };
    if (part.type === 'text' || part.type === 'reasoning') return [{ type: part.type, text: part.text, ...more }];
    if (part.type !== 'tool-call') return [];
    const { toolCallId, toolName, input } = part;
    return [{ type: part.type, toolCallId, toolName, input: JSON.parse(input) as unknown, ...more }];
  });
  const results = content.flatMap((part) =>
    part.type === 'tool-call'
      ? [
          {
            type: 'tool-result' as const,
            toolCallId: part.toolCallId,
            toolName: part.toolName,
            output: { type: 'text' as const, value: '84' },
          },
        ]
      : [],
  );
  return [question, { role: 'assistant', content: parts }, { role: 'tool', content: results }];
}

describe.each(Object.entries(models))('the client of %s', (_, [strict, make, providerOptions]) => {
  const options = (prompt: LanguageModelV3Message[]) => ({
    prompt,
    tools: [calculate],
    ...(providerOptions && { providerOptions: providerOptions as never }),
  });

  it('calls a tool and gets the answer, whole', async () => {
    const server = await start({ strict });
    const model = make(server.baseUrl);
    const first = await model.doGenerate(options([question]));
    expect(first.content).toContainEqual(
      expect.objectContaining({ type: 'tool-call', toolName: 'calculate', input: '{"expression":"12 * 7"}' }),
    );
    expect(first.finishReason.unified).toBe('tool-calls');
    expect(first.usage.inputTokens.total).toBeGreaterThan(5);
    const second = await model.doGenerate(options(withResult(first.content)));
    expect(second.content).toContainEqual(
      expect.objectContaining({ type: 'text', text: expect.stringContaining('84') }),
    );
    expect(second.finishReason.unified).toBe('stop');
  });

  it('calls a tool and gets the answer, streamed', async () => {
    const server = await start({ strict });
    const model = make(server.baseUrl);
    const content: Answer = [];
    const texts = new Map<string, { type: 'text' | 'reasoning'; text: string; providerMetadata?: never }>();
    const { stream } = await model.doStream(options([question]));
    let finish: unknown;
    for await (const part of stream as unknown as AsyncIterable<Json & { type: string }>) {
      const key = `${part.type.split('-')[0]} ${String(part['id'])}`;
      const meta =
        part['providerMetadata'] === undefined ? {} : { providerMetadata: part['providerMetadata'] as never };
      if (part.type === 'text-start' || part.type === 'reasoning-start') {
        const open = {
          type: part.type.startsWith('text') ? ('text' as const) : ('reasoning' as const),
          text: '',
          ...meta,
        };
        texts.set(key, open);
        content.push(open);
      } else if (/^(text|reasoning)-(delta|end)$/.test(part.type)) {
        Object.assign(texts.get(key) ?? {}, meta);
        const open = texts.get(key);
        if (open && typeof part['delta'] === 'string') open.text += part['delta'];
      } else if (part.type === 'tool-call') content.push(part as never);
      else if (part.type === 'finish') finish = part;
      else if (part.type === 'error') throw part['error'];
    }
    expect(finish).toMatchObject({ finishReason: { unified: 'tool-calls' } });
    const second = await model.doStream(options(withResult(content)));
    let text = '';
    for await (const part of second.stream as unknown as AsyncIterable<Json & { type: string }>)
      if (part.type === 'text-delta') text += String(part['delta']);
    expect(text).toContain('84');
  });
});

/** What a server gave for itself, asked with a tool; and the next request, as a changed client sends it. */
async function secondRequest(
  name: string,
  change: (message: Answer) => Answer,
  servers: readonly [ModelServer, ModelServer],
): Promise<unknown> {
  const [, make, providerOptions] = models[name] ?? [];
  if (make === undefined) throw new Error(name);
  const rest = { tools: [calculate], ...(providerOptions && { providerOptions: providerOptions as never }) };
  const first = await make(servers[0].baseUrl).doGenerate({ prompt: [question], ...rest });
  return make(servers[1].baseUrl).doGenerate({ prompt: withResult(change(first.content)), ...rest });
}

describe('what a strict server gave for itself', () => {
  it.each(['openai-responses', 'anthropic', 'google'])(
    'M-24 comes back to %s, and to no other server',
    async (name) => {
      const strict = name as ProfileName;
      const [one, two] = [await start({ strict }), await start({ strict })];
      await expect(secondRequest(name, (same) => same, [one, one])).resolves.toBeDefined();
      await expect(secondRequest(name, (same) => same, [one, two])).rejects.toThrow(`(rule state of ${name})`);
    },
  );

  it.each([
    ['openai-responses', 'reasoning item'],
    ['anthropic', 'expected `thinking`'],
  ])('M-24 is missed by %s', async (name, words) => {
    const server = await start({ strict: name as ProfileName });
    const without = (content: Answer): Answer => content.filter(({ type }) => type !== 'reasoning');
    await expect(secondRequest(name, without, [server, server])).rejects.toThrow(words);
  });

  it('M-24 is missed by DeepSeek beside the calls, in the same turn', async () => {
    const server = await start({ strict: 'deepseek' });
    const client = new OpenAI({ baseURL: server.baseUrl, apiKey: 'k', maxRetries: 0 });
    const asked = { model: 'deepseek-v4', messages: [{ role: 'user' as const, content: 'What is 12 * 7?' }] };
    const tools = [
      { type: 'function' as const, function: { name: calculate.name, parameters: { ...calculate.inputSchema } } },
    ];
    const { choices } = await client.chat.completions.create({ ...asked, tools });
    const message = choices[0]?.message;
    if (message?.tool_calls === undefined) throw new Error('It called no tool.');
    const { reasoning_content: _, ...without } = message as typeof message & { reasoning_content?: string };
    const next = (given: typeof message) => ({
      model: asked.model,
      tools,
      messages: [
        ...asked.messages,
        given,
        { role: 'tool' as const, tool_call_id: message.tool_calls?.[0]?.id ?? '', content: '84' },
      ],
    });
    const changed = { ...without, reasoning_content: '' };
    await expect(client.chat.completions.create(next(without))).rejects.toThrow('(rule reasoningMember of deepseek)');
    await expect(client.chat.completions.create(next(changed))).rejects.toThrow('(rule reasoningBack of deepseek)');
    await expect(client.chat.completions.create(next(message))).resolves.toBeDefined();
  });
});
