import { EventEmitter, once } from 'node:events';
import { createServer } from 'node:net';
import { inspect } from 'node:util';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { lastValueFrom, toArray } from 'rxjs';
import type { AgentLoopError } from '../../src/core/errors.ts';
import type { LLMChunk } from '../../src/providers/interfaces.ts';
import { LiteLLMProvider, type LiteLLMProviderOptions } from '../../src/providers/litellm-provider.ts';
import { type FakeClock, fakeClock } from '../../src/testing/fake-clock.ts';
import { codedError } from './provider-error.ts';
import {
  beginStream,
  completion,
  delta,
  done,
  type Exchange,
  event,
  type RawServer,
  sendJson,
  sendStream,
  startRawServer,
} from './raw-server.ts';

const apiKey = 'sk-very+"secret"/1234567890==';
const params = { messages: [{ role: 'user' as const, content: 'Hi' }] };

let server: RawServer;
let clock: FakeClock;
let readings: EventEmitter;

beforeEach(async () => {
  server = await startRawServer();
  clock = fakeClock({ startAt: Date.UTC(2026, 0, 1) });
  readings = new EventEmitter();
});

afterEach(async () => {
  expect(clock.pending).toBe(0);
  await server.close();
});

function provider(options: Partial<LiteLLMProviderOptions> = {}): LiteLLMProvider {
  const now = (): number => {
    readings.emit('now');
    return clock.now();
  };
  return new LiteLLMProvider({ baseUrl: server.baseUrl, model: 'gpt-x', apiKey, clock: { ...clock, now }, ...options });
}

const byCall = (from: LiteLLMProvider): Promise<unknown> => from.call(params);
const byStream = (from: LiteLLMProvider): Promise<unknown> => lastValueFrom(from.stream(params));
const ways = [
  ['call', byCall],
  ['stream', byStream],
] as const;

/** What both ways fail with when the server answers like this; they have to agree. */
async function failure(
  answer: (exchange: Exchange) => void,
  options?: Partial<LiteLLMProviderOptions>,
): Promise<AgentLoopError> {
  server.answer(answer);
  const called = await codedError(byCall(provider(options)));
  const streamed = await codedError(byStream(provider(options)));
  expect(summary(streamed)).toEqual(summary(called));
  return called;
}

function summary({ code, message, retryable, retryAfterMs, status }: AgentLoopError) {
  return { code, message, retryable, retryAfterMs, status };
}

