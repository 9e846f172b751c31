import { getEventListeners } from 'node:events';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { LLMChunk } from 'millrace';
import { type CreateProviderOptions, createProvider, type VendorProvider } from 'millrace/ai-sdk';
import { type FakeClock, fakeClock } from 'millrace/testing';
import { lastValueFrom, take, toArray } from 'rxjs';
import { codedError } from '../provider-error.ts';
import {
  beginStream,
  type Exchange,
  event,
  type RawServer,
  sendJson,
  sendStream,
  startRawServer,
} from '../raw-server.ts';
import {
  anthropic,
  claudeBlock,
  claudeStream,
  geminiBody,
  google,
  isV4,
  type VendorWire,
  wires,
} from './vendor-wires.ts';

const messages = [{ role: 'user' as const, content: 'Hi' }];
const key = 'sk-test-0123456789';

let server: RawServer;
let clock: FakeClock;
let controller: AbortController;

beforeEach(async () => {
  server = await startRawServer();
  clock = fakeClock();
  controller = new AbortController();
});

afterEach(async () => {
  expect(clock.pending).toBe(0);
  expect(getEventListeners(controller.signal, 'abort')).toEqual([]);
  await server.close();
});

function providerOf(wire: VendorWire, options: CreateProviderOptions = {}): Promise<VendorProvider> {
  return createProvider(wire.model, { apiKey: key, baseUrl: server.baseUrl, clock, ...options });
}

async function streamed(wire: VendorWire, answer: (exchange: Exchange) => void, options?: CreateProviderOptions) {
  server.answer(answer);
  const chunks: LLMChunk[] = [];
  const provider = await providerOf(wire, options);
  const error = await codedError(
    new Promise((resolve, reject) => {
      provider
        .stream({ messages })
        .subscribe({ next: (chunk) => chunks.push(chunk), error: reject, complete: () => resolve('complete') });
    }),
  );
  return { error, chunks };
}

describe.each(wires)('%s: an HTTP status', (_, wire) => {
  it.each([
    [400, 'PROVIDER_BAD_REQUEST', false],
    [401, 'PROVIDER_AUTH', false],
    [403, 'PROVIDER_AUTH', false],
    [404, 'PROVIDER_NOT_FOUND', false],
    [413, 'CONTEXT_OVERFLOW', false],
    [429, 'PROVIDER_RATE_LIMIT', true],
    [500, 'PROVIDER_SERVER', true],
    [503, 'PROVIDER_SERVER', true],
    [529, 'PROVIDER_SERVER', true],
  ] as const)('%i is %s, retryable %s, with its reason and when to come back', async (status, code, retryable) => {
    const body = wire.error('some_error', `It says why, not ${key}.`);
    const answer = (exchange: Exchange) => sendJson(exchange, body, status, { 'retry-after': '7' });
    const { error } = await streamed(wire, answer);
    expect(error).toMatchObject({ code, retryable, status, retryAfterMs: 7_000 });
    expect(error.cause).toBeUndefined();
    expect(error.message).toContain(`answered HTTP ${status} "It says why, not [redacted]."`);
    expect(error.message).toContain(server.baseUrl);

    const called = await codedError((await providerOf(wire)).call({ messages }));
    expect([called.code, called.message]).toEqual([error.code, error.message]);
  });

  it('that redirects is not followed', async () => {
    const { error } = await streamed(wire, ({ response }) =>
      response.writeHead(307, { location: 'https://example.com/' }).end(),
    );
    expect(error.code).toBe('PROVIDER_PROTOCOL');
    expect(error.message).toMatch(/redirects to "https:\/\/example\.com\/"/);
    expect(server.requests).toBe(1);
  });
});

/** Anthropic's package of AI SDK 7 throws an error of its own that says nothing of what it read. */
const ofUnreadable = (wire: VendorWire) => (isV4 && wire === anthropic ? 'PROVIDER_FAILED' : 'PROVIDER_PROTOCOL');

