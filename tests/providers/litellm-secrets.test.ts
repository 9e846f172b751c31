import { inspect } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { apiKey, params, providerBench, ways } from './provider-bench.ts';
import { codedError } from './provider-error.ts';
import { delta, type Exchange, event, sendJson, sendStream } from './raw-server.ts';

const bench = providerBench();

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
    bench.server.answer(answer);
    for (const [, ask] of ways) {
      const error = await codedError(ask(bench.provider({ headers })));
      const shown = [
        inspect(error, { depth: 20, showHidden: true }),
        String(error.stack),
        JSON.stringify(error),
      ].join();
      for (const secret of secrets) expect(shown).not.toContain(secret);
    }
  });

  it('of the vendor behind a proxy, which nobody here was given, is not in an error that quotes it', async () => {
    const upstream = 'sk-ant-api03-0123456789abcdef';
    bench.server.answer((exchange) =>
      sendJson(exchange, { error: { message: `Incorrect API key provided: ${upstream}` } }, 401),
    );
    const error = await codedError(bench.provider().call(params));
    expect(error.message).toContain('Incorrect API key provided');
    expect(inspect(error, { depth: 20, showHidden: true })).not.toContain('0123456789abcdef');
  });

  it('is not in the error of a fetch that shows it', async () => {
    const own: typeof fetch = async (_, init) => {
      throw new Error(`No way with ${new Headers(init?.headers).get('x-gateway-token')} ${apiKey}`);
    };
    const error = await codedError(bench.provider({ headers, fetch: own }).call(params));
    expect(error.message).toContain('"No way with [redacted] [redacted]"');
    const shown = inspect(error, { depth: 20, showHidden: true });
    for (const secret of secrets) expect(shown).not.toContain(secret);
  });

  it('is not in what a provider shows of itself', () => {
    const shown =
      inspect(bench.provider({ headers }), { depth: 20, showHidden: true }) +
      JSON.stringify(bench.provider({ headers }));
    for (const secret of secrets) expect(shown).not.toContain(secret);
  });
});
