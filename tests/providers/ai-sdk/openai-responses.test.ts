import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type AgentSetup, agent, type LLMProvider, tool } from 'millrace';
import { createProvider } from 'millrace/ai-sdk';
import { LiteLLMProvider } from 'millrace/litellm';
import { codedError } from '../provider-error.ts';
import { type Exchange, type RawServer, sendJson, sendStream, startRawServer } from '../raw-server.ts';
import { chatText, type GptEvent, gptBody, gptCall, gptMessage, gptReasoning, gptStream } from './vendor-wires.ts';

let server: RawServer;

beforeEach(async () => {
  server = await startRawServer();
});

afterEach(() => server.close());

type Item = Readonly<Record<string, unknown>>;
type Output = readonly (readonly [item: object, ...deltas: readonly GptEvent[]])[];

/** Why OpenAI would refuse the request; `undefined` where it would not. */
function refusal(body: Item, reasons: boolean): string | undefined {
  const input: readonly Item[] = Array.isArray(body['input']) ? body['input'] : [];
  const include: readonly unknown[] = Array.isArray(body['include']) ? body['include'] : [];
  if (body['store'] !== false) return 'Something would be stored.';
  if (include.includes('reasoning.encrypted_content') !== reasons) return 'Encrypted content is not supported.';
  if (reasons && body['temperature'] !== undefined) return 'Unsupported parameter: temperature';
  if (input.some(({ type }) => type === 'item_reference')) return 'Items are not persisted.';
  for (const [at, item] of input.entries()) {
    if (item['type'] === 'reasoning') {
      if (!String(item['encrypted_content']).startsWith('encrypted-'))
        return 'Encrypted content could not be verified.';
      if (input[at + 1]?.['type'] !== 'function_call') return 'Reasoning was provided without its following item.';
    }
    if (item['type'] === 'function_call') {
      const before = input.slice(0, at).findLast(({ type }) => type !== 'function_call');
      if (reasons && before?.['type'] !== 'reasoning') return 'A call was provided without its reasoning.';
      const outputs = input.slice(at).filter((each) => each['type'] === 'function_call_output');
      if (!outputs.some((each) => each['call_id'] === item['call_id'])) return 'No tool output found for a call.';
    }
  }
  return undefined;
}

/** Refuses what OpenAI refuses, and answers with `outputs`, one after the other, streamed where that is asked for. */
function answerStrictly(outputs: readonly Output[], reasons: boolean): Item[] {
  const seen: Item[] = [];
  server.answer((exchange) => {
    const body: Item = exchange.body;
    seen.push(body);
    const message = exchange.path === '/v1/responses' ? refusal(body, reasons) : 'Unknown address.';
    if (message !== undefined) return sendJson(exchange, { error: { message, type: 'invalid_request_error' } }, 400);
    const output = outputs[seen.length - 1] ?? [];
    if (body['stream'] === true) sendStream(exchange, gptStream(output));
    else sendJson(exchange, gptBody(output), 200);
  });
  return seen;
}

const weather = tool({
  name: 'weather',
  description: 'Tells the weather.',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  execute: ({ city }) => `${String(city)}: 4 degrees`,
});

function asking(provider: LLMProvider, more: Partial<AgentSetup> = {}) {
  return agent({ name: 'a', provider, tools: [weather], retry: null, ...more })
    .startTurn('Where is it warmer?')
    .result();
}

const models = [
  ['gpt-5.6-sol', true],
  ['gpt-6-sol', true],
  ['o4-mini', true],
  ['gpt-4.1', false],
  ['openai/gpt-5.6-sol', true],
  ['ft:o4-mini:acme::1', true],
] as const;

describe.each([true, false])('openai: over the Responses API, streaming %s', (streaming) => {
  it.each(models)(
    'M-01 %s runs two iterations of tools, with its reasoning and nothing stored',
    async (model, reasons) => {
      const thought = (id: string): Output => (reasons ? [gptReasoning(id, `encrypted-${id}`, `About ${id}.`)] : []);
      const outputs = [
        [
          ...thought('rs_1'),
          gptCall('call_1', 'weather', '{"city":"Oslo"}'),
          gptCall('call_2', 'weather', '{"city":"Rome"}'),
        ],
        [...thought('rs_2'), gptCall('call_3', 'weather', '{"city":"Bern"}')],
        [gptMessage('Nowhere.')],
      ];
      const seen = answerStrictly(outputs, reasons);
      const provider = await createProvider(`openai:${model}`, {
        apiKey: 'k',
        baseUrl: server.baseUrl,
        capabilities: { streaming },
      });
      const result = await asking(provider, { temperature: 0 });
      expect(result).toMatchObject({ text: 'Nowhere.', usage: { promptTokens: 21, completionTokens: 15 } });
      expect(seen.map(({ stream }) => stream === true)).toEqual([streaming, streaming, streaming]);
      const last: readonly Item[] = Array.isArray(seen[2]?.['input']) ? seen[2]['input'] : [];
      const kinds = ['function_call', 'function_call', 'function_call_output', 'function_call_output'];
      const own = reasons ? ['reasoning'] : [];
      expect(last.map(({ type }) => type).filter((type) => type !== undefined)).toEqual([
        ...own,
        ...kinds,
        ...own,
        'function_call',
        'function_call_output',
      ]);
      expect(last.filter(({ type }) => type === 'reasoning').map((item) => item['encrypted_content'])).toEqual(
        reasons ? ['encrypted-rs_1', 'encrypted-rs_2'] : [],
      );
    },
  );
});

