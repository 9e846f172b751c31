import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

/** What a request is answered with in place of what the server would say. `undefined`: as it would. */
export type Oddity = (request: HttpRequest, response: ServerResponse) => boolean | undefined;

export interface HttpRequest {
  readonly httpMethod: string;
  readonly method: string | undefined;
  readonly id: unknown;
  /** Of an answer of the client: one of the two. */
  readonly result: unknown;
  readonly error: unknown;
  readonly headers: IncomingMessage['headers'];
}

export interface TestHttpServer {
  readonly url: string;
  readonly requests: readonly HttpRequest[];
  /** Answers instead of the server from now on. */
  odd(oddity: Oddity | undefined): void;
  close(): Promise<void>;
}

/** An MCP server by hand over streamable HTTP, with one tool, `echo`, and no stream of its own. */
export async function httpServer(): Promise<TestHttpServer> {
  const requests: HttpRequest[] = [];
  let oddity: Oddity | undefined;
  let sessions = 0;
  const server: Server = createServer((incoming, response) => {
    void answer(incoming, response);
  });
  const answer = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = await text(incoming);
    const message: {
      method?: string;
      id?: unknown;
      result?: unknown;
      error?: unknown;
      params?: { protocolVersion?: string };
    } = body === '' ? {} : JSON.parse(body);
    const { method, id, result, error } = message;
    const request = { httpMethod: incoming.method ?? '', method, id, result, error, headers: incoming.headers };
    requests.push(request);
    if (oddity?.(request, response)) return;
    if (incoming.method !== 'POST') return void response.writeHead(405).end();
    if (id === undefined) return void response.writeHead(202).end();
    if (method === 'initialize') response.setHeader('mcp-session-id', `session-${++sessions}`);
    response.setHeader('content-type', 'text/event-stream');
    response.end(`data: ${JSON.stringify({ jsonrpc: '2.0', id, result: resultOf(method, message.params) })}\n\n`);
  };
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    requests,
    odd: (next) => {
      oddity = next;
    },
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

function resultOf(method: string | undefined, params: { protocolVersion?: string } | undefined): object {
  if (method === 'initialize') {
    const { protocolVersion } = params ?? {};
    return { protocolVersion, serverInfo: { name: 'http', version: '1' }, capabilities: { tools: {} } };
  }
  if (method === 'tools/list')
    return { tools: [{ name: 'echo', inputSchema: { type: 'object', properties: { text: { type: 'string' } } } }] };
  return method === 'tools/call' ? { content: [{ type: 'text', text: 'echoed' }] } : {};
}