describe('an HTTP status', () => {
  const statuses: readonly (readonly [number, string, boolean])[] = [
    [400, 'PROVIDER_BAD_REQUEST', false],
    [401, 'PROVIDER_AUTH', false],
    [402, 'PROVIDER_AUTH', false],
    [403, 'PROVIDER_AUTH', false],
    [404, 'PROVIDER_NOT_FOUND', false],
    [408, 'PROVIDER_TIMEOUT', true],
    [409, 'PROVIDER_FAILED', true],
    [413, 'PROVIDER_BAD_REQUEST', false],
    [418, 'PROVIDER_FAILED', false],
    [422, 'PROVIDER_BAD_REQUEST', false],
    [429, 'PROVIDER_RATE_LIMIT', true],
    [500, 'PROVIDER_SERVER', true],
    [501, 'PROVIDER_SERVER', false],
    [502, 'PROVIDER_SERVER', true],
    [503, 'PROVIDER_SERVER', true],
    [504, 'PROVIDER_SERVER', true],
    [529, 'PROVIDER_SERVER', true],
  ];

  it.each(statuses)(
    'S2-37 S0-25 %i is %s, retryable %s, and names server, model and reason',
    async (status, code, retryable) => {
      const error = await failure((exchange) => sendJson(exchange, { error: { message: 'It says why.' } }, status));
      expect(error).toMatchObject({ code, retryable, status });
      expect(error.message).toContain(
        `The model server at ${server.baseUrl} (model gpt-x) answered HTTP ${status} "It says why."`,
      );
    },
  );

  it('tells the cure', async () => {
    const cures: readonly (readonly [number, RegExp])[] = [
      [401, /set apiKey/],
      [404, /check baseUrl.*\/v1.*model/],
      [429, /try again later/],
      [503, /try again later/],
    ];
    for (const [status, cure] of cures) {
      expect((await failure((exchange) => sendJson(exchange, {}, status))).message).toMatch(cure);
    }
  });

  it('S2-37 429 carries Retry-After in seconds, as a date, and in milliseconds', async () => {
    const waits = async (headers: Record<string, string>) =>
      (await failure((exchange) => sendJson(exchange, {}, 429, headers))).retryAfterMs;
    expect(await waits({ 'retry-after': '7' })).toBe(7_000);
    expect(await waits({ 'retry-after': '0.5' })).toBe(500);
    expect(await waits({ 'retry-after': 'Thu, 01 Jan 2026 00:01:30 GMT' })).toBe(90_000);
    expect(await waits({ 'retry-after': 'Wed, 31 Dec 2025 00:00:00 GMT' })).toBe(0);
    expect(await waits({ 'retry-after': '9', 'retry-after-ms': '1250' })).toBe(1_250);
    expect(await waits({ 'llm_provider-retry-after': '8' })).toBe(8_000);
    expect(await waits({ 'retry-after': 'soon' })).toBeUndefined();
    expect(await waits({})).toBeUndefined();
  });

  it('503 carries Retry-After too', async () => {
    const error = await failure((exchange) => sendJson(exchange, {}, 503, { 'retry-after': '3' }));
    expect(error).toMatchObject({ code: 'PROVIDER_SERVER', retryAfterMs: 3_000 });
  });

  it('429 of a used-up quota is not worth another try', async () => {
    const body = {
      error: { message: 'You exceeded your quota.', type: 'insufficient_quota', code: 'insufficient_quota' },
    };
    const error = await failure((exchange) => sendJson(exchange, body, 429));
    expect(error).toMatchObject({ code: 'PROVIDER_RATE_LIMIT', retryable: false });
  });

  it('400 of a LiteLLM without a database is a wrong key', async () => {
    const body = { error: { message: 'No connected db.', type: 'no_db_connection', param: null, code: '400' } };
    const error = await failure((exchange) => sendJson(exchange, body, 400));
    expect(error).toMatchObject({ code: 'PROVIDER_AUTH', status: 400 });
    expect(error.message).toMatch(/set apiKey/);
  });

  it.each([
    ['a plain text', 'text/plain', 'upstream   connect\nerror', '"upstream connect error"'],
    [
      'a page of HTML',
      'text/html',
      '<html><head><title>502 Bad Gateway</title></head><body><p>nginx</p></body></html>',
      '"502 Bad Gateway"',
    ],
    ['a page without a title', 'text/html', '<h1>Sorry</h1>', '"Sorry"'],
    ['FastAPI', 'application/json', '{"detail":[{"loc":["body"],"msg":"field required"}]}', '"field required"'],
    ['a text as error', 'application/json', '{"error":"model not loaded"}', '"model not loaded"'],
    ['Mistral', 'application/json', '{"object":"error","message":"no such thing"}', '"no such thing"'],
    ['garbage', 'application/json', '{"error":', '"{"error":"'],
  ])('quotes what %s says', async (_, type, text, quoted) => {
    const error = await failure(({ response }) => response.writeHead(502, { 'content-type': type }).end(text));
    expect(error).toMatchObject({ code: 'PROVIDER_SERVER', retryable: true });
    expect(error.message).toContain(` ${quoted}`);
  });

  it('shortens what the server says', async () => {
    const error = await failure((exchange) => sendJson(exchange, { error: { message: 'x'.repeat(5_000) } }, 400));
    expect(error.message.length).toBeLessThan(600);
    expect(error.message).toContain('x…"');
  });

  it('of an empty body still gives a sentence', async () => {
    const error = await failure(({ response }) => response.writeHead(500).end());
    expect(error.message).toMatch(/answered HTTP 500: try again later/);
  });

  it('of a redirect is not followed: the error names the place', async () => {
    const error = await failure(({ response }) => response.writeHead(308, { location: 'https://other.test/v1' }).end());
    expect(error).toMatchObject({ code: 'PROVIDER_PROTOCOL', retryable: false, status: 308 });
    expect(error.message).toContain('redirects to "https://other.test/v1": set baseUrl');
    expect(server.requests).toBe(2);
  });
});

