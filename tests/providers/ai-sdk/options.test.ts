import type { LanguageModelV3, LanguageModelV3StreamPart } from '@ai-sdk/provider';
import { afterEach, describe, expect, it } from '@jest/globals';
import { context, propagation, ROOT_CONTEXT, trace } from '@opentelemetry/api';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { AISDKProvider, type AISDKProviderOptions, createProvider } from 'millrace/ai-sdk';
import { fakeClock } from 'millrace/testing';
import { lastValueFrom } from 'rxjs';
import { codedError } from '../provider-error.ts';
import { sendStream, startRawServer } from '../raw-server.ts';
import { anthropic } from './vendor-wires.ts';

const messages = [{ role: 'user' as const, content: 'Hi' }];
const noTokens = { total: undefined, noCache: undefined, cacheRead: undefined, cacheWrite: undefined };
const usage = { inputTokens: noTokens, outputTokens: { total: undefined, text: undefined, reasoning: undefined } };

/** A model whose stream is made of these parts. */
function modelOf(parts: readonly LanguageModelV3StreamPart[], more: Partial<LanguageModelV3> = {}): LanguageModelV3 {
  return {
    specificationVersion: 'v3',
    provider: 'test.chat',
    modelId: 'm-1',
    supportedUrls: {},
    doGenerate: () => Promise.reject(new Error('It is not asked.')),
    doStream: () =>
      Promise.resolve({
        stream: new ReadableStream({
          start(controller) {
            for (const part of parts) controller.enqueue(part);
            controller.close();
          },
        }),
      }),
    ...more,
  };
}

const finish: LanguageModelV3StreamPart = { type: 'finish', usage, finishReason: { unified: 'stop', raw: 'stop' } };

describe('options of AISDKProvider', () => {
  const model = modelOf([finish]);

  it.each<[string, object, RegExp]>([
    ['no model', {}, /model must be a language model of an AI SDK package/],
    ['the name of a model', { model: 'claude' }, /model must be a language model/],
    [
      'a model of AI SDK 5',
      { model: { ...model, specificationVersion: 'v2' } },
      /has the interface v2; use .* AI SDK 6 or 7/,
    ],
    [
      'a model of a later AI SDK',
      { model: { ...model, specificationVersion: 'v5' } },
      /has the interface v5; use .* AI SDK 6 or 7/,
    ],
    ['an unknown one', { model, modell: 1 }, /modell/],
    [
      'flat provider options',
      { model, providerOptions: { thinking: true } },
      /providerOptions must be .*object for each vendor/,
    ],
    ['a tool of ours at the vendor', { model, providerTools: { a: { type: 'function' } } }, /providerTools/],
    ['a time that is none', { model, timeoutMs: -1 }, /timeoutMs must be milliseconds .*, not -1/],
    [
      'an address with a password',
      { model, address: 'https://a:b@c' },
      /address must be an address without a password\.$/,
    ],
    [
      'a capability that is none',
      { model, capabilities: { tool: false } },
      /streaming, tools, toolChoice, responseFormat/,
    ],
    ['capabilities that are none', { model, capabilities: { tools: 'no' } }, /capabilities/],
  ])('%s is refused', (_, options, sentence) => {
    const make = () => Reflect.construct(AISDKProvider, [options]);
    expect(make).toThrow(sentence);
    expect(make).toThrow(expect.objectContaining({ code: 'INVALID_CONFIG' }));
  });

  it('never shows a secret that is of the wrong form', () => {
    const make = () => Reflect.construct(AISDKProvider, [{ model, secrets: 'sk-very-secret' }]);
    expect(make).toThrow(expect.objectContaining({ code: 'INVALID_CONFIG' }));
    expect(make).not.toThrow(/sk-very-secret/);
  });

  it('tell the spans who is asked', () => {
    const info = (provider: string, more: Partial<AISDKProviderOptions> = {}) =>
      new AISDKProvider({ model: { ...model, provider }, ...more }).info;
    expect(info('anthropic.messages')).toEqual({ providerName: 'anthropic', model: 'm-1' });
    expect(info('google.generative-ai')).toEqual({ providerName: 'gcp.gemini', model: 'm-1' });
    expect(info('test.chat', { address: 'https://[::1]:9/v1', providerName: 'own' })).toEqual({
      providerName: 'own',
      model: 'm-1',
      serverAddress: '::1',
      serverPort: 9,
    });
  });
});

