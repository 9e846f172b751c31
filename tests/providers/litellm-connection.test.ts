import { describe, expect, it } from '@jest/globals';
import type { LLMChunk } from 'millrace';
import { lastValueFrom, toArray } from 'rxjs';
import { params, providerBench, ways } from './provider-bench.ts';
import { codedError } from './provider-error.ts';
import { beginStream, delta, type Exchange, sendStream, startRawServer } from './raw-server.ts';

const bench = providerBench();

describe('a connection that fails', () => {
  it.each(ways)('%s: a refused one is PROVIDER_UNREACHABLE', async (_, ask) => {
    const gone = await startRawServer();
    await gone.close();
    const error = await codedError(ask(bench.provider({ baseUrl: gone.baseUrl })));
    expect(error).toMatchObject({ code: 'PROVIDER_UNREACHABLE', retryable: true });
    expect(error.message).toBe(
      `The model server at ${gone.baseUrl} (model gpt-x) refuses the connection: start it, or set baseUrl to where it listens.`,
    );
    expect(error.cause).toMatchObject({ code: 'ECONNREFUSED' });
  });

  it.each(ways)('%s: an unknown host is PROVIDER_UNREACHABLE', async (_, ask) => {
    const error = await codedError(ask(bench.provider({ baseUrl: 'http://no-such-host.invalid/v1' })));
    expect(error).toMatchObject({ code: 'PROVIDER_UNREACHABLE', retryable: true });
    expect(error.message).toMatch(/no-such-host\.invalid\/v1.*host name/);
  });

  it('closed before the headers is PROVIDER_STREAM_CLOSED', async () => {
    const error = await bench.failure(({ socket }) => socket.destroy());
    expect(error).toMatchObject({ code: 'PROVIDER_STREAM_CLOSED', retryable: true });
  });

  it.each([
    ['closed', ({ socket }: Exchange) => socket.destroy()],
    ['reset', ({ socket }: Exchange) => socket.resetAndDestroy()],
    ['ended in good order', ({ response }: Exchange) => response.end()],
    ['ended within an event', ({ response }: Exchange) => response.end(delta({ content: 'cut' }).slice(0, 40))],
  ])(
    'S1-45 %s in mid-stream without a finish reason is PROVIDER_STREAM_CLOSED, after the text before it',
    async (_, close) => {
      const chunks: LLMChunk[] = [];
      const ended = new Promise((resolve, reject) => {
        bench
          .provider()
          .stream(params)
          .subscribe({ next: (chunk) => chunks.push(chunk), complete: () => resolve('complete'), error: reject });
      });
      const exchange = await bench.server.next();
      beginStream(exchange);
      exchange.response.write(delta({ content: 'so far' }), () => close(exchange));
      expect(await codedError(ended)).toMatchObject({ code: 'PROVIDER_STREAM_CLOSED', retryable: true });
      expect(chunks).toEqual([{ type: 'text', text: 'so far' }]);
    },
  );

  it('an empty stream is PROVIDER_STREAM_CLOSED', async () => {
    bench.server.answer((exchange) => sendStream(exchange, ''));
    expect((await codedError(lastValueFrom(bench.provider().stream(params)))).code).toBe('PROVIDER_STREAM_CLOSED');
  });

  it('cut off inside a body that is not streamed is PROVIDER_STREAM_CLOSED', async () => {
    const pending = bench.provider().call(params);
    const { response, socket } = await bench.server.next();
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' });
    response.write('{"choices":', () => socket.destroy());
    expect(await codedError(pending)).toMatchObject({ code: 'PROVIDER_STREAM_CLOSED', retryable: true });
  });

  it('closed after the finish reason is the end of a good answer', async () => {
    const pending = lastValueFrom(bench.provider().stream(params).pipe(toArray()));
    const exchange = await bench.server.next();
    beginStream(exchange);
    exchange.response.write(delta({ content: 'all' }, 'stop'), () => exchange.socket.destroy());
    expect(await pending).toMatchObject([
      { type: 'text', text: 'all' },
      { type: 'done', response: { finishReason: 'stop' } },
    ]);
  });

  it('that cannot be made is PROVIDER_FAILED with the reason', async () => {
    const error = await codedError(bench.provider({ baseUrl: 'http://127.0.0.1:1/v1' }).call(params));
    expect(error).toMatchObject({ code: 'PROVIDER_FAILED', retryable: false });
    expect(error.message).toContain('"bad port"');
  });
});