describe('an answer that is not one', () => {
  const html = '<html><title>Welcome</title></html>';
  const answers: readonly (readonly [string, string, string])[] = [
    ['a page of HTML', 'text/html; charset=utf-8', html],
    ['HTML that calls itself JSON', 'application/json', html],
    ['HTML that calls itself a stream', 'text/event-stream', html],
    ['a JSON text', 'application/json', '"ok"'],
    ['a JSON array', 'application/json', '[]'],
    ['JSON without choices', 'application/json', '{"ok":true}'],
    ['JSON with no choice', 'application/json', '{"choices":[]}'],
    ['choices of another shape', 'application/json', '{"choices":{"a":1}}'],
    ['a choice of another shape', 'application/json', '{"choices":["a"]}'],
    ['a message of another shape', 'application/json', '{"choices":[{"message":"a","finish_reason":"stop"}]}'],
    [
      'a content of another shape',
      'application/json',
      '{"choices":[{"message":{"content":7},"finish_reason":"stop"}]}',
    ],
    [
      'calls of another shape',
      'application/json',
      '{"choices":[{"message":{"tool_calls":{}},"finish_reason":"stop"}]}',
    ],
    [
      'a call of another shape',
      'application/json',
      '{"choices":[{"message":{"tool_calls":["f"]},"finish_reason":"stop"}]}',
    ],
    ['an empty body', 'application/json', ''],
    ['half a JSON', 'application/json', '{"choices":[{"mess'],
    ['an event that is not JSON', 'text/event-stream', 'data: hello\n\ndata: [DONE]\n\n'],
    ['an event that is no object', 'text/event-stream', event('[1]')],
    ['a chunk of another shape', 'text/event-stream', event({ choices: [{ delta: { content: { a: 1 } } }] })],
    [
      "Anthropic's own wire",
      'text/event-stream',
      event({ type: 'message_start', message: {} }) + event({ type: 'message_stop' }),
    ],
  ];

  it.each(answers)('S1-45 %s is PROVIDER_PROTOCOL', async (_, type, body) => {
    const error = await failure(({ response }) => response.writeHead(200, { 'content-type': type }).end(body));
    expect(error).toMatchObject({ code: 'PROVIDER_PROTOCOL', retryable: false });
    expect(error.message).toMatch(
      /^The model server at \S+ \(model gpt-x\) .*check that baseUrl leads to an OpenAI-compatible API/,
    );
  });

  it('is PROVIDER_PROTOCOL too where it is no HTTP, or cannot be decompressed', async () => {
    const noHttp = createServer((socket) => socket.resume().end('SSH-2.0-OpenSSH_9.2\r\n\r\n'));
    noHttp.listen(0, '127.0.0.1');
    await once(noHttp, 'listening');
    const address = noHttp.address();
    const port = typeof address === 'object' && address !== null ? address.port : 0;
    const error = await codedError(provider({ baseUrl: `http://127.0.0.1:${port}/v1` }).call(params));
    expect(error).toMatchObject({ code: 'PROVIDER_PROTOCOL', retryable: false });
    noHttp.close();
    await once(noHttp, 'close');

    const headers = { 'content-type': 'application/json', 'content-encoding': 'gzip' };
    const garbled = await failure(({ response }) => response.writeHead(200, headers).end('this is not gzip'));
    expect(garbled.code).toBe('PROVIDER_PROTOCOL');
  });
});

describe('an answer that goes wrong while the server would go on', () => {
  it.each([
    ['a page of HTML', 'text/html', '<html>'],
    ['an event that is not JSON', 'text/event-stream', event('hello')],
    ['an error', 'text/event-stream', event({ error: { message: 'no' } })],
    ['[DONE] too early', 'text/event-stream', done],
  ])('has its connection closed: %s', async (_, type, text) => {
    for (const ask of [byCall, byStream]) {
      const pending = codedError(ask(provider()));
      const { response, gone } = await server.next();
      response.writeHead(200, { 'content-type': type });
      response.write(text);
      await pending;
      await gone;
    }
  });
});