describe('options of createProvider', () => {
  it.each<[string, string, object, RegExp]>([
    [
      'no vendor',
      'claude',
      {},
      /vendor:model, not "claude"; the vendors are anthropic, google, openai, openai-chat, .*, openai-compatible;/,
    ],
    ['U-19 an unknown vendor', 'acme:m', {}, /for another, use "openai-compatible:NAME" with its baseUrl/],
    ['no model', 'openai:', {}, /the vendors are/],
    ['no address', 'openai-compatible:m', {}, /needs a baseUrl/],
    ['an address that is none', 'openai:m', { apiKey: 'k', baseUrl: 'localhost' }, /baseUrl must be an http/],
    ['a key with a line end', 'openai:m', { apiKey: 'sk-secret\n' }, /apiKey must be a key without spaces/],
    ['a header with a line end', 'openai:m', { apiKey: 'k', headers: { a: 'sk-secret\n\nx' } }, /headers\["a"\]/],
    ['an unknown option', 'openai:m', { apiKey: 'k', url: 'x' }, /url/],
  ])('%s is refused, without a secret', async (_, model, options, sentence) => {
    const error = await codedError(createProvider(model, options));
    expect(error.code).toBe('INVALID_CONFIG');
    expect(error.message).toMatch(sentence);
    expect(error.message).not.toContain('sk-secret');
  });

  it('a missing key names the variables', async () => {
    const kept = process.env['ANTHROPIC_API_KEY'];
    delete process.env['ANTHROPIC_API_KEY'];
    try {
      const error = await codedError(createProvider('anthropic:m'));
      expect(error).toMatchObject({ code: 'INVALID_CONFIG' });
      expect(error.message).toMatch(/give apiKey, or set ANTHROPIC_API_KEY/);
    } finally {
      if (kept !== undefined) process.env['ANTHROPIC_API_KEY'] = kept;
    }
  });

  it('headers are sent, and never shown', async () => {
    const server = await startRawServer();
    const headers = { 'x-team': 'team-secret-1' };
    const provider = await createProvider(anthropic.model, { apiKey: 'k', baseUrl: server.baseUrl, headers });
    const failed = codedError(provider.call({ messages }));
    const { headers: sent, response } = await server.next();
    response.writeHead(400).end('you sent team-secret-1');
    expect(sent['x-team']).toBe('team-secret-1');
    expect((await failed).message).toContain('you sent [redacted]');
    await server.close();
  });

  it('a model of another vendor is refused', async () => {
    const provider = await createProvider('openai:m', { apiKey: 'k' });
    const error = await codedError(provider.call({ messages, model: 'google:gemini-x' }));
    expect(error).toMatchObject({ code: 'INVALID_CONFIG' });
    expect(error.message).toMatch(/see the policy fallback/);
  });
});

