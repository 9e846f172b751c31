import { getEventListeners } from 'node:events';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { AgentLoopError } from 'millrace';
import { LiteLLMProvider } from 'millrace/litellm';
import { type FakeClock, fakeClock } from 'millrace/testing';
import { lastValueFrom, take, toArray } from 'rxjs';
import { codedError } from './provider-error.ts';
import {
  beginStream,
  completion,
  delta,
  type RawServer,
  sendJson,
  sendStream,
  startRawServer,
  textStream,
} from './raw-server.ts';

const messages = [{ role: 'user' as const, content: 'Hi' }];

let server: RawServer;
let clock: FakeClock;
let provider: LiteLLMProvider;
let controller: AbortController;

beforeEach(async () => {
  server = await startRawServer();
  clock = fakeClock();
  provider = new LiteLLMProvider({ baseUrl: server.baseUrl, model: 'gpt-x', clock });
  controller = new AbortController();
});

afterEach(async () => {
  expect(clock.pending).toBe(0);
  expect(getEventListeners(controller.signal, 'abort')).toEqual([]);
  await server.close();
});

const byCall = (signal: AbortSignal): Promise<unknown> => provider.call({ messages, signal });
const byStream = (signal: AbortSignal): Promise<unknown> => lastValueFrom(provider.stream({ messages, signal }));
const ways = [
  ['call', byCall],
  ['stream', byStream],
] as const;

describe('unsubscribing', () => {
  it('S4-38 in mid-stream closes the connection, and nothing comes any more', async () => {
    const notifications: unknown[] = [];
    let first: () => void = () => {};
    const firstChunk = new Promise<void>((resolve) => {
      first = resolve;
    });
    const subscription = provider.stream({ messages }).subscribe({
      next: (chunk) => {
        notifications.push(chunk);
        first();
      },
      error: (error) => notifications.push(error),
      complete: () => notifications.push('complete'),
    });
    const exchange = await server.next();
    beginStream(exchange);
    exchange.response.write(delta({ content: 'a' }));
    await firstChunk;
    subscription.unsubscribe();
    await exchange.gone;
    expect(notifications).toEqual([{ type: 'text', text: 'a' }]);
  });

  it('S4-38 before the headers closes the connection', async () => {
    const subscription = provider.stream({ messages }).subscribe();
    const { gone } = await server.next();
    subscription.unsubscribe();
    await gone;
  });

  it('in the tick of subscribing sends no request', async () => {
    provider.stream({ messages }).subscribe().unsubscribe();
    server.answer((exchange) => sendStream(exchange, textStream('a')));
    await lastValueFrom(provider.stream({ messages }));
    expect(server.requests).toBe(1);
  });

  it('from within a chunk stops the rest of its piece', async () => {
    const chunks = lastValueFrom(provider.stream({ messages }).pipe(take(1), toArray()));
    const exchange = await server.next();
    beginStream(exchange);
    exchange.response.write(delta({ content: 'a' }) + delta({ content: 'b' }) + delta({ content: 'c' }));
    expect(await chunks).toEqual([{ type: 'text', text: 'a' }]);
    await exchange.gone;
  });

  it('leaves the subscriptions of others alone', async () => {
    const source = provider.stream({ messages });
    const first = source.subscribe();
    const one = await server.next();
    const second = lastValueFrom(source);
    const two = await server.next();
    first.unsubscribe();
    await one.gone;
    sendStream(two, textStream('b'));
    expect(await second).toMatchObject({ type: 'done', response: { message: { content: 'b' } } });
  });
});

describe('the signal', () => {
  it.each(ways)(
    '%s: S2-31 aborted before the headers ends it with CANCELED and closes the connection',
    async (_, ask) => {
      const pending = codedError(ask(controller.signal));
      const { gone } = await server.next();
      controller.abort(new Error('enough'));
      const error = await pending;
      expect(error).toMatchObject({ code: 'CANCELED', retryable: false });
      expect(error.cause).toEqual(new Error('enough'));
      await gone;
    },
  );

  it.each(ways)('%s: S4-38 aborted inside the body ends it with CANCELED and closes the connection', async (_, ask) => {
    const pending = codedError(ask(controller.signal));
    const exchange = await server.next();
    beginStream(exchange);
    exchange.response.write(delta({ content: 'a' }));
    await clock.whenPending(2);
    controller.abort();
    expect((await pending).code).toBe('CANCELED');
    await exchange.gone;
  });

  it.each(ways)('%s: aborted inside the body of an error ends it with CANCELED', async (_, ask) => {
    const pending = codedError(ask(controller.signal));
    const exchange = await server.next();
    exchange.response.writeHead(500).write('so');
    await clock.whenPending(2);
    controller.abort();
    expect((await pending).code).toBe('CANCELED');
    await exchange.gone;
  });

  it.each(ways)('%s: aborted already, nothing is sent', async (_, ask) => {
    controller.abort();
    const fetched: unknown[] = [];
    const own: typeof fetch = (url) => {
      fetched.push(url);
      return Promise.reject(new Error('It was asked.'));
    };
    provider = new LiteLLMProvider({ baseUrl: server.baseUrl, model: 'gpt-x', clock, fetch: own });
    expect((await codedError(ask(controller.signal))).code).toBe('CANCELED');
    expect(fetched).toEqual([]);
  });

  it.each(ways)('%s: a coded reason is the error', async (_, ask) => {
    const reason = new AgentLoopError('SHUTDOWN', 'The process ends.');
    const pending = codedError(ask(controller.signal));
    await server.next();
    controller.abort(reason);
    expect(await pending).toBe(reason);
  });

  it.each([
    ['CANCELED', undefined],
    ['PROVIDER_TIMEOUT', new AgentLoopError('PROVIDER_TIMEOUT', 'The policy had enough.', { retryable: true })],
  ])('aborted between the finish reason and the end is %s, not a good answer', async (code, reason) => {
    const pending = new Promise((resolve, reject) => {
      const next = (): void => controller.abort(reason);
      provider
        .stream({ messages, signal: controller.signal })
        .subscribe({ next, complete: () => resolve('complete'), error: reject });
    });
    const exchange = await server.next();
    beginStream(exchange);
    exchange.response.write(delta({ content: 'a' }, 'stop'));
    expect((await codedError(pending)).code).toBe(code);
    await exchange.gone;
  });

  it('keeps no listener after a good end and after a failure', async () => {
    for (const [, ask] of ways) {
      server.answer((exchange) => sendJson(exchange, completion({ content: 'a' })));
      await ask(controller.signal);
      expect(getEventListeners(controller.signal, 'abort')).toEqual([]);
      server.answer((exchange) => sendJson(exchange, {}, 500));
      await codedError(ask(controller.signal));
      expect(getEventListeners(controller.signal, 'abort')).toEqual([]);
    }
  });

  it('aborted after the end changes nothing', async () => {
    server.answer((exchange) => sendJson(exchange, completion({ content: 'a' })));
    const response = await provider.call({ messages, signal: controller.signal });
    controller.abort();
    expect(response.message.content).toBe('a');
  });
});