describe('an error inside an answer', () => {
  const errors: readonly (readonly [object, string, boolean])[] = [
    [{ error: { message: 'slow down', code: '429' } }, 'PROVIDER_RATE_LIMIT', true],
    [{ error: { message: 'slow down', type: 'rate_limit_error' } }, 'PROVIDER_RATE_LIMIT', true],
    [{ error: { message: 'overloaded', type: 'overloaded_error' } }, 'PROVIDER_SERVER', true],
    [{ error: { message: 'broken', code: 502 } }, 'PROVIDER_SERVER', true],
    [{ error: { message: 'no', type: 'authentication_error' } }, 'PROVIDER_AUTH', false],
    [{ error: { message: 'too long', code: 'context_length_exceeded' } }, 'PROVIDER_BAD_REQUEST', false],
    [{ error: { message: 'late', type: 'timeout' } }, 'PROVIDER_TIMEOUT', true],
    [{ error: 'just a text' }, 'PROVIDER_SERVER', true],
    [{ object: 'error', message: 'as Mistral says it', code: 404 }, 'PROVIDER_NOT_FOUND', false],
    [{ choices: [{ delta: {}, finish_reason: 'error' }] }, 'PROVIDER_SERVER', true],
    [{ choices: [{ delta: {}, finish_reason: 'insufficient_system_resource' }] }, 'PROVIDER_SERVER', true],
  ];

  it.each(errors)('S0-25 %j in a body with status 200 is %s', async (body, code, retryable) => {
    const error = await failure((exchange) => sendJson(exchange, body));
    expect(error).toMatchObject({ code, retryable });
  });

  it.each(errors)('%j in mid-stream is %s, after the text before it', async (body, code, retryable) => {
    server.answer((exchange) => sendStream(exchange, delta({ content: 'so far' }) + event(body) + done));
    const chunks: LLMChunk[] = [];
    const ended = new Promise((_, reject) => {
      provider()
        .stream(params)
        .subscribe({ next: (chunk) => chunks.push(chunk), error: reject });
    });
    expect(await codedError(ended)).toMatchObject({ code, retryable });
    expect(chunks).toEqual([{ type: 'text', text: 'so far' }]);
  });

  it('is known by the name of its event as well', async () => {
    const named = (data: string) => `event: error\ndata: ${data}\n\n`;
    const answers = [
      named('{"message":"it broke","code":503}'),
      named('it broke'),
      named('{"error":{"message":"it broke"}}'),
    ];
    for (const stream of answers) {
      server.answer((exchange) => sendStream(exchange, delta({ content: 'a' }) + stream));
      const error = await codedError(lastValueFrom(provider().stream(params)));
      expect(error).toMatchObject({ code: 'PROVIDER_SERVER', retryable: true });
      expect(error.message).toContain('"it broke"');
    }
  });
});