it('the options of the user win: what is stored is referred to', async () => {
  let body: Item = {};
  server.answer((exchange) => {
    body = exchange.body;
    sendStream(exchange, gptStream([gptMessage('ok')]));
  });
  const options = { apiKey: 'k', baseUrl: server.baseUrl, providerOptions: { openai: { store: true } } };
  await (await createProvider('openai:gpt-5.1', options))
    .call({ messages: [{ role: 'user', content: 'Hi' }] })
    .catch(() => {});
  expect(body['store']).toBe(true);
});

it('M-01 a server that answers with chat completions: the cure names openai-chat:', async () => {
  server.answer((exchange) => sendJson(exchange, { object: 'chat.completion', choices: [] }, 200));
  const provider = await createProvider('openai:m', { apiKey: 'k-123456', baseUrl: server.baseUrl });
  const error = await codedError(provider.call({ messages: [{ role: 'user', content: 'Hi' }] }));
  expect(error.code).toBe('PROVIDER_PROTOCOL');
  expect(error.message).toContain('name the model openai-chat:MODEL');
});

it.each([404, 405])('HTTP %i of a server without /responses: the cure names openai-chat:', async (status) => {
  server.answer((exchange) => sendJson(exchange, { error: { message: 'Unknown path.' } }, status));
  const provider = await createProvider('openai:m', { apiKey: 'k', baseUrl: server.baseUrl });
  const error = await codedError(provider.call({ messages: [{ role: 'user', content: 'Hi' }] }));
  expect(error).toMatchObject({ code: 'PROVIDER_NOT_FOUND', message: expect.stringContaining('openai-chat:MODEL') });
});

describe('servers of chat completions', () => {
  /** Asks and gives the request. */
  async function requestOf(model: string, options: Parameters<typeof createProvider>[1] = {}, params: object = {}) {
    let seen: Exchange | undefined;
    server.answer((exchange) => {
      seen = exchange;
      sendStream(exchange, chatText('Hello.'));
    });
    const provider = await createProvider(model, { apiKey: 'key-of-a-test', baseUrl: server.baseUrl, ...options });
    expect(provider).toBeInstanceOf(LiteLLMProvider);
    await agent({ name: 'a', provider, retry: null, ...params })
      .startTurn('Hi')
      .result();
    if (seen === undefined) throw new Error('Nothing was asked.');
    return seen;
  }

  it.each([
    ['openai-chat:gpt-4.1', 'max_completion_tokens', 'authorization', 'Bearer key-of-a-test'],
    ['groq:llama', 'max_tokens', 'authorization', 'Bearer key-of-a-test'],
    ['azure:my-deployment', 'max_completion_tokens', 'api-key', 'key-of-a-test'],
  ])('%s: its key, its limit of tokens, its model', async (model, limit, header, value) => {
    const { path, body, headers } = await requestOf(model, {}, { maxTokens: 9 });
    expect([path, body['model'], body[limit], headers[header]]).toEqual([
      '/v1/chat/completions',
      model.split(':')[1],
      9,
      value,
    ]);
  });

  it('azure: a version of the API goes into the query, and the key is shown in one way alone', async () => {
    const { path, headers } = await requestOf('azure:m', { baseUrl: `${server.baseUrl}?api-version=2026-01-01` });
    expect(path).toBe('/v1/chat/completions?api-version=2026-01-01');
    expect(headers.authorization).toBeUndefined();
  });

  it('a call may name a model with its vendor, and options of the vendor are members of the body', async () => {
    const providerOptions = { groq: { reasoningEffort: 'low', service_tier: 'flex' }, anthropic: { thinking: {} } };
    const { body } = await requestOf(
      'groq:m',
      { providerOptions },
      { model: 'groq:n', providerOptions: { user: 'u' } },
    );
    expect(body).toMatchObject({ model: 'n', reasoning_effort: 'low', service_tier: 'flex', user: 'u' });
    expect(body['anthropic']).toBeUndefined();
  });

  it('a local server needs no key and has an address', async () => {
    const { info } = await createProvider('ollama:llama3:8b');
    expect(info).toMatchObject({ model: 'llama3:8b', serverAddress: 'localhost', serverPort: 11_434 });
  });

  it('an option that this wire has not is refused', async () => {
    const error = await codedError(createProvider('groq:m', { apiKey: 'k', cacheMarks: { groq: {} } }));
    expect(error).toMatchObject({ code: 'INVALID_CONFIG', message: expect.stringContaining('cacheMarks') });
  });
});
