import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { context, createContextKey, propagation, ROOT_CONTEXT, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import type { LLMCallParams } from 'millrace';
import { LiteLLMProvider, type LiteLLMProviderOptions } from 'millrace/litellm';
import { lastValueFrom } from 'rxjs';
import { codedError } from './provider-error.ts';
import {
  completion,
  type Exchange,
  event,
  type RawServer,
  sendJson,
  sendStream,
  startRawServer,
  textStream,
} from './raw-server.ts';

const params: LLMCallParams = { messages: [{ role: 'user', content: 'Hi' }] };

let server: RawServer;

beforeEach(async () => {
  server = await startRawServer();
});

afterEach(() => server.close());

function provider(options: Partial<LiteLLMProviderOptions> = {}): LiteLLMProvider {
  return new LiteLLMProvider({ baseUrl: server.baseUrl, model: 'gpt-x', ...options });
}

/** The request of a `call` that is answered. */
async function requestOf(from: LiteLLMProvider, given = params): Promise<Exchange> {
  const pending = from.call(given);
  const exchange = await server.next();
  sendJson(exchange, completion({ content: 'ok' }));
  await pending;
  return exchange;
}

describe('a request', () => {
  it('S1-45 of call is one POST of JSON with the key', async () => {
    const request = await requestOf(provider({ apiKey: 'sk-1234' }), { ...params, temperature: 0.2, maxTokens: 64 });
    expect(request.method).toBe('POST');
    expect(request.path).toBe('/v1/chat/completions');
    expect(request.headers).toMatchObject({ authorization: 'Bearer sk-1234', 'content-type': 'application/json' });
    expect(request.body).toEqual({
      model: 'gpt-x',
      messages: [{ role: 'user', content: 'Hi' }],
      temperature: 0.2,
      max_tokens: 64,
    });
  });

  it('S1-45 of stream asks for a stream with usage', async () => {
    const pending = lastValueFrom(provider().stream(params));
    const exchange = await server.next();
    sendStream(exchange, textStream('ok'));
    await pending;
    expect(exchange.body).toEqual({
      model: 'gpt-x',
      messages: [{ role: 'user', content: 'Hi' }],
      stream: true,
      stream_options: { include_usage: true },
    });
  });

  it('S1-43 S4-14 carries tools, the choice, and metadata where the server wants it', async () => {
    const tools = [
      { type: 'function' as const, function: { name: 'f', description: 'F.', parameters: { type: 'object' } } },
    ];
    const given: LLMCallParams = { ...params, tools, toolChoice: { name: 'f' }, metadata: { tags: ['x'] } };
    const { body } = await requestOf(provider({ sendMetadata: true }), given);
    expect(body).toMatchObject({
      tools,
      tool_choice: { type: 'function', function: { name: 'f' } },
      metadata: { tags: ['x'] },
    });
    expect((await requestOf(provider(), given)).body).not.toHaveProperty('metadata');
  });

  it('goes below the path of baseUrl, with and without a slash at its end', async () => {
    for (const [path, expected] of [
      ['', '/chat/completions'],
      ['/', '/chat/completions'],
      ['/v1/', '/v1/chat/completions'],
      ['/proxy/openai/v1', '/proxy/openai/v1/chat/completions'],
    ] as const) {
      const { path: got } = await requestOf(provider({ baseUrl: `http://127.0.0.1:${server.port}${path}` }));
      expect(got).toBe(expected);
    }
  });

  it('carries the given headers, also one that replaces the key', async () => {
    const headers = { 'X-Team': 'blue', Authorization: 'Basic abc' };
    const request = await requestOf(provider({ apiKey: 'sk-1234', headers }));
    expect(request.headers).toMatchObject({ 'x-team': 'blue', authorization: 'Basic abc' });
  });

  it('without a key carries none, whatever the environment holds for the openai package', async () => {
    const names = ['OPENAI_API_KEY', 'OPENAI_ADMIN_KEY', 'OPENAI_ORG_ID', 'OPENAI_PROJECT_ID', 'OPENAI_BASE_URL'];
    const before = names.map((name) => [name, process.env[name]] as const);
    for (const name of names) process.env[name] = 'http://sk-environment.test';
    try {
      const request = await requestOf(provider());
      expect(request.headers.authorization).toBeUndefined();
      expect(request.rawHeaders.join()).not.toContain('sk-environment');
    } finally {
      for (const [name, value] of before) {
        if (value === undefined) delete process.env[name];
        else process.env[name] = value;
      }
    }
  });

  it('S4-16 is made once a subscription, and none before', async () => {
    const source = provider().stream(params);
    server.answer((exchange) => sendStream(exchange, textStream('ok')));
    expect(server.requests).toBe(0);
    await Promise.all([lastValueFrom(source), lastValueFrom(source)]);
    expect(server.requests).toBe(2);
  });

  it('is not made again when it fails', async () => {
    server.answer((exchange) => sendJson(exchange, {}, 503, { 'x-should-retry': 'true' }));
    await codedError(provider().call(params));
    expect(server.requests).toBe(1);
    server.answer(({ socket }) => socket.destroy());
    await codedError(provider().call(params));
    expect(server.requests).toBe(2);
  });

  it('leaves its connection to later ones, streamed, whole or failed', async () => {
    const one = provider();
    for (let round = 0; round < 3; round++) {
      server.answer((exchange) => sendStream(exchange, textStream('ok')));
      await lastValueFrom(one.stream(params));
      server.answer((exchange) => sendJson(exchange, completion({ content: 'ok' })));
      await one.call(params);
      server.answer((exchange) => sendJson(exchange, { error: 'no' }, 400));
      await codedError(one.call(params));
    }
    expect(server.requests).toBe(9);
    // Node's fetch may open a second one for a request that follows in the same tick.
    expect(server.connections).toBeLessThanOrEqual(2);
  });

  it('goes through the given fetch, whose signal a good end does not abort', async () => {
    const asked: string[] = [];
    const signals: (AbortSignal | null | undefined)[] = [];
    const own: typeof fetch = (url, init) => {
      asked.push(String(url));
      signals.push(init?.signal);
      return fetch(url, init);
    };
    await requestOf(provider({ fetch: own }));
    expect(asked).toEqual([`${server.baseUrl}/chat/completions`]);
    expect(signals.map((signal) => signal?.aborted)).toEqual([false]);
  });
});

describe('an answer', () => {
  it('S4-16 S4-17 passes chunks as they arrive, done last', async () => {
    const seen: string[] = [];
    const waiting: (() => void)[] = [];
    const chunkSeen = () => new Promise<void>((resolve) => waiting.push(resolve));
    const completed = new Promise<void>((resolve) => {
      provider()
        .stream(params)
        .subscribe({
          next: ({ type }) => {
            seen.push(type);
            waiting.shift()?.();
          },
          complete: resolve,
        });
    });
    const { response } = await server.next();
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const delta of [
      { content: 'a' },
      { tool_calls: [{ index: 0, id: 'c', function: { name: 'f', arguments: '{"a":1}' } }] },
    ]) {
      const seenOne = chunkSeen();
      response.write(event({ choices: [{ delta }] }));
      await seenOne;
    }
    expect(seen).toEqual(['text', 'tool-call']);
    response.end(event({ choices: [{ delta: {}, finish_reason: 'tool_calls' }] }));
    await completed;
    expect(seen).toEqual(['text', 'tool-call', 'done']);
  });

  it.each([
    [undefined, '0.00125', 0.00125],
    [7, '0.00125', 7],
    [0, '0.00125', 0],
    [undefined, '0.0', undefined],
    [undefined, 'None', undefined],
  ])("S1-44 with the cost %s in its usage and %s in LiteLLM's header costs %s", async (inUsage, header, expected) => {
    const usage = { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3, cost: inUsage };
    server.answer((exchange) =>
      sendJson(exchange, completion({ content: 'a' }, 'stop', usage), 200, { 'x-litellm-response-cost': header }),
    );
    expect((await provider().call(params)).usage?.cost).toBe(expected);
  });
});