describe('a connection that fails', () => {
  it.each(ways)('%s: a refused one is PROVIDER_UNREACHABLE', async (_, ask) => {
    const { port } = server;
    await server.close();
    const error = await codedError(ask(provider()));
    expect(error).toMatchObject({ code: 'PROVIDER_UNREACHABLE', retryable: true });
    expect(error.message).toBe(
      `The model server at http://127.0.0.1:${port}/v1 (model gpt-x) refuses the connection: start it, or set baseUrl to where it listens.`,
    );
    expect(error.cause).toMatchObject({ code: 'ECONNREFUSED' });
    server = await startRawServer();
  });

  it.each(ways)('%s: an unknown host is PROVIDER_UNREACHABLE', async (_, ask) => {
    const error = await codedError(ask(provider({ baseUrl: 'http://no-such-host.invalid/v1' })));
    expect(error).toMatchObject({ code: 'PROVIDER_UNREACHABLE', retryable: true });
    expect(error.message).toMatch(/no-such-host\.invalid\/v1.*host name/);
  });

  it('closed before the headers is PROVIDER_STREAM_CLOSED', async () => {
    const error = await failure(({ socket }) => socket.destroy());
    expect(error).toMatchObject({ code: 'PROVIDER_STREAM_CLOSED', retryable: true });
  });

  it.each([
    ['closed', ({ socket }: Exchange) => socket.destroy()],
    ['reset', ({ socket }: Exchange) => socket.resetAndDestroy()],
    ['ended in good order', ({ response }: Exchange) => response.end()],
    ['ended with [DONE]', ({ response }: Exchange) => response.end(done)],
    ['ended within an event', ({ response }: Exchange) => response.end(delta({ content: 'cut' }).slice(0, 40))],
  ])(
    'S1-45 %s in mid-stream without a finish reason is PROVIDER_STREAM_CLOSED, after the text before it',
    async (_, close) => {
      const chunks: LLMChunk[] = [];
      const ended = new Promise((resolve, reject) => {
        provider()
          .stream(params)
          .subscribe({ next: (chunk) => chunks.push(chunk), complete: () => resolve('complete'), error: reject });
      });
      const exchange = await server.next();
      beginStream(exchange);
      exchange.response.write(delta({ content: 'so far' }), () => close(exchange));
      expect(await codedError(ended)).toMatchObject({ code: 'PROVIDER_STREAM_CLOSED', retryable: true });
      expect(chunks).toEqual([{ type: 'text', text: 'so far' }]);
    },
  );

  it('an empty stream is PROVIDER_STREAM_CLOSED', async () => {
    server.answer((exchange) => sendStream(exchange, ''));
    expect((await codedError(lastValueFrom(provider().stream(params)))).code).toBe('PROVIDER_STREAM_CLOSED');
  });

  it('cut off inside a body that is not streamed is PROVIDER_STREAM_CLOSED', async () => {
    const pending = provider().call(params);
    const { response, socket } = await server.next();
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' });
    response.write('{"choices":', () => socket.destroy());
    expect(await codedError(pending)).toMatchObject({ code: 'PROVIDER_STREAM_CLOSED', retryable: true });
  });

  it('closed after the finish reason is the end of a good answer', async () => {
    const pending = lastValueFrom(provider().stream(params).pipe(toArray()));
    const exchange = await server.next();
    beginStream(exchange);
    exchange.response.write(delta({ content: 'all' }, 'stop'), () => exchange.socket.destroy());
    expect(await pending).toMatchObject([
      { type: 'text', text: 'all' },
      { type: 'done', response: { finishReason: 'stop' } },
    ]);
  });

  it('that cannot be made is PROVIDER_FAILED with the reason', async () => {
    const error = await codedError(provider({ baseUrl: 'http://127.0.0.1:1/v1' }).call(params));
    expect(error).toMatchObject({ code: 'PROVIDER_FAILED', retryable: false });
    expect(error.message).toContain('"bad port"');
  });
});

