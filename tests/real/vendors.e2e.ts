import { crc32 } from 'node:zlib';
import { afterEach, beforeEach, expect, it, jest } from '@jest/globals';
import type { LLMCallParams } from 'millrace';
import { createProvider, type VendorName } from 'millrace/ai-sdk';
import { lastValueFrom } from 'rxjs';
import { pixel } from '../providers/ai-sdk/request-of-call.ts';
import { google, isV4 } from '../providers/ai-sdk/vendor-wires.ts';
import { codedError } from '../providers/provider-error.ts';
import {
  done,
  type Exchange,
  event,
  type RawServer,
  sendJson,
  sendStream,
  startRawServer,
} from '../providers/raw-server.ts';
import { describeReal } from './real-part.ts';

/** A message of Amazon's event stream. */
function amazonEvent(type: string, payload: object): Buffer {
  const header = (name: string, value: string) => {
    const head = Buffer.from([name.length, ...Buffer.from(name), 7, 0, value.length]);
    return Buffer.concat([head, Buffer.from(value)]);
  };
  const headers = Buffer.concat([
    header(':event-type', type),
    header(':content-type', 'application/json'),
    header(':message-type', 'event'),
  ]);
  const body = Buffer.from(JSON.stringify(payload));
  const prelude = Buffer.alloc(12);
  prelude.writeUInt32BE(headers.length + body.length + 16, 0);
  prelude.writeUInt32BE(headers.length, 4);
  prelude.writeUInt32BE(crc32(prelude.subarray(0, 8)), 8);
  const message = Buffer.concat([prelude, headers, body]);
  const sum = Buffer.alloc(4);
  sum.writeUInt32BE(crc32(message));
  return Buffer.concat([message, sum]);
}

function sendAmazon({ response }: Exchange, deltas: readonly (readonly [string, object])[], stopReason: string): void {
  response.writeHead(200, { 'content-type': 'application/vnd.amazon.eventstream' });
  for (const [type, payload] of [
    ['messageStart', { role: 'assistant' }],
    ...deltas,
    ['contentBlockStop', { contentBlockIndex: 0 }],
    ['messageStop', { stopReason }],
    ['metadata', { usage: { inputTokens: 7, outputTokens: 5, totalTokens: 12 }, metrics: { latencyMs: 1 } }],
  ] as const) {
    response.write(amazonEvent(type, payload));
  }
  response.end();
}

/** Vendors whose packages no checkout installs; `tests/providers/ai-sdk` calls the others. */
type WithoutCheckout = 'bedrock' | 'vertex' | 'mistral' | 'xai';

interface Wire {
  readonly model: string;
  readonly path: string;
  readonly variable: string;
  readonly keyHeader: string;
  readonly providerName: string;
  readonly text: (exchange: Exchange) => void;
  readonly call: (exchange: Exchange) => void;
}

const usage = { prompt_tokens: 7, completion_tokens: 5, total_tokens: 12 };

function chunk(delta: object, finishReason: string | null, more: object = {}): string {
  const choices = [{ index: 0, delta, finish_reason: finishReason }];
  return event({ id: 'c-1', object: 'chat.completion.chunk', created: 1, model: 'm-1', choices, ...more });
}

const weatherCall = {
  index: 0,
  id: 'callid001',
  type: 'function',
  function: { name: 'weather', arguments: '{"city":"Oslo"}' },
};

/** The wire of OpenAI with the vendor's own place for the usage, in the last chunk. */
function chat(usageOf: object) {
  const stream = (delta: object, finishReason: string) => (exchange: Exchange) =>
    sendStream(exchange, chunk({ role: 'assistant', ...delta }, null) + chunk({}, finishReason, usageOf) + done);
  return {
    path: '/v1/chat/completions',
    keyHeader: 'authorization',
    text: stream({ content: 'Hello.' }, 'stop'),
    call: stream({ content: '', tool_calls: [weatherCall] }, 'tool_calls'),
  };
}

/** The Responses API of xAI, which its package for AI SDK 7 speaks. */
function responses() {
  const usage = { input_tokens: 7, output_tokens: 5, total_tokens: 12 };
  const response = { id: 'r-1', object: 'response', created_at: 1, model: 'm-1', output: [], status: 'completed' };
  const stream =
    (...events: readonly (readonly [string, object])[]) =>
    (exchange: Exchange) =>
      sendStream(
        exchange,
        [
          ['created', { response: { ...response, status: 'in_progress' } }] as const,
          ...events,
          ['completed', { response: { ...response, usage } }] as const,
        ]
          .map(([name, data]) => event({ type: `response.${name}`, ...data }))
          .join(''),
      );
  const ofItem = { item_id: 'i-1', output_index: 0 };
  const delta = { ...ofItem, content_index: 0, delta: 'Hello.' };
  const call = { type: 'function_call', id: 'i-1', call_id: 'callid001', name: 'weather' };
  const args = '{"city":"Oslo"}';
  return {
    path: '/v1/responses',
    keyHeader: 'authorization',
    text: stream(['output_text.delta', delta]),
    call: stream(
      ['output_item.added', { output_index: 0, item: { ...call, arguments: '' } }],
      ['function_call_arguments.delta', { ...ofItem, delta: args }],
      ['output_item.done', { output_index: 0, item: { ...call, arguments: args } }],
    ),
  };
}