describe('the trace context', () => {
  const spanContext = { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331', traceFlags: 1 };
  const marker = createContextKey('marker');
  const traceContext = trace.setSpanContext(ROOT_CONTEXT, spanContext).setValue(marker, 'here');

  beforeEach(() => {
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
    propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  });

  afterEach(() => {
    context.disable();
    propagation.disable();
  });

  it('S1-45 is active around the request, and in its headers once', async () => {
    let active: unknown;
    const own: typeof fetch = (url, init) => {
      active = context.active().getValue(marker);
      return fetch(url, init);
    };
    const request = await requestOf(provider({ fetch: own }), { ...params, traceContext });
    expect(active).toBe('here');
    const names = request.rawHeaders.filter((name) => name.toLowerCase() === 'traceparent');
    expect(names).toHaveLength(1);
    expect(request.headers['traceparent']).toBe('00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01');
  });

  it('is the same for a stream', async () => {
    const pending = lastValueFrom(provider().stream({ ...params, traceContext }));
    const exchange = await server.next();
    sendStream(exchange, textStream('ok'));
    await pending;
    expect(exchange.headers['traceparent']).toContain(spanContext.traceId);
  });

  it('does not come from the surroundings, and stays at home where propagateTrace is false', async () => {
    const ambient = await context.with(traceContext, () => requestOf(provider()));
    expect(ambient.headers['traceparent']).toBeUndefined();
    const silent = await requestOf(provider({ propagateTrace: false }), { ...params, traceContext });
    expect(silent.headers['traceparent']).toBeUndefined();
  });
});

describe('info and capabilities', () => {
  it('S1-45 tell what the span says: provider, model, address, port', () => {
    expect(provider().info).toEqual({
      providerName: 'litellm',
      model: 'gpt-x',
      serverAddress: '127.0.0.1',
      serverPort: server.port,
    });
    const named = provider({ baseUrl: 'https://api.example.test/v1', providerName: 'openai' });
    expect(named.info).toMatchObject({ providerName: 'openai', serverAddress: 'api.example.test', serverPort: 443 });
    expect(provider({ baseUrl: 'http://api.example.test/v1' }).info.serverPort).toBe(80);
    expect(provider({ baseUrl: 'http://[::1]:8080/v1' }).info).toMatchObject({
      serverAddress: '::1',
      serverPort: 8080,
    });
  });

  it('S4-13 are as given', () => {
    expect(provider().capabilities).toEqual({});
    expect(provider({ capabilities: { tools: false } }).capabilities).toEqual({ tools: false });
  });
});