describe('silence', () => {
  it.each(ways)('%s: no headers within timeoutMs is PROVIDER_TIMEOUT, and closes the connection', async (_, ask) => {
    const pending = codedError(ask(provider({ timeoutMs: 900 })));
    const { gone } = await server.next();
    clock.advance(899);
    clock.advance(1);
    const error = await pending;
    expect(error).toMatchObject({ code: 'PROVIDER_TIMEOUT', retryable: true });
    expect(error.message).toContain('timeoutMs (900 ms)');
    await gone;
  });

  it.each(ways)('%s: a body that drips on past timeoutMs is PROVIDER_TIMEOUT', async (_, ask) => {
    const pending = codedError(ask(provider({ timeoutMs: 1_000, chunkTimeoutMs: 400 })));
    const exchange = await server.next();
    beginStream(exchange);
    await clock.whenPending(2);
    for (let drop = 0; drop < 5; drop++) {
      await received(exchange, delta({ content: 'x' }));
      clock.advance(200);
    }
    expect((await pending).message).toContain('timeoutMs (1000 ms)');
    await exchange.gone;
  });

  it.each(ways)(
    'S1-45 %s: nothing after the headers is PROVIDER_TIMEOUT, and closes the connection',
    async (_, ask) => {
      const pending = codedError(ask(provider({ chunkTimeoutMs: 300 })));
      const exchange = await server.next();
      beginStream(exchange);
      await clock.whenPending(2);
      clock.advance(300);
      const error = await pending;
      expect(error).toMatchObject({ code: 'PROVIDER_TIMEOUT', retryable: true });
      expect(error.message).toContain('sent nothing for 300 ms (chunkTimeoutMs)');
      await exchange.gone;
    },
  );

  it('counts from the last byte, which need not be of a token', async () => {
    const pending = codedError(lastValueFrom(provider({ chunkTimeoutMs: 300 }).stream(params)));
    const exchange = await server.next();
    beginStream(exchange);
    await clock.whenPending(2);
    for (let comment = 0; comment < 4; comment++) {
      await received(exchange, ': keep-alive\n\n');
      clock.advance(299);
    }
    clock.advance(1);
    expect((await pending).code).toBe('PROVIDER_TIMEOUT');
  });

  it('also counts in the body of an error', async () => {
    const pending = codedError(provider({ chunkTimeoutMs: 300 }).call(params));
    const { response } = await server.next();
    response.writeHead(500);
    response.flushHeaders();
    await clock.whenPending(2);
    clock.advance(300);
    expect((await pending).code).toBe('PROVIDER_TIMEOUT');
  });

  it('after the finish reason is not waited for longer than 5 s, and does not spoil the answer', async () => {
    const pending = lastValueFrom(provider().stream(params).pipe(toArray()));
    const exchange = await server.next();
    beginStream(exchange);
    await clock.whenPending(2);
    await received(exchange, delta({ content: 'all' }, 'stop'));
    clock.advance(5_000);
    expect(await pending).toMatchObject([{ type: 'text' }, { type: 'done' }]);
    await exchange.gone;
  });

  it('after [DONE] is not waited for longer than 500 ms', async () => {
    const pending = lastValueFrom(provider().stream(params).pipe(toArray()));
    const exchange = await server.next();
    beginStream(exchange);
    await clock.whenPending(2);
    await received(exchange, delta({ content: 'all' }, 'stop') + done);
    clock.advance(500);
    expect(await pending).toMatchObject([{ type: 'text' }, { type: 'done' }]);
    await exchange.gone;
  });

  it('has no limit where the limits are 0', async () => {
    const pending = lastValueFrom(provider({ timeoutMs: 0, chunkTimeoutMs: 0 }).stream(params));
    const exchange = await server.next();
    beginStream(exchange);
    await received(exchange, delta({ content: 'a' }));
    expect(clock.pending).toBe(0);
    exchange.response.end(delta({}, 'stop') + done);
    expect((await pending).type).toBe('done');
  });
});

/** Resolves when the provider has taken these bytes: it reads the clock for each piece of a body. */
async function received({ response }: Exchange, text: string): Promise<void> {
  const taken = once(readings, 'now');
  response.write(text);
  await taken;
}

