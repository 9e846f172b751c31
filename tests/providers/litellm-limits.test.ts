import { brotliCompressSync, gzipSync } from 'node:zlib';
import { describe, expect, it } from '@jest/globals';
import { lastValueFrom, toArray } from 'rxjs';
import { params, providerBench, ways } from './provider-bench.ts';
import { codedError } from './provider-error.ts';
import { beginStream, completion, delta, done, type Exchange, sendJson } from './raw-server.ts';

const bench = providerBench();

describe('silence', () => {
  it.each(ways)('%s: no headers within timeoutMs is PROVIDER_TIMEOUT, and closes the connection', async (_, ask) => {
    const pending = codedError(ask(bench.provider({ timeoutMs: 900 })));
    const { gone } = await bench.server.next();
    bench.clock.advance(899);
    bench.clock.advance(1);
    const error = await pending;
    expect(error).toMatchObject({ code: 'PROVIDER_TIMEOUT', retryable: true });
    expect(error.message).toContain('timeoutMs (900 ms)');
    await gone;
  });

  it.each(ways)('%s: a body that drips on past timeoutMs is PROVIDER_TIMEOUT', async (_, ask) => {
    const pending = codedError(ask(bench.provider({ timeoutMs: 1_000, chunkTimeoutMs: 400 })));
    const exchange = await bench.server.next();
    beginStream(exchange);
    await bench.clock.whenPending(2);
    for (let drop = 0; drop < 5; drop++) {
      await bench.send(exchange, delta({ content: 'x' }));
      bench.clock.advance(200);
    }
    expect((await pending).message).toContain('timeoutMs (1000 ms)');
    await exchange.gone;
  });

  it.each(ways)(
    'S1-45 %s: nothing after the headers is PROVIDER_TIMEOUT, and closes the connection',
    async (_, ask) => {
      const pending = codedError(ask(bench.provider({ chunkTimeoutMs: 300 })));
      const exchange = await bench.server.next();
      beginStream(exchange);
      await bench.clock.whenPending(2);
      bench.clock.advance(300);
      const error = await pending;
      expect(error).toMatchObject({ code: 'PROVIDER_TIMEOUT', retryable: true });
      expect(error.message).toContain('sent nothing for 300 ms (chunkTimeoutMs)');
      await exchange.gone;
    },
  );

  it('counts from the last byte, which need not be of a token', async () => {
    const pending = codedError(lastValueFrom(bench.provider({ chunkTimeoutMs: 300 }).stream(params)));
    const exchange = await bench.server.next();
    beginStream(exchange);
    await bench.clock.whenPending(2);
    for (let comment = 0; comment < 4; comment++) {
      await bench.send(exchange, ': keep-alive\n\n');
      bench.clock.advance(299);
    }
    bench.clock.advance(1);
    expect((await pending).code).toBe('PROVIDER_TIMEOUT');
  });

  it('also counts in the body of an error', async () => {
    const pending = codedError(bench.provider({ chunkTimeoutMs: 300 }).call(params));
    const { response } = await bench.server.next();
    response.writeHead(500);
    response.flushHeaders();
    await bench.clock.whenPending(2);
    bench.clock.advance(300);
    expect((await pending).code).toBe('PROVIDER_TIMEOUT');
  });

  it('after the finish reason is not waited for longer than 5 s, and does not spoil the answer', async () => {
    const pending = lastValueFrom(bench.provider().stream(params).pipe(toArray()));
    const exchange = await bench.server.next();
    beginStream(exchange);
    await bench.clock.whenPending(2);
    await bench.send(exchange, delta({ content: 'all' }, 'stop'));
    bench.clock.advance(5_000);
    expect(await pending).toMatchObject([{ type: 'text' }, { type: 'done' }]);
    await exchange.gone;
  });

  it('after the finish reason is not waited for longer than chunkTimeoutMs, where that is less', async () => {
    const pending = lastValueFrom(bench.provider({ chunkTimeoutMs: 300 }).stream(params).pipe(toArray()));
    const exchange = await bench.server.next();
    beginStream(exchange);
    await bench.clock.whenPending(2);
    await bench.send(exchange, delta({ content: 'all' }, 'stop'));
    bench.clock.advance(300);
    expect(await pending).toMatchObject([{ type: 'text' }, { type: 'done' }]);
    await exchange.gone;
  });

  it('after [DONE] is not waited for longer than 500 ms', async () => {
    const pending = lastValueFrom(bench.provider().stream(params).pipe(toArray()));
    const exchange = await bench.server.next();
    beginStream(exchange);
    await bench.clock.whenPending(2);
    await bench.send(exchange, delta({ content: 'all' }, 'stop') + done);
    bench.clock.advance(500);
    expect(await pending).toMatchObject([{ type: 'text' }, { type: 'done' }]);
    await exchange.gone;
  });

  it('has no limit where the limits are 0', async () => {
    const pending = lastValueFrom(bench.provider({ timeoutMs: 0, chunkTimeoutMs: 0 }).stream(params));
    const exchange = await bench.server.next();
    beginStream(exchange);
    await bench.send(exchange, delta({ content: 'a' }));
    expect(bench.clock.pending).toBe(0);
    exchange.response.end(delta({}, 'stop') + done);
    expect((await pending).type).toBe('done');
  });
});

describe('a body over maxBodyBytes', () => {
  const big = { content: 'x'.repeat(20_000) };
  const limits = { maxBodyBytes: 10_000 };

  it('S1-45 is PROVIDER_TOO_LARGE, streamed or not, and closes the connection', async () => {
    const exchanges: Exchange[] = [];
    const error = await bench.failure((exchange) => {
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
    const error = await bench.failure(({ response }) => response.writeHead(200, headers).end(packed), limits);
    expect(error.code).toBe('PROVIDER_TOO_LARGE');
  });

  it('also counts in the body of an error', async () => {
    const error = await bench.failure(({ response }) => response.writeHead(500).end('x'.repeat(20_000)), limits);
    expect(error.code).toBe('PROVIDER_TOO_LARGE');
  });

  it('is no error below the limit, also compressed', async () => {
    const headers = { 'content-type': 'application/json', 'content-encoding': 'gzip' };
    bench.server.answer(({ response }) =>
      response.writeHead(200, headers).end(gzipSync(JSON.stringify(completion({ content: 'ok' })))),
    );
    expect((await bench.provider(limits).call(params)).message.content).toBe('ok');
  });
});
