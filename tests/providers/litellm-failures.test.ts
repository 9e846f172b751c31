import { once } from 'node:events';
import { createServer } from 'node:net';
import { describe, expect, it } from '@jest/globals';
import type { LLMChunk } from 'millrace';
import { lastValueFrom } from 'rxjs';
import { apiKey, byCall, byStream, params, providerBench } from './provider-bench.ts';
import { codedError } from './provider-error.ts';
import { delta, done, event, sendJson, sendStream } from './raw-server.ts';

const bench = providerBench();

describe('an HTTP status', () => {
  const statuses: readonly (readonly [number, string, boolean])[] = [
    [400, 'PROVIDER_BAD_REQUEST', false],
    [401, 'PROVIDER_AUTH', false],
    [402, 'PROVIDER_AUTH', false],
    [403, 'PROVIDER_AUTH', false],
    [404, 'PROVIDER_NOT_FOUND', false],
    [408, 'PROVIDER_TIMEOUT', true],
    [409, 'PROVIDER_FAILED', true],
    [413, 'CONTEXT_OVERFLOW', false],
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
      const error = await bench.failure((exchange) =>
        sendJson(exchange, { error: { message: 'It says why.' } }, status),
      );
      expect(error).toMatchObject({ code, retryable, status });
      expect(error.message).toContain(
        `The model server at ${bench.server.baseUrl} (model gpt-x) answered HTTP ${status} "It says why."`,
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
      expect((await bench.failure((exchange) => sendJson(exchange, {}, status))).message).toMatch(cure);
    }
  });

  it('S2-37 429 carries Retry-After in seconds, as a date, and in milliseconds', async () => {
    const waits = async (headers: Record<string, string>) =>
      (await bench.failure((exchange) => sendJson(exchange, {}, 429, headers))).retryAfterMs;
    expect(await waits({ 'retry-after': '7' })).toBe(7_000);
    expect(await waits({ 'retry-after': '0.5' })).toBe(500);
    expect(await waits({ 'retry-after': 'Thu, 01 Jan 2026 00:01:30 GMT' })).toBe(90_000);
    expect(await waits({ 'retry-after': 'Wed, 31 Dec 2025 00:00:00 GMT' })).toBe(0);
    expect(await waits({ 'retry-after': '9', 'retry-after-ms': '1250' })).toBe(1_250);
    expect(await waits({ 'llm_provider-retry-after': '8' })).toBe(8_000);
    expect(await waits({ 'retry-after': 'Thursday, 01-Jan-26 00:00:20 GMT' })).toBe(20_000);
    expect(await waits({ 'retry-after': 'Thu Jan  1 00:00:30 2026' })).toBe(30_000);
    for (const noTime of ['soon', '-1', '5, 5', '7 s', 'May be later 5']) {
      expect(await waits({ 'retry-after': noTime })).toBeUndefined();
    }
    expect(await waits({})).toBeUndefined();
  });

  it('503 carries Retry-After too', async () => {
    const error = await bench.failure((exchange) => sendJson(exchange, {}, 503, { 'retry-after': '3' }));
    expect(error).toMatchObject({ code: 'PROVIDER_SERVER', retryAfterMs: 3_000 });
  });

  it('429 of a used-up quota is not worth another try', async () => {
    const body = {
      error: { message: 'You exceeded your quota.', type: 'insufficient_quota', code: 'insufficient_quota' },
    };
    const error = await bench.failure((exchange) => sendJson(exchange, body, 429));
    expect(error).toMatchObject({ code: 'PROVIDER_RATE_LIMIT', retryable: false });
  });

  it('400 of a LiteLLM without a database is a wrong key', async () => {
    const body = { error: { message: 'No connected db.', type: 'no_db_connection', param: null, code: '400' } };
    const error = await bench.failure((exchange) => sendJson(exchange, body, 400));
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
    const error = await bench.failure(({ response }) => response.writeHead(502, { 'content-type': type }).end(text));
    expect(error).toMatchObject({ code: 'PROVIDER_SERVER', retryable: true });
    expect(error.message).toContain(` ${quoted}`);
  });

  it('shortens what the server says', async () => {
    const error = await bench.failure((exchange) => sendJson(exchange, { error: { message: 'x'.repeat(5_000) } }, 400));
    expect(error.message.length).toBeLessThan(600);
    expect(error.message).toContain('x…"');
  });

  it('of an empty body still gives a sentence', async () => {
    const error = await bench.failure(({ response }) => response.writeHead(500).end());
    expect(error.message).toMatch(/answered HTTP 500: try again later/);
  });

  it('of a redirect is not followed: the error names the place', async () => {
    const error = await bench.failure(({ response }) =>
      response.writeHead(308, { location: 'https://other.test/v1' }).end(),
    );
    expect(error).toMatchObject({ code: 'PROVIDER_PROTOCOL', retryable: false, status: 308 });
    expect(error.message).toContain('redirects to "https://other.test/v1": set baseUrl');
    expect(bench.server.requests).toBe(2);
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
    const error = await bench.failure(({ response }) => response.writeHead(200, { 'content-type': type }).end(body));
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
    const error = await codedError(bench.provider({ baseUrl: `http://127.0.0.1:${port}/v1` }).call(params));
    expect(error).toMatchObject({ code: 'PROVIDER_PROTOCOL', retryable: false });
    noHttp.close();
    await once(noHttp, 'close');

    const headers = { 'content-type': 'application/json', 'content-encoding': 'gzip' };
    const garbled = await bench.failure(({ response }) => response.writeHead(200, headers).end('this is not gzip'));
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
      const pending = codedError(ask(bench.provider()));
      const { response, gone } = await bench.server.next();
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
    [{ error: { message: 'too long', code: 'context_length_exceeded' } }, 'CONTEXT_OVERFLOW', false],
    [{ error: { message: 'late', type: 'timeout' } }, 'PROVIDER_TIMEOUT', true],
    [{ error: 'just a text' }, 'PROVIDER_SERVER', true],
    [{ object: 'error', message: 'as Mistral says it', code: 404 }, 'PROVIDER_NOT_FOUND', false],
    [{ choices: [{ delta: {}, finish_reason: 'error' }] }, 'PROVIDER_SERVER', true],
    [{ choices: [{ delta: {}, finish_reason: 'insufficient_system_resource' }] }, 'PROVIDER_SERVER', true],
  ];

  it.each(errors)('S0-25 %j in a body with status 200 is %s', async (body, code, retryable) => {
    const error = await bench.failure((exchange) => sendJson(exchange, body));
    expect(error).toMatchObject({ code, retryable });
  });

  it.each(errors)('%j in mid-stream is %s, after the text before it', async (body, code, retryable) => {
    bench.server.answer((exchange) => sendStream(exchange, delta({ content: 'so far' }) + event(body) + done));
    const chunks: LLMChunk[] = [];
    const ended = new Promise((_, reject) => {
      bench
        .provider()
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
      bench.server.answer((exchange) => sendStream(exchange, delta({ content: 'a' }) + stream));
      const error = await codedError(lastValueFrom(bench.provider().stream(params)));
      expect(error).toMatchObject({ code: 'PROVIDER_SERVER', retryable: true });
      expect(error.message).toContain('"it broke"');
    }
  });
});

describe('a failure in a stream, whatever its form and its place', () => {
  const failures: readonly (readonly [form: string, text: string])[] = [
    ['a field of the stream', 'error: {"code":500,"message":"it broke"}\n\n'],
    ['a field with a plain text', 'error: it broke\n\n'],
    ['a bare line of JSON', '{"error":{"message":"it broke"}}\n\n'],
    ['bare JSON in several lines', '{\n  "error": {\n    "message": "it broke"\n  }\n}\n\n'],
    ['a page of HTML', '<html>\n<head><title>502 Bad Gateway: it broke</title></head>\n</html>\n'],
    ['a page of HTML as an event', 'data: <html><head><title>502 Bad Gateway: it broke</title></head></html>\n\n'],
    ['a sentence as an event', 'data: upstream error: it broke\n\n'],
    ['an event that is named after it', 'event: exception\ndata: {"message":"it broke"}\n\n'],
    ['a member of a vendor', event({ choices: [], x_groq: { error: { message: 'it broke' } } })],
    ['a member that nobody knows', event({ choices: [], x_vendor: { upstream_error: 'it broke' } })],
    ['a code beside choices', event({ choices: [], code: 500, message: 'it broke' })],
    ['base_resp', event({ choices: [], base_resp: { status_code: 1013, status_msg: 'it broke' } })],
    ['an error of a choice', event({ choices: [{ delta: {}, error: { message: 'it broke', code: 502 } }] })],
    ['an array, as of Google', event([{ error: { code: 500, message: 'it broke' } }])],
  ];
  const call = delta({ tool_calls: [{ index: 0, id: 'c', function: { name: 'pay', arguments: '{}' } }] });
  const places = [
    ['before the answer', ['', delta({ content: 'late' }, 'stop')]],
    ['between its pieces', [delta({ content: 'so ' }), delta({ content: 'far' }, 'stop')]],
    ['at its end, without a finish reason', [delta({ content: 'so far' }), '']],
    ['after a call', [call, '']],
  ] as const;

  describe.each(places)('%s', (_, [before, after]) => {
    it.each(failures)('%s', async (__, text) => {
      bench.server.answer((exchange) => sendStream(exchange, before + text + after + done));
      const error = await codedError(lastValueFrom(bench.provider().stream(params)));
      expect(error).toMatchObject({ code: 'PROVIDER_SERVER', retryable: true });
      expect(error.message).toContain('it broke');
    });
  });

  it('M-05 is none in members that say success, and in fields that are new', async () => {
    const text =
      'model: x\nnote: all is well\n' +
      event({ choices: [{ delta: { content: 'fine' } }], error: null, base_resp: { status_code: 0, status_msg: '' } }) +
      event({ choices: [], error: {}, x_groq: { error: null }, code: 0, message: 'success' }) +
      event({ type: 'progress', share: 0.5 }) +
      delta({}, 'stop') +
      done;
    bench.server.answer((exchange) => sendStream(exchange, text));
    expect(await lastValueFrom(bench.provider().stream(params))).toMatchObject({
      response: { message: { content: 'fine' }, finishReason: 'stop' },
    });
  });

  it('M-05 hides secrets in nested words', async () => {
    const raw = JSON.stringify({ error: { message: `The key ${apiKey} was refused.` } });
    const body = { error: { message: 'Provider returned error', metadata: { raw } } };
    const error = await bench.failure((exchange) => sendJson(exchange, body, 400));
    expect(error.message).toContain('"The key [redacted] was refused."');
  });
});

describe('an answer', () => {
  const chunk = (choice: object) => event({ choices: [{ index: 0, delta: {}, ...choice }] });

  it.each([
    ['whose word is not known, and that has nothing', chunk({ finish_reason: 'sunset' }), 'sunset'],
    ['that announces calls and has a text', delta({ content: 'I look.' }, 'tool_calls'), 'tool_calls'],
    ['whose call was malformed', delta({ content: 'x' }, 'function_call_filter: MALFORMED_FUNCTION_CALL'), 'MALFORMED'],
    [
      'that counts tokens and has nothing',
      chunk({ finish_reason: 'stop' }) + event({ choices: [], usage: { prompt_tokens: 3, completion_tokens: 90 } }),
      '90 tokens',
    ],
  ])('M-06 %s fails, to be asked for again a few times', async (_, text, words) => {
    const error = await bench.failure((exchange) => sendStream(exchange, text + done));
    expect(error).toMatchObject({ code: 'PROVIDER_SERVER', retryable: true, reason: 'unusable_answer' });
    expect(error.message).toContain(words);
  });

  it('M-06 with nothing but members that are not read fails for good, and names them', async () => {
    const text = delta({ content: '', hologram: [{ url: 'x' }] }, 'stop');
    const error = await bench.failure((exchange) => sendStream(exchange, text + done));
    expect(error).toMatchObject({ code: 'PROVIDER_PROTOCOL', retryable: false });
    expect(error.message).toContain('"hologram"');
  });

  it('M-06 whose context window is full before a text is an overflow', async () => {
    const text = chunk({ finish_reason: 'model_context_window_exceeded' });
    const error = await bench.failure((exchange) => sendStream(exchange, text + done));
    expect(error).toMatchObject({ code: 'CONTEXT_OVERFLOW', retryable: false });
  });

  it('M-06 whose word is not known is complete with a text, for the reason other', async () => {
    bench.server.answer((exchange) => sendStream(exchange, delta({ content: 'fine' }, 'sunset') + done));
    expect(await lastValueFrom(bench.provider().stream(params))).toMatchObject({
      response: { message: { content: 'fine' }, finishReason: 'other' },
    });
  });
});