/** Of each vendor whose package no checkout installs. */
const wireOf: Readonly<Record<WithoutCheckout & VendorName, Wire>> = {
  mistral: {
    model: 'mistral:large',
    variable: 'MISTRAL_API_KEY',
    providerName: 'mistral_ai',
    ...chat({ usage }),
  },
  xai: {
    model: 'xai:grok-4',
    variable: 'XAI_API_KEY',
    providerName: 'x_ai',
    ...(isV4 ? responses() : chat({ usage })),
  },
  vertex: {
    model: 'vertex:gemini-2.5-flash',
    path: '/v1/models/gemini-2.5-flash:streamGenerateContent?alt=sse',
    variable: 'GOOGLE_VERTEX_API_KEY',
    keyHeader: 'x-goog-api-key',
    providerName: 'gcp.vertex_ai',
    text: (exchange) => sendStream(exchange, google.text('Hello.')),
    call: (exchange) => sendStream(exchange, google.call('callid001', 'weather', '{"city":"Oslo"}')),
  },
  bedrock: {
    model: 'bedrock:anthropic.claude-x',
    path: '/v1/model/anthropic.claude-x/converse-stream',
    variable: 'AWS_BEARER_TOKEN_BEDROCK',
    keyHeader: 'authorization',
    providerName: 'aws.bedrock',
    text: (exchange) =>
      sendAmazon(exchange, [['contentBlockDelta', { contentBlockIndex: 0, delta: { text: 'Hello.' } }]], 'end_turn'),
    call: (exchange) =>
      sendAmazon(
        exchange,
        [
          [
            'contentBlockStart',
            { contentBlockIndex: 0, start: { toolUse: { toolUseId: 'callid001', name: 'weather' } } },
          ],
          ['contentBlockDelta', { contentBlockIndex: 0, delta: { toolUse: { input: '{"city":"Oslo"}' } } }],
        ],
        'tool_use',
      ),
  },
};
const wires = Object.entries(wireOf).map(([vendor, wire]) => ({ vendor, ...wire }));

const key = 'sk-secret-0123456789';
const parameters = { type: 'object', properties: { city: { type: 'string' } } };
const tools = [{ type: 'function' as const, function: { name: 'weather', description: 'Tells it.', parameters } }];
const messages: LLMCallParams['messages'] = [{ role: 'user', content: 'Hi' }];
const variables = [
  ...wires.map(({ variable }) => variable),
  'AWS_ACCESS_KEY_ID',
  'AWS_SECRET_ACCESS_KEY',
  'AWS_REGION',
];
let kept: NodeJS.ProcessEnv;
let server: RawServer;

beforeEach(async () => {
  kept = { ...process.env };
  for (const variable of variables) delete process.env[variable];
  server = await startRawServer();
});

afterEach(async () => {
  process.env = kept;
  await server.close();
});

