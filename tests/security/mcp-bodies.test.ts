import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { afterEach, describe, expect, it } from '@jest/globals';
import { agent } from 'millrace';
import { type McpServer, mcpServer } from 'millrace/mcp';
import { scriptedLLM } from 'millrace/testing';
import { McpWire } from './mcp-wire.ts';

let server: McpServer;
afterEach(() => server.close());

function clerk(): McpServer {
  server = mcpServer({ agent: agent({ name: 'the_clerk', provider: scriptedLLM([{ text: 'Hello.' }]) }) });
  return server;
}

const nested = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`;
const callOf = (member: string) =>
  `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"the_clerk","arguments":{"message":"Hi.","x":${member}}}}`;
const faults: readonly [string, string, string][] = [
  ['brackets alone', nested(100_000), 'the body nests deeper than 500 levels'],
  ['an argument', callOf(nested(6_000)), 'the body nests deeper than 500 levels'],
  ['many values', callOf(`[${'1,'.repeat(100_000)}1]`), 'the body has more than 20000 values'],
];

async function sent(url: string, options: object, body = ''): Promise<IncomingMessage> {
  const request = httpRequest(url, options);
  request.end(body);
  const [response]: IncomingMessage[] = await once(request, 'response');
  if (!response) throw new Error('no response');
  return response;
}

describe('what a client of an MCP server sends wrong is its fault', () => {
  it.each(faults)('over HTTP, without a session and in one: %s', async (_, body, message) => {
    const { url } = await clerk().listen();
    const headers = { accept: 'application/json, text/event-stream', 'content-type': 'application/json' };
    const wire = await McpWire.open(url);
    const named = { ...headers, 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call' };
    for (const response of [
      await fetch(url, { method: 'POST', headers, body }),
      await fetch(url, { method: 'POST', headers: named, body }),
      await wire.sendText(body),
    ])
      expect([response.status, await response.json()]).toMatchObject([400, { error: { message } }]);
    expect(await (await wire.call(2, 'Hi.')).text()).toContain('Hello.');
  });

  it('another method than its three, or a host with a user', async () => {
    const { url } = await clerk().listen();
    for (const method of ['TRACE', 'PUT', 'OPTIONS']) {
      const { statusCode, headers } = await sent(url, { method });
      expect([method, statusCode, headers.allow]).toEqual([method, 405, 'GET, POST, DELETE']);
    }
    const headers = { host: 'user@localhost', 'content-type': 'application/json' };
    expect((await sent(url, { method: 'POST', headers }, '{}')).statusCode).toBe(403);
  });

  it('a host that is none, where the server can be reached from elsewhere', async () => {
    const key = 'a-key-of-some-length';
    const { url } = await clerk().listen({ host: '0.0.0.0', apiKeys: [key] });
    const at = url.replace('0.0.0.0', '127.0.0.1');
    for (const host of ['user@localhost', 'local host', 'localhost:99999999']) {
      const headers = { host, 'content-type': 'application/json', authorization: `Bearer ${key}` };
      const response = await sent(at, { method: 'POST', headers }, '{}');
      expect([response.statusCode, await text(response)]).toEqual([400, expect.stringContaining('the header host')]);
    }
  });

  it('over stdio, and the next message is answered', async () => {
    const [stdin, stdout] = [new PassThrough(), new PassThrough()];
    const over = clerk().serve({ stdin, stdout });
    const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'x', version: '1' } };
    for (const [, body] of faults) stdin.write(`${body}\n`);
    stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'initialize', params })}\n`);
    const answers: unknown[] = [];
    let rest = '';
    for await (const chunk of stdout) {
      const lines = `${rest}${chunk}`.split('\n');
      rest = lines.pop() ?? '';
      answers.push(...lines.map((line): unknown => JSON.parse(line)));
      if (answers.length === faults.length + 1) break;
    }
    expect(answers).toMatchObject([
      ...faults.map(([, , message]) => ({ id: null, error: { code: -32_600, message } })),
      { id: 7, result: { protocolVersion: '2025-06-18' } },
    ]);
    stdin.end();
    await over;
  });
});