describe('a body over maxBodyBytes', () => {
  const big = { content: 'x'.repeat(20_000) };
  const limits = { maxBodyBytes: 10_000 };

  it('S1-45 is PROVIDER_TOO_LARGE, streamed or not, and closes the connection', async () => {
    const exchanges: Exchange[] = [];
    const error = await failure((exchange) => {
      exchanges.push(exchange);
      if (exchange.body['stream'] !== true) return sendJson(exchange, completion(big));
      beginStream(exchange);
      exchange.response.write(delta(big));
    }, limits);
    expect(error).toMatchObject({ code: 'PROVIDER_TOO_LARGE', retryable: false });
    expect(error.message).toContain('maxBodyBytes (10000 bytes)');
    await exchanges[1]?.gone;
  });

  it.each([
    ['gzip', gzipSync],
    ['br', brotliCompressSync],
  ])('counts what %s unpacks to', async (encoding, compress) => {
    const packed = compress(JSON.stringify(completion(big)));
    expect(packed.length).toBeLessThan(1_000);
    const headers = { 'content-type': 'application/json', 'content-encoding': encoding };
    const error = await failure(({ response }) => response.writeHead(200, headers).end(packed), limits);
    expect(error.code).toBe('PROVIDER_TOO_LARGE');
  });

  it('also counts in the body of an error', async () => {
    const error = await failure(({ response }) => response.writeHead(500).end('x'.repeat(20_000)), limits);
    expect(error.code).toBe('PROVIDER_TOO_LARGE');
  });

  it('is no error below the limit, also compressed', async () => {
    const headers = { 'content-type': 'application/json', 'content-encoding': 'gzip' };
    server.answer(({ response }) =>
      response.writeHead(200, headers).end(gzipSync(JSON.stringify(completion({ content: 'ok' })))),
    );
    expect((await provider(limits).call(params)).message.content).toBe('ok');
  });
});

describe('the key', () => {
  const headers = { 'x-gateway-token': 'gw-secret-abcdef', authorization: 'Basic dXNlcjpwYXNzd29yZA==' };
  const secrets = ['sk-very', '1234567890', 'gw-secret', 'dXNlcjpw'];
  const echo = `You sent ${apiKey} and "gw-secret-abcdef" with dXNlcjpwYXNzd29yZA== ${encodeURIComponent(apiKey)}`;

  const answers: readonly (readonly [string, (exchange: Exchange) => void])[] = [
    ['an error that repeats it', (exchange) => sendJson(exchange, { error: { message: echo } }, 401)],
    [
      'a page that repeats it',
      ({ response }) => response.writeHead(502, { 'content-type': 'text/html' }).end(`<p>${echo}`),
    ],
    ['a redirect to it', ({ response }) => response.writeHead(302, { location: `http://x.test/?key=${apiKey}` }).end()],
    ['an error inside an answer', (exchange) => sendJson(exchange, { error: { message: echo } })],
    [
      'garbage that repeats it',
      ({ response }) => response.writeHead(200, { 'content-type': 'application/json' }).end(echo),
    ],
    ['garbage that escapes it', ({ response }) => response.writeHead(200).end(`[${JSON.stringify(echo)}`)],
    ['garbage in a stream', (exchange) => sendStream(exchange, event(echo))],
    [
      'an error in a stream',
      (exchange) => sendStream(exchange, delta({ content: 'a' }) + event({ error: { message: echo } })),
    ],
    ['no HTTP', ({ socket }) => socket.end(`${apiKey} ${apiKey}\r\n\r\n`)],
    ['a closed connection', ({ socket }) => socket.destroy()],
    [
      'a shortened text, cut within it',
      (exchange) => sendJson(exchange, { error: `${'y'.repeat(290)} ${apiKey}` }, 500),
    ],
  ];

  it.each(answers)('S1-45 is not in the error of %s', async (_, answer) => {
    server.answer(answer);
    for (const [, ask] of ways) {
      const error = await codedError(ask(provider({ headers })));
      const shown = [
        inspect(error, { depth: 20, showHidden: true }),
        String(error.stack),
        JSON.stringify(error),
      ].join();
      for (const secret of secrets) expect(shown).not.toContain(secret);
    }
  });

  it('is not in the error of a fetch that shows it', async () => {
    const own: typeof fetch = async (_, init) => {
      throw new Error(`No way with ${new Headers(init?.headers).get('x-gateway-token')} ${apiKey}`);
    };
    const error = await codedError(provider({ headers, fetch: own }).call(params));
    expect(error.message).toContain('"No way with [redacted] [redacted]"');
    const shown = inspect(error, { depth: 20, showHidden: true });
    for (const secret of secrets) expect(shown).not.toContain(secret);
  });

  it('is not in what a provider shows of itself', () => {
    const shown =
      inspect(provider({ headers }), { depth: 20, showHidden: true }) + JSON.stringify(provider({ headers }));
    for (const secret of secrets) expect(shown).not.toContain(secret);
  });
});