describe('any model', () => {
  it('that pays no heed to its signal is left all the same', async () => {
    const clock = fakeClock();
    const deaf = modelOf([], { doStream: () => new Promise(() => {}), doGenerate: () => new Promise(() => {}) });
    const provider = new AISDKProvider({ model: deaf, timeoutMs: 1_000, clock });
    for (const ask of [() => provider.call({ messages }), () => lastValueFrom(provider.stream({ messages }))]) {
      const failed = codedError(ask());
      await clock.whenPending(1);
      clock.advance(1_000);
      expect((await failed).code).toBe('PROVIDER_TIMEOUT');
    }
    expect(clock.pending).toBe(0);
  });

  it('whose stream comes after everybody left has it cancelled', async () => {
    let cancelled: () => void = () => {};
    const wasCancelled = new Promise<void>((resolve) => {
      cancelled = resolve;
    });
    let give: (result: { stream: ReadableStream<LanguageModelV3StreamPart> }) => void = () => {};
    const late = modelOf([], {
      doStream: () =>
        new Promise((resolve) => {
          give = resolve;
        }),
    });
    const subscription = new AISDKProvider({ model: late }).stream({ messages }).subscribe();
    await Promise.resolve();
    subscription.unsubscribe();
    give({ stream: new ReadableStream({ cancel: () => cancelled() }) });
    await wasCancelled;
  });

  it('that throws something is PROVIDER_FAILED, with its words', async () => {
    const model = modelOf([], { doStream: () => Promise.reject(new Error('no idea')) });
    const error = await codedError(lastValueFrom(new AISDKProvider({ model }).stream({ messages })));
    expect(error).toMatchObject({ code: 'PROVIDER_FAILED' });
    expect(error.message).toMatch(/^Model m-1 of test\.chat .*"no idea"/);
  });

  it('that asks for an approval of its own tool is refused', async () => {
    const asked: LanguageModelV3StreamPart = { type: 'tool-approval-request', approvalId: 'a', toolCallId: 'c' };
    const provider = new AISDKProvider({ model: modelOf([asked, finish]) });
    const error = await codedError(lastValueFrom(provider.stream({ messages })));
    expect(error.message).toMatch(/asks for the approval of a tool that runs at the vendor/);
  });

  it('says its warnings', async () => {
    const warnings: string[] = [];
    const start: LanguageModelV3StreamPart = {
      type: 'stream-start',
      warnings: [
        { type: 'unsupported', feature: 'temperature', details: 'too hot' },
        { type: 'other', message: 'Something else.' },
      ],
    };
    const provider = new AISDKProvider({
      model: modelOf([start, finish]),
      onWarning: (sentence) => warnings.push(sentence),
    });
    await lastValueFrom(provider.stream({ messages }));
    expect(warnings).toEqual(['temperature: not supported (too hot)', 'Something else.']);
  });

  it('another model without modelFor is refused', async () => {
    const error = await codedError(new AISDKProvider({ model: modelOf([]) }).call({ messages, model: 'm-2' }));
    expect(error.message).toMatch(/asks for model m-2, .*option modelFor/);
  });

  it('a message that has no form there is INVALID_INPUT', async () => {
    const provider = new AISDKProvider({ model: modelOf([finish]) });
    const file = { type: 'file' as const, file: { file_id: 'file-123' } };
    const error = await codedError(provider.call({ messages: [{ role: 'user', content: [file] }] }));
    expect(error).toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringMatching(/give its content as file_data/),
    });
  });
});

describe('the trace context', () => {
  afterEach(() => propagation.disable());

  it('goes with the request, unless it is told not to', async () => {
    propagation.setGlobalPropagator(new W3CTraceContextPropagator());
    const server = await startRawServer();
    const spanContext = { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331', traceFlags: 1 };
    const traceContext = trace.setSpanContext(ROOT_CONTEXT, spanContext);
    expect(context.active()).toBe(ROOT_CONTEXT);
    const sent: unknown[] = [];
    server.answer((exchange) => {
      sent.push(exchange.headers['traceparent']);
      sendStream(exchange, anthropic.text('ok'));
    });
    for (const propagateTrace of [true, false]) {
      const provider = await createProvider(anthropic.model, { apiKey: 'k', baseUrl: server.baseUrl, propagateTrace });
      await lastValueFrom(provider.stream({ messages, traceContext }));
    }
    expect(sent).toEqual(['00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', undefined]);
    await server.close();
  });
});
