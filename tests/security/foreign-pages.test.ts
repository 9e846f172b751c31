import { once } from 'node:events';
import { request } from 'node:http';
import { afterEach, describe, expect, it } from '@jest/globals';
import { agent } from 'millrace';
import { apiKeyAuth } from 'millrace/a2a';
import { mcpServer } from 'millrace/mcp';
import { key, serverBench, wireMessage } from '../a2a/server/test-server.ts';
import { readyModel } from './fuzz/a2a-server.ts';

const on = serverBench();
const open: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of open.splice(0)) await close();
});

interface Target {
  readonly url: string;
  readonly method: string;
  readonly body?: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** The status of a request with just these headers: `fetch` does not let a page choose its `Host` and `Origin`. */
async function statusOf(
  { url, method, headers, body }: Target,
  more: Readonly<Record<string, string>>,
): Promise<number> {
  const sent = request(url, { method, headers: { ...headers, ...more } });
  sent.end(body);
  const [response] = await once(sent, 'response');
  response.resume();
  await once(response, 'close');
  return response.statusCode;
}

const json = { 'content-type': 'application/json', 'a2a-version': '1.0' };
const rpc = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params: wireMessage('Hi', 'm') });

const servers: readonly (readonly [string, () => Promise<Target>])[] = [
  ['A2A over JSON-RPC', async () => ({ ...(await a2a('/a2a/jsonrpc')), method: 'POST', headers: json, body: rpc })],
  ['A2A over HTTP+JSON', async () => ({ ...(await a2a('/a2a/rest/tasks')), method: 'GET', headers: json })],
  [
    'A2A over HTTP+JSON, a post that needs no preflight',
    async () => ({
      ...(await a2a('/a2a/rest/tasks/none:cancel')),
      method: 'POST',
      headers: { 'content-type': 'text/plain', 'a2a-version': '1.0' },
    }),
  ],
  ['MCP', async () => ({ url: await mcp(), method: 'GET', headers: { accept: 'text/event-stream' } })],
];

async function a2a(path: string) {
  const { url } = await on.serve({ agent: on.echo([], { provider: readyModel }) });
  return { url: url + path };
}

async function mcp(): Promise<string> {
  const server = mcpServer({ agent: agent({ name: 'clerk', provider: readyModel }) });
  open.push(() => server.close());
  return (await server.listen()).url;
}

describe.each(servers)('%s on the loopback', (_, served) => {
  it('refuses a page whose name leads here (DNS rebinding)', async () => {
    const target = await served();
    for (const host of [
      'evil.example',
      'evil.example:4100',
      'localhost.evil.example',
      '127.0.0.1.evil.example',
      '[::2]',
      'x',
    ])
      expect(await statusOf(target, { host })).toBe(403);
    expect(await statusOf(target, { host: 'localhost:1' })).not.toBe(403);
  });

  it('refuses a page of another site or of another port of this machine, and lets its own in', async () => {
    const target = await served();
    const { port } = new URL(target.url);
    for (const origin of [
      'https://evil.example',
      'null',
      'http://localhost.evil.example',
      'chrome-extension://abc',
      'x',
      'http://localhost:9999',
      'http://127.0.0.1:9999',
      'http://127.0.0.1',
      `http://other.localhost:${port}`,
    ])
      expect([origin, await statusOf(target, { origin })]).toEqual([origin, 403]);
    for (const host of [`127.0.0.1:${port}`, `localhost:${port}`, `[::1]:${port}`, 'localhost:8080', 'localhost'])
      expect([host, await statusOf(target, { host, origin: `http://${host}` })]).not.toEqual([host, 403]);
  });
});

it('a page of the publicUrl of an A2A server is its own, one of another port there is not', async () => {
  const publicUrl = 'https://agents.example.com';
  const { port } = await on.serve({ agent: on.echo([], { provider: readyModel }), publicUrl });
  const target = { url: `http://127.0.0.1:${port}/a2a/jsonrpc`, method: 'POST', headers: json, body: rpc };
  for (const host of ['agents.example.com', `127.0.0.1:${port}`]) {
    expect(await statusOf(target, { host, origin: publicUrl })).toBe(200);
    expect(await statusOf(target, { host, origin: `${publicUrl}:8443` })).toBe(403);
  }
});

it('a body that a page can send without a preflight is no message to an A2A server, also where it has keys', async () => {
  const auth = apiKeyAuth({ keys: [{ id: 'alice', key }] });
  const { url } = await on.serve({ agent: on.echo([], { provider: readyModel }), auth });
  for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data']) {
    const headers = { 'content-type': type, 'a2a-version': '1.0', 'x-api-key': key };
    const answer = await fetch(`${url}/a2a/jsonrpc`, { method: 'POST', headers, body: rpc });
    expect(await answer.json()).toMatchObject({ error: { code: -32005 } });
    const posted = await fetch(`${url}/a2a/rest/message:send`, {
      method: 'POST',
      headers,
      body: JSON.stringify(wireMessage('Hi')),
    });
    expect(posted.status).toBeGreaterThanOrEqual(400);
    expect(posted.status).toBeLessThan(500);
  }
});