describe.each(wires)('%s: an answer', (_, wire) => {
  it('that ends in the middle is a closed stream, worth another try', async () => {
    const { error, chunks } = await streamed(wire, (exchange) => sendStream(exchange, wire.opening('Hel')));
    expect(chunks).toEqual([{ type: 'text', text: 'Hel' }]);
    expect(error).toMatchObject({ code: 'PROVIDER_STREAM_CLOSED', retryable: true });
  });

  it('whose connection breaks is a closed stream too', async () => {
    const { error } = await streamed(wire, (exchange) => {
      beginStream(exchange);
      exchange.response.write(wire.opening('Hel'), () => exchange.socket.destroy());
    });
    expect(error).toMatchObject({ code: 'PROVIDER_STREAM_CLOSED', retryable: true });
  });

  it('of garbage is a protocol error', async () => {
    const { error } = await streamed(wire, (exchange) => sendStream(exchange, event('{"so": ')));
    expect(error).toMatchObject({ code: ofUnreadable(wire), retryable: false });
  });

  it('of another shape is a protocol error', async () => {
    const { error } = await streamed(wire, (exchange) => sendStream(exchange, event({ type: 5, candidates: 'no' })));
    expect(error).toMatchObject({ code: ofUnreadable(wire), retryable: false });
  });

  it.each([
    ['a page of HTML', 'text/html', '<html><title>Welcome</title></html>'],
    ['JSON', 'application/json', '{"hello":"world"}'],
  ])('that is %s is a protocol error, streamed or not', async (__, type, text) => {
    const answer = ({ response }: Exchange) => response.writeHead(200, { 'content-type': type }).end(text);
    const { error } = await streamed(wire, answer);
    expect(error).toMatchObject({ code: 'PROVIDER_PROTOCOL', retryable: false });
    const called = await codedError((await providerOf(wire)).call({ messages }));
    expect(called.code).toBe('PROVIDER_PROTOCOL');
  });

  it('that is too long is cut', async () => {
    const { error } = await streamed(
      wire,
      (exchange) => {
        beginStream(exchange);
        exchange.response.write(wire.opening('x'.repeat(2_000)));
      },
      { maxAnswerLength: 1_000 },
    );
    expect(error.code).toBe('PROVIDER_TOO_LARGE');
  });

  it('that nobody sends is a time-out, before its head and in its middle', async () => {
    const provider = await providerOf(wire, { timeoutMs: 5_000, chunkTimeoutMs: 1_000 });
    const silent = codedError(lastValueFrom(provider.stream({ messages })));
    const first = await server.next();
    clock.advance(5_000);
    expect(await silent).toMatchObject({ code: 'PROVIDER_TIMEOUT', retryable: true });
    await first.gone;

    const stuck = codedError(lastValueFrom(provider.stream({ messages })));
    const second = await server.next();
    beginStream(second);
    second.response.write(wire.opening('Hel'));
    await clock.whenPending(2);
    clock.advance(1_000);
    const error = await stuck;
    expect(error.message).toMatch(/chunkTimeoutMs/);
    await second.gone;
  });

  it('of nobody is unreachable', async () => {
    const gone = await startRawServer();
    await gone.close();
    const provider = await providerOf(wire, { baseUrl: gone.baseUrl });
    const error = await codedError(lastValueFrom(provider.stream({ messages })));
    expect(error).toMatchObject({ code: 'PROVIDER_UNREACHABLE', retryable: true });
    expect(error.message).toMatch(/refuses the connection/);
  });
});

describe.each(wires)('%s: leaving', (_, wire) => {
  it('S4-38 in mid-stream closes the connection', async () => {
    const provider = await providerOf(wire);
    const first = lastValueFrom(provider.stream({ messages }).pipe(take(1), toArray()));
    const exchange = await server.next();
    beginStream(exchange);
    exchange.response.write(wire.opening('Hel'));
    expect(await first).toEqual([{ type: 'text', text: 'Hel' }]);
    await exchange.gone;
  });

  it('S4-38 before the head closes the connection', async () => {
    const provider = await providerOf(wire);
    const subscription = provider.stream({ messages }).subscribe();
    const { gone } = await server.next();
    subscription.unsubscribe();
    await gone;
  });

  it.each(['stream', 'call'] as const)(
    'S2-31 by the signal ends %s with CANCELED and closes the connection',
    async (way) => {
      const provider = await providerOf(wire);
      const params = { messages, signal: controller.signal };
      const pending = codedError(way === 'call' ? provider.call(params) : lastValueFrom(provider.stream(params)));
      const exchange = await server.next();
      controller.abort(new Error('enough'));
      expect(await pending).toMatchObject({ code: 'CANCELED', cause: new Error('enough') });
      await exchange.gone;
    },
  );

  it('by a signal that is aborted already sends nothing', async () => {
    controller.abort();
    const error = await codedError((await providerOf(wire)).call({ messages, signal: controller.signal }));
    expect(error.code).toBe('CANCELED');
    expect(server.requests).toBe(0);
  });
});

describe('errors inside a stream', () => {
  const inClaude = (type: string) => event({ type: 'error', error: { type, message: `So it is, ${key}.` } });

  it.each([
    ['overloaded_error', 'PROVIDER_SERVER', true],
    ['rate_limit_error', 'PROVIDER_RATE_LIMIT', true],
    ['authentication_error', 'PROVIDER_AUTH', false],
    ['invalid_request_error', 'PROVIDER_BAD_REQUEST', false],
  ] as const)('Anthropic: %s, first and later', async (type, code, retryable) => {
    for (const before of ['', anthropic.opening('Hel')]) {
      const { error } = await streamed(anthropic, (exchange) => sendStream(exchange, before + inClaude(type)));
      expect(error).toMatchObject({ code, retryable });
      expect(error.message).toContain('"So it is, [redacted]."');
    }
  });

  it('Google: with its status, and when to come back', async () => {
    const details = [{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '34.5s' }];
    const failure = { error: { code: 429, message: 'Too much.', status: 'RESOURCE_EXHAUSTED', details } };
    const expected = { code: 'PROVIDER_RATE_LIMIT', retryable: true, status: 429, retryAfterMs: 34_500 };
    const inStream = await streamed(google, (exchange) => sendStream(exchange, google.opening('Hel') + event(failure)));
    expect(inStream.error).toMatchObject(expected);
    const inHead = await streamed(google, (exchange) => sendJson(exchange, failure, 429));
    expect(inHead.error).toMatchObject(expected);
  });

  it('OpenAI: by its words', async () => {
    const failure = { error: { message: 'Slow down.', type: 'rate_limit_exceeded', code: null } };
    const { error } = await streamed(wires[2]?.[1] ?? google, (exchange) => sendStream(exchange, event(failure)));
    expect(error).toMatchObject({ code: 'PROVIDER_RATE_LIMIT', retryable: true });
    expect(error.message).toContain('"Slow down."');
  });
});