describeReal(['vendors'], 'models by the names of vendors', () => {
  it.each(wires)('$vendor: streams text, with the key of its variable', async (wire) => {
    process.env[wire.variable] = key;
    const provider = await createProvider(wire.model, { baseUrl: server.baseUrl });
    expect(provider.info.providerName).toBe(wire.providerName);
    let seen: Exchange | undefined;
    server.answer((exchange) => {
      seen = exchange;
      wire.text(exchange);
    });
    expect(await lastValueFrom(provider.stream({ messages, tools }))).toMatchObject({
      type: 'done',
      response: {
        message: { content: 'Hello.' },
        finishReason: 'stop',
        usage: { promptTokens: 7, completionTokens: 5, totalTokens: 12 },
      },
    });
    expect(seen?.path).toBe(wire.path);
    expect(seen?.headers[wire.keyHeader]).toMatch(/^(Bearer )?sk-secret-0123456789$/);
  });

  it.each(wires)('$vendor: calls a tool, whose result goes back', async (wire) => {
    const provider = await createProvider(wire.model, { apiKey: key, baseUrl: server.baseUrl });
    server.answer(wire.call);
    const called = await lastValueFrom(provider.stream({ messages, tools }));
    if (called.type !== 'done') throw new Error('The stream did not end with done.');
    expect(called.response.finishReason).toBe('tool_calls');
    const [call] = called.response.toolCalls ?? [];
    expect(call?.function).toEqual({ name: 'weather', arguments: '{"city":"Oslo"}' });
    let body = '';
    server.answer((exchange) => {
      body = JSON.stringify(exchange.body);
      wire.text(exchange);
    });
    const result = { role: 'tool' as const, toolCallId: call?.id ?? '', content: 'cold and clear' };
    await lastValueFrom(provider.stream({ messages: [...messages, called.response.message, result], tools }));
    expect(body).toMatch(/Oslo.*cold and clear/);
  });

  it.each(wires)('$vendor: a picture reaches the wire', async (wire) => {
    const provider = await createProvider(wire.model, { apiKey: key, baseUrl: server.baseUrl });
    let body = '';
    server.answer((exchange) => {
      body = JSON.stringify(exchange.body);
      wire.text(exchange);
    });
    const picture = { type: 'image_url' as const, image_url: { url: `data:image/png;base64,${pixel}` } };
    await lastValueFrom(provider.stream({ messages: [{ role: 'user', content: [picture] }] }));
    expect(body).toContain(pixel);
  });

  it.each(wires)('$vendor: a failure has its code, and no key', async (wire) => {
    const provider = await createProvider(wire.model, { apiKey: key, baseUrl: server.baseUrl });
    server.answer((exchange) => sendJson(exchange, { error: { message: `No, ${key}.` } }, 429, { 'retry-after': '7' }));
    const error = await codedError(lastValueFrom(provider.stream({ messages })));
    expect(error).toMatchObject({ code: 'PROVIDER_RATE_LIMIT', retryable: true, retryAfterMs: 7_000 });
    expect(JSON.stringify([error.message, error])).not.toContain(key);
  });

  it.each(wires)('$vendor: without a key, its variable is named', async ({ model, variable }) => {
    const error = await codedError(createProvider(model, { baseUrl: server.baseUrl }));
    expect(error).toMatchObject({ code: 'INVALID_CONFIG' });
    expect(error.message).toContain(`give apiKey, or set ${variable}`);
  });

  it('M-25 bedrock: the program of the guide runs a turn with a tool', async () => {
    process.env['AWS_BEARER_TOKEN_BEDROCK'] = key;
    process.env['AWS_REGION'] = 'eu-west-1';
    const asked: string[] = [];
    const printed: unknown[] = [];
    const { fetch } = globalThis;
    globalThis.fetch = (input, init) => {
      const url = new URL(input instanceof Request ? input.url : input);
      asked.push(url.origin + decodeURIComponent(url.pathname));
      return fetch(new URL(url.pathname, server.baseUrl), init);
    };
    const log = jest.spyOn(console, 'log').mockImplementation((...values) => void printed.push(...values));
    server.answer((exchange) =>
      asked.length === 1
        ? sendAmazon(
            exchange,
            [
              [
                'contentBlockStart',
                { contentBlockIndex: 0, start: { toolUse: { toolUseId: 'callid001', name: 'clock' } } },
              ],
              ['contentBlockDelta', { contentBlockIndex: 0, delta: { toolUse: { input: '{}' } } }],
            ],
            'tool_use',
          )
        : sendAmazon(exchange, [['contentBlockDelta', { contentBlockIndex: 0, delta: { text: 'Noon.' } }]], 'end_turn'),
    );
    try {
      await import('../../examples/models/bedrock.ts');
    } finally {
      log.mockRestore();
      globalThis.fetch = fetch;
    }
    expect(printed).toEqual(['Noon.']);
    const address =
      'https://bedrock-runtime.eu-west-1.amazonaws.com/model/us.anthropic.claude-opus-4-8/converse-stream';
    expect(asked).toEqual([address, address]);
  });

  it('bedrock: signs with the credentials of AWS where there is no key, and needs a region for its address', async () => {
    process.env['AWS_ACCESS_KEY_ID'] = 'AKIDEXAMPLE';
    process.env['AWS_SECRET_ACCESS_KEY'] = key;
    process.env['AWS_REGION'] = 'eu-west-1';
    const provider = await createProvider('bedrock:anthropic.claude-x', { baseUrl: server.baseUrl });
    let authorization: string | undefined;
    server.answer((exchange) => {
      authorization = exchange.headers.authorization;
      sendAmazon(exchange, [['contentBlockDelta', { contentBlockIndex: 0, delta: { text: 'ok' } }]], 'end_turn');
    });
    await lastValueFrom(provider.stream({ messages }));
    expect(authorization).toMatch(/^AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE\/\d+\/eu-west-1\/bedrock\/aws4_request/);

    expect((await createProvider('bedrock:m', { apiKey: key })).info.serverAddress).toBe(
      'bedrock-runtime.eu-west-1.amazonaws.com',
    );
    delete process.env['AWS_REGION'];
    const error = await codedError(createProvider('bedrock:m', { apiKey: key }));
    expect(error.message).toMatch(/bedrock needs a baseUrl.*or set AWS_REGION/);
  });
});
