import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import { gunzipSync } from 'node:zlib';
import { AgentLoopError } from 'millrace';
import { testLimitMs } from './eventually.ts';
import { decodeTraceRequest, type ReceivedSpan } from './otlp-decode.ts';

export interface OtlpReceiverOptions {
  /**
   * What the first requests are answered with, in order: a status (a refusal says `retry-after: 0`), or nothing ever. All others
   * get 200. Default none.
   */
  readonly answers?: readonly (number | 'never')[];
}

export interface ReceivedRequest {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** How it was answered. Spans of a request that was refused are not kept. */
  readonly answer: number | 'never';
}

/** A collector for tests: it listens on loopback, decodes what a real exporter sends, and keeps it. */
export interface OtlpReceiver {
  /** The base address, for `startTracing({ endpoint })` or `OTEL_EXPORTER_OTLP_ENDPOINT`. */
  readonly url: string;
  /** All that has arrived, in order; grows until `close`. What a test takes out is forgotten. */
  readonly spans: ReceivedSpan[];
  readonly requests: readonly ReceivedRequest[];
  /** Resolves as soon as the condition holds. Rejects with `UNAVAILABLE`, naming what is there, after `withinMs`: default the time limit of a test. */
  waitUntil(condition: (receiver: OtlpReceiver) => boolean, withinMs?: number): Promise<void>;
  /** Ends open connections too. */
  close(): Promise<void>;
}

const accepted = { 'content-type': 'application/x-protobuf' };
const refused = { 'retry-after': '0' };

/** Starts a receiver for OTLP over HTTP in protobuf, plain or gzip, on a free port. */
export async function startOtlpReceiver(options: OtlpReceiverOptions = {}): Promise<OtlpReceiver> {
  const answers = [...(options.answers ?? [])];
  const spans: ReceivedSpan[] = [];
  const requests: ReceivedRequest[] = [];
  const waiting = new Set<() => void>();

  const receive = async (request: IncomingMessage, response: ServerResponse) => {
    const body = await bodyOf(request);
    const answer = answers.shift() ?? (request.url === '/v1/traces' && request.method === 'POST' ? 200 : 404);
    if (answer === 200) spans.push(...decodeTraceRequest(body));
    requests.push({ path: request.url ?? '', headers: request.headers, answer });
    if (answer !== 'never') response.writeHead(answer, answer === 200 ? accepted : refused).end();
    for (const check of waiting) check();
  };
  const server = createServer((request, response) => {
    receive(request, response).catch(() => response.writeHead(400).end());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;

  const receiver: OtlpReceiver = {
    url: `http://127.0.0.1:${port}`,
    spans,
    requests,
    waitUntil: (condition, withinMs = testLimitMs) =>
      new Promise((resolve, reject) => {
        const check = () => {
          if (!condition(receiver)) return;
          leave();
          resolve();
        };
        const timer = setTimeout(() => {
          leave();
          reject(notThere(receiver, withinMs));
        }, withinMs);
        const leave = () => {
          waiting.delete(check);
          clearTimeout(timer);
        };
        waiting.add(check);
        check();
      }),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  return receiver;
}

async function bodyOf(request: IncomingMessage): Promise<Uint8Array> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  return request.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body;
}

function notThere({ requests, spans }: OtlpReceiver, withinMs: number): AgentLoopError {
  const names = spans.slice(0, 20).map((span) => span.name);
  const seen = `${requests.length} requests with ${spans.length} spans: ${names.join(', ')}`;
  return new AgentLoopError(
    'UNAVAILABLE',
    `What the test waits for did not arrive in ${withinMs} ms. There are ${seen}.`,
  );
}