describe.each(wires)('%s: a failure in a member that its package does not read', (_, wire) => {
  it.each([
    ['before a text', ''],
    ['after a text', wire.opening('Hel')],
  ])('M-05 %s', async (__, before) => {
    const failure = event({ choices: [], x_gateway: { upstream_error: { message: `It broke, ${key}.`, code: 503 } } });
    const { error } = await streamed(wire, (exchange) => sendStream(exchange, before + failure));
    expect(error).toMatchObject({ code: 'PROVIDER_SERVER', retryable: true, status: 503 });
    expect(error.message).toContain('"It broke, [redacted]."');
  });
});

describe.each(wires)('M-16 %s: a prompt that is too long', (_, wire) => {
  it.each([400, 413, 500])('is an overflow with its sizes, as HTTP %i', async (status) => {
    const body = wire.error('invalid_request_error', 'prompt is too long: 210000 tokens > 200000 maximum');
    const { error } = await streamed(wire, (exchange) => sendJson(exchange, body, status));
    expect(error).toMatchObject({ code: 'CONTEXT_OVERFLOW', retryable: false });
    expect(error.details).toEqual({ limit: 200_000, used: 210_000 });
  });
});

describe('finish reasons', () => {
  const claude = (reason: string) =>
    claudeStream(claudeBlock(0, { type: 'text', text: '' }, [{ type: 'text_delta', text: 'a' }]), reason);
  const gemini = (reason: string) => event(geminiBody([{ text: 'a' }], reason));

  it.each([
    [anthropic, claude('max_tokens'), 'length'],
    [anthropic, claude('model_context_window_exceeded'), 'length'],
    [anthropic, claude('refusal'), 'content_filter'],
    [anthropic, claude('stop_sequence'), 'stop'],
    [google, gemini('MAX_TOKENS'), 'length'],
    [google, gemini('SAFETY'), 'content_filter'],
    [google, gemini('OTHER'), 'other'],
    [google, event({ promptFeedback: { blockReason: 'SAFETY' } }), 'content_filter'],
  ] as const)('%#', async (wire, stream, expected) => {
    server.answer((exchange) => sendStream(exchange, stream));
    const done = await lastValueFrom((await providerOf(wire)).stream({ messages }));
    expect(done).toMatchObject({ type: 'done', response: { finishReason: expected } });
  });

  it('a malformed call of Gemini is worth another try', async () => {
    const { error } = await streamed(google, (exchange) => sendStream(exchange, gemini('MALFORMED_FUNCTION_CALL')));
    expect(error).toMatchObject({ code: 'PROVIDER_SERVER', retryable: true });
    expect(error.message).toContain('MALFORMED_FUNCTION_CALL');
  });

  it('an answer that pauses for ever is given up, and not taken for an answer', async () => {
    let asked = 0;
    const { error } = await streamed(anthropic, (exchange) => {
      asked++;
      sendStream(exchange, claude('pause_turn'));
    });
    expect(error).toMatchObject({ code: 'PROVIDER_FAILED', retryable: false });
    expect(asked).toBe(11);
  });

  it('a pause beside a call for us is refused: its result would have to come first', async () => {
    const call = claudeBlock(0, { type: 'tool_use', id: 'toolu_1', name: 'seat', input: {} }, []);
    const { error } = await streamed(anthropic, (exchange) => sendStream(exchange, claudeStream(call, 'pause_turn')));
    expect(error).toMatchObject({ code: 'PROVIDER_FAILED', retryable: false });
  });
});

describe('call and stream', () => {
  it.each(wires)('%s: give the same message', async (_, wire) => {
    const provider = await providerOf(wire);
    server.answer((exchange) => sendStream(exchange, wire.text('Same.')));
    const done = await lastValueFrom(provider.stream({ messages }));
    server.answer((exchange) => sendJson(exchange, wire.body('Same.')));
    const response = await provider.call({ messages });
    expect(done).toEqual({ type: 'done', response });
    expect(response).toMatchObject({ message: { role: 'assistant', content: 'Same.' }, finishReason: 'stop' });
    expect(response.usage).toMatchObject({ promptTokens: 7, completionTokens: 5, totalTokens: 12 });
  });
});
