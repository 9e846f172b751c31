import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

/** One request, and everything that its answer is made of: nothing is sent unless the test sends it. */
export interface Exchange {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** As sent, names and values by turns. */
  readonly rawHeaders: readonly string[];
  /** The body, parsed. */
  readonly body: Record<string, unknown>;
  readonly response: ServerResponse;
  readonly socket: Socket;
  /** Resolves when the connection is gone. */
  readonly gone: Promise<unknown>;
}

export interface RawServer {
  readonly port: number;
  readonly baseUrl: string;
  /** Connections accepted so far. */
  readonly connections: number;
  /** Requests received so far. */
  readonly requests: number;
  /** The next request, whole, in the order of arrival. */
  next(): Promise<Exchange>;
  /** Answers each request from now on with this. */
  answer(handler: (exchange: Exchange) => void): void;
  close(): Promise<void>;
}

/** When connections are gone; one serves many requests. */
const goneSockets = new WeakMap<Socket, Promise<unknown>>();

function goneOf(socket: Socket): Promise<unknown> {
  const known = goneSockets.get(socket);
  if (known) return known;
  const gone = socket.destroyed ? Promise.resolve() : once(socket, 'close');
  goneSockets.set(socket, gone);
  return gone;
}

/** An HTTP server on a free port of the loopback. */
export async function startRawServer(): Promise<RawServer> {
  const arrived: Exchange[] = [];
  const waiting: ((exchange: Exchange) => void)[] = [];
  let handler: ((exchange: Exchange) => void) | undefined;
  let connections = 0;
  let requests = 0;

  const server = createServer((request, response) => {
    requests += 1;
    const pieces: Buffer[] = [];
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => {
      const exchange: Exchange = {
        method: request.method ?? '',
        path: request.url ?? '',
        headers: request.headers,
        rawHeaders: request.rawHeaders,
        body: JSON.parse(Buffer.concat(pieces).toString('utf8')),
        response,
        socket: request.socket,
        gone: goneOf(request.socket),
      };
      const take = handler ?? waiting.shift();
      if (take === undefined) arrived.push(exchange);
      else take(exchange);
    });
  });
  server.on('connection', () => {
    connections += 1;
  });
  // A busy machine may need longer for an answer than a connection may rest.
  server.keepAliveTimeout = 0;
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;

  return {
    port,
    baseUrl: `http://127.0.0.1:${port}/v1`,
    get connections() {
      return connections;
    },
    get requests() {
      return requests;
    },
    next() {
      const exchange = arrived.shift();
      return exchange === undefined ? new Promise((resolve) => waiting.push(resolve)) : Promise.resolve(exchange);
    },
    answer(next) {
      handler = next;
    },
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

/** Begins an event stream. */
export function beginStream({ response }: Exchange): void {
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
  response.flushHeaders();
}

/** One event of a stream. */
export function event(data: unknown): string {
  return `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`;
}

export const done = event('[DONE]');

/** A chunk of a stream with this delta. */
export function delta(content: object, finishReason: string | null = null): string {
  return event({
    id: 'cmpl-1',
    object: 'chat.completion.chunk',
    model: 'm-1',
    choices: [{ index: 0, delta: content, finish_reason: finishReason }],
  });
}

/** A whole stream that says `text`. */
export function textStream(text: string): string {
  return `${delta({ role: 'assistant', content: '' })}${delta({ content: text })}${delta({}, 'stop')}${done}`;
}

export function sendStream(exchange: Exchange, stream: string): void {
  beginStream(exchange);
  exchange.response.end(stream);
}

export function sendJson(
  { response }: Exchange,
  body: unknown,
  status = 200,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify(body));
}

/** The body of an answer that was not streamed. */
export function completion(message: object, finishReason = 'stop', usage?: object): object {
  return {
    id: 'cmpl-1',
    object: 'chat.completion',
    model: 'm-1',
    choices: [{ index: 0, message: { role: 'assistant', ...message }, finish_reason: finishReason }],
    ...(usage === undefined ? {} : { usage }),
  };
}

/** A call as a message of OpenAI has it. */
export function wireCall(id: string, name: string, args: string) {
  return { id, type: 'function', function: { name, arguments: args } };
}

/** A part of a call, as a chunk has it. */
export function callDelta(index: number | undefined, parts: { id?: string; name?: string; args?: string }): string {
  const { id, name, args } = parts;
  const called = { ...(name === undefined ? {} : { name }), ...(args === undefined ? {} : { arguments: args }) };
  return delta({
    tool_calls: [{ ...(index === undefined ? {} : { index }), ...(id === undefined ? {} : { id }), function: called }],
  });
}
