import { once } from 'node:events';
import { type ClientHttp2Session, type ClientHttp2Stream, connect as connectHttp2 } from 'node:http2';
import { connect, type Socket } from 'node:net';
import { A2AService } from '@a2a-js/sdk/server/grpc';
import { describe, expect, it } from '@jest/globals';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { apiKeyAuth } from 'millrace/a2a';
import { mcpServer } from 'millrace/mcp';
import { key, serverBench } from '../a2a/server/test-server.ts';

const on = serverBench();
const requestTimeoutMs = 300;

/** Sends the beginning of a request, and gives what came until the server closed the connection. */
async function answerTo(url: string, beginning: string): Promise<string> {
  const { hostname, port } = new URL(url);
  const socket: Socket = connect(Number(port), hostname);
  on.after(() => socket.destroy());
  let answer = '';
  socket.on('data', (data) => {
    answer += data;
  });
  socket.write(beginning);
  await once(socket, 'close');
  return answer;
}

const head = (path: string, host: string, length: number) =>
  `POST ${path} HTTP/1.1\r\nhost: ${host}\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n` +
  'accept: application/json, text/event-stream\r\n\r\n';

describe('a request of which the rest never comes', () => {
  it('is not waited for by an A2A server for longer than requestTimeoutMs', async () => {
    const { url } = await on.serve({ agent: on.echo([]), requestTimeoutMs });
    const { host } = new URL(url);
    const beginnings = ['POST /a2a/jsonrpc HTTP/1.1\r\nhost', `${head('/a2a/jsonrpc', host, 10_000)}{"jsonrpc"`];
    for (const beginning of beginnings) expect(await answerTo(url, beginning)).toMatch(/^HTTP\/1.1 408 /);
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
  });

  it('gives the place of a client of an MCP server back after requestTimeoutMs', async () => {
    const server = mcpServer({ agent: on.echo([]) });
    on.after(() => server.close());
    const { url } = await server.listen({ maxSessions: 1, requestTimeoutMs });
    const { host, pathname } = new URL(url);
    expect(await answerTo(url, `${head(pathname, host, 10_000)}{"jsonrpc"`)).toMatch(/^HTTP\/1.1 4/);
    const client = new Client({ name: 'next', version: '1' });
    on.after(() => client.close());
    await client.connect(new StreamableHTTPClientTransport(new URL(url)));
    expect((await client.listTools()).tools).toHaveLength(1);
  });
});

describe('calls over gRPC that are refused before their client has sent all of them', () => {
  const { path } = A2AService.sendMessage;

  /** A call without a key that never ends on the side of the client, and its answer. */
  function openCall(http2: ClientHttp2Session): {
    readonly stream: ClientHttp2Stream;
    readonly answered: Promise<unknown>;
  } {
    const stream = http2.request({ ':method': 'POST', ':path': path, 'content-type': 'application/grpc' });
    stream.on('error', () => {});
    stream.resume();
    stream.write(Buffer.from([0, 0, 0, 1, 0]));
    return { stream, answered: once(stream, 'end') };
  }

  it('cannot be piled up on one connection, which serves others again once they are closed', async () => {
    const auth = apiKeyAuth({ keys: [{ id: 'alice', key }] });
    const limits = { maxStreams: 2, maxTurns: 3, rateLimit: null };
    const { grpcAddress } = await on.serve({ agent: on.echo([]), auth, grpc: { port: 0 }, ...limits });
    const http2 = connectHttp2(`http://${grpcAddress}`);
    on.after(() => http2.destroy());
    const [settings] = await once(http2, 'remoteSettings');
    expect(settings.maxConcurrentStreams).toBe(105);
    const calls = Array.from({ length: 105 }, () => openCall(http2));
    await Promise.all(calls.map(({ answered }) => answered));
    const next = openCall(http2);
    let isAnswered = false;
    void next.answered.then(() => {
      isAnswered = true;
    });
    // The server has handled what came before a ping that it answers.
    await new Promise((resolve) => http2.ping(resolve));
    expect(isAnswered).toBe(false);
    calls[0]?.stream.close();
    await next.answered;
  });
});
