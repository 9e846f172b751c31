import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { createProvider } from 'millrace/ai-sdk';
import { lastValueFrom } from 'rxjs';
import { codedError } from '../provider-error.ts';
import { event, type RawServer, sendJson, sendStream, startRawServer } from '../raw-server.ts';
import {
  anthropic,
  type ClaudeEvent,
  claudeBlock,
  type GptEvent,
  google,
  gptEvents,
  gptMessage,
  openai,
  type VendorWire,
} from './vendor-wires.ts';

let server: RawServer;

beforeEach(async () => {
  server = await startRawServer();
});

afterEach(() => server.close());

const messages = [{ role: 'user' as const, content: 'Hi' }];

async function answerOf(wire: VendorWire, body: string) {
  server.answer((exchange) => sendStream(exchange, body));
  const provider = await createProvider(wire.model, { apiKey: 'k', baseUrl: server.baseUrl });
  const last = await lastValueFrom(provider.stream({ messages }));
  if (last.type !== 'done') throw new Error('The stream did not end with done.');
  return last.response;
}

const named = (list: readonly ClaudeEvent[]): string =>
  list.map((data) => `event: ${data.type}\n${event(data)}`).join('');
const start = {
  type: 'message_start',
  message: { id: 'm', type: 'message', role: 'assistant', model: 'm', content: [] },
};
const hello = claudeBlock(0, { type: 'text', text: '' }, [{ type: 'text_delta', text: 'Hello.' }]);
const end = [
  { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 3 } },
  { type: 'message_stop' },
];
const [begin, ...rest] = hello;

describe('an answer that is whole, although a package would refuse it', () => {
  it.each<[string, string]>([
    ['message_start without usage', named([start, ...hello, ...end])],
    ['usage of null', named([{ ...start, message: { ...start.message, usage: null } }, ...hello, ...end])],
    [
      'message_delta without usage',
      named([start, ...hello, { type: 'message_delta', delta: { stop_reason: 'end_turn' } }, { type: 'message_stop' }]),
    ],
    [
      'a block that begins without its text',
      named([start, { ...begin, type: 'content_block_start', content_block: { type: 'text' } }, ...rest, ...end]),
    ],
    ['an event of a new type', named([start, { type: 'x_progress', at: 1 }, ...hello, { type: 'keep_alive' }, ...end])],
    [
      'a block of a new type',
      named([
        start,
        ...claudeBlock(1, { type: 'x_result', content: [] }, [{ type: 'x_delta', x: 1 }]),
        ...hello,
        ...end,
      ]),
    ],
    [
      'comments, and data without anything',
      `: ping\n\n${named([start])}data:\n\nevent: ping\ndata: \n\n${named([...hello, ...end])}`,
    ],
    ['CRLF', named([start, ...hello, ...end]).replaceAll('\n', '\r\n')],
  ])('Anthropic: %s', async (_, body) => {
    expect(await answerOf(anthropic, body)).toMatchObject({ message: { content: 'Hello.' }, finishReason: 'stop' });
  });

  it('Anthropic, not streamed, without usage', async () => {
    const { usage: _, ...body } = { usage: undefined, ...anthropic.body('Hello.') };
    server.answer((exchange) => sendJson(exchange, body, 200));
    const provider = await createProvider(anthropic.model, { apiKey: 'k', baseUrl: server.baseUrl });
    expect((await provider.call({ messages })).message.content).toBe('Hello.');
  });

  it('Responses: members that only OpenAI sends are lacking', async () => {
    const [item, delta] = gptMessage('Hello.');
    const events: GptEvent[] = [
      ['created', { response: { id: 'r' } }],
      ['output_item.added', { output_index: 0, item: { ...item, content: [] } }],
      ...(delta === undefined ? [] : [delta]),
      ['output_item.done', { output_index: 0, item }],
      ['completed', { response: { status: 'completed' } }],
    ];
    expect((await answerOf(openai, gptEvents(events))).message.content).toBe('Hello.');
  });

  it('a new event of the Responses API is left out', async () => {
    const body = event({ type: 'response.x.progress', at: 1 }) + openai.text('Hello.');
    expect((await answerOf(openai, body)).message.content).toBe('Hello.');
  });
});

describe.each<[string, VendorWire]>([
  ['anthropic', anthropic],
  ['google', google],
  ['openai', openai],
])('a failure in the middle of a stream of %s, in the words of the server', (_, wire) => {
  it.each<[string, string, string, boolean]>([
    ['error', event({ error: { message: 'Too many requests.', code: 429 } }), 'PROVIDER_RATE_LIMIT', true],
    ['a field of the stream', 'event: error\ndata: The engine is overloaded.\n\n', 'PROVIDER_SERVER', true],
    ['a field with JSON of no form', 'event: error\ndata: {"say":"Out of memory."}\n\n', 'PROVIDER_SERVER', true],
    [
      'base_resp',
      event({ base_resp: { status_code: 1013, status_msg: 'internal service error' } }),
      'PROVIDER_SERVER',
      true,
    ],
    ['detail', event({ detail: 'Internal server error' }), 'PROVIDER_SERVER', true],
    ['a page of HTML', '<!DOCTYPE html><html><title>502 Bad Gateway</title></html>\n\n', 'PROVIDER_SERVER', true],
  ])('%s', async (__, failure, code, retryable) => {
    for (const before of ['', wire.opening('Hel')]) {
      server.answer((exchange) => sendStream(exchange, before + failure));
      const provider = await createProvider(wire.model, { apiKey: 'k', baseUrl: server.baseUrl });
      const error = await codedError(lastValueFrom(provider.stream({ messages })));
      expect(error).toMatchObject({ code, retryable });
    }
  });

  it('a failure as a whole body with a good status', async () => {
    server.answer((exchange) =>
      sendJson(exchange, { base_resp: { status_code: 1008, status_msg: 'insufficient balance' } }, 200),
    );
    const provider = await createProvider(wire.model, { apiKey: 'k', baseUrl: server.baseUrl });
    const error = await codedError(provider.call({ messages }));
    expect(error).toMatchObject({ retryable: false, message: expect.stringContaining('insufficient balance') });
  });
});

it('half a text is no answer where a block of text cannot be read', async () => {
  const broken = { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 5 } };
  server.answer((exchange) =>
    sendStream(exchange, named([start, ...hello.slice(0, 2), broken, ...hello.slice(2), ...end])),
  );
  const provider = await createProvider(anthropic.model, { apiKey: 'k', baseUrl: server.baseUrl });
  expect(await codedError(lastValueFrom(provider.stream({ messages })))).toMatchObject({ code: 'PROVIDER_PROTOCOL' });
});
