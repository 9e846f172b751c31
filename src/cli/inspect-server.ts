import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { bind, unbind } from '../a2a/server/listening.ts';
import type { InspectOptions } from '../inspect/index.ts';
import { hostNameIn, isLoopbackHost } from '../loopback.ts';

/** An inspector that listens on this machine. */
export interface InspectServer {
  /** Where the page is, with the token in its fragment, which no request contains. */
  readonly url: string;
  close(): Promise<void>;
}

const host = '127.0.0.1';
/** 192 bits. */
const tokenBytes = 24;

/**
 * Serves the inspector on 127.0.0.1 to whoever knows the token of this start. A request needs a `Host` that is a name of this machine with the
 * port, so that no page of another site reaches it by a name that it resolves to here. Errors: `UNAVAILABLE` where the port is taken.
 */
export async function serveInspector(
  options: Omit<InspectOptions, 'authorize' | 'basePath'>,
  port: number,
): Promise<InspectServer> {
  const { inspectHandler } = await import('../inspect/index.ts');
  const token = randomBytes(tokenBytes).toString('base64url');
  const wanted = digestOf(`Bearer ${token}`);
  const authorize = ({ headers }: Request) => timingSafeEqual(digestOf(headers.get('authorization') ?? ''), wanted);
  const handler = inspectHandler({ ...options, authorize });
  const server = createServer((request, response) => {
    const at = server.address();
    const bound = typeof at === 'object' && at !== null ? at.port : port;
    if (!isOwnHost(request.headers.host, bound)) {
      response.writeHead(403, { 'content-type': 'text/plain' }).end('The Host of the request is not this server.\n');
      return;
    }
    answer(request, response, handler).catch(() => response.destroy());
  });
  const address = await bind(server, port, host);
  return {
    url: `http://${host}:${address.port}/#token=${token}`,
    async close() {
      const closed = unbind(server);
      server.closeAllConnections();
      await closed;
    },
  };
}

function digestOf(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

function isOwnHost(header: string | undefined, port: number): boolean {
  const name = hostNameIn(header);
  return isLoopbackHost(name) && header === `${name}${port === 80 && !header?.includes(':80') ? '' : `:${port}`}`;
}

type Handler = (request: Request) => Promise<Response>;

/** Answers by the handler; the request is aborted, and the stream of its answer is left, once the client disconnects. */
async function answer(request: IncomingMessage, response: ServerResponse, handler: Handler): Promise<void> {
  const left = new AbortController();
  response.once('close', () => left.abort());
  const { status, headers, body } = await handler(requestOf(request, left.signal));
  response.writeHead(status, Object.fromEntries(headers));
  if (body === null) response.end();
  else await send(body, response, left.signal);
}

/** Writes a stream, as fast as the client reads it. A client that disconnects cancels it, also while nothing comes. */
async function send(body: ReadableStream<Uint8Array>, response: ServerResponse, signal: AbortSignal): Promise<void> {
  const reader = body.getReader();
  signal.addEventListener('abort', () => void reader.cancel().catch(() => {}));
  for (let next = await reader.read(); !next.done && !signal.aborted; next = await reader.read()) {
    if (!response.write(next.value)) await once(response, 'drain', { signal });
  }
  response.end();
}

function requestOf(request: IncomingMessage, signal: AbortSignal): Request {
  const { method = 'GET', url = '/', headers } = request;
  const hasBody = method !== 'GET' && method !== 'HEAD';
  return new Request(new URL(url, `http://${headers.host}`), {
    method,
    signal,
    headers: Object.entries(headers).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, String(value)] as [string, string]],
    ),
    ...(hasBody && { body: bodyOf(request), duplex: 'half' }),
  });
}

/** Pulled: nothing is read before the handler reads it. */
function bodyOf(request: IncomingMessage): ReadableStream<Uint8Array> {
  const chunks: AsyncIterator<Uint8Array> = request[Symbol.asyncIterator]();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const next = await chunks.next();
      if (next.done) controller.close();
      else controller.enqueue(next.value);
    },
    async cancel() {
      await chunks.return?.();
    },
  });
}
