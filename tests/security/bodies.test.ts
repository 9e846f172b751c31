import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { AgentLoopError, type LLMProvider } from 'millrace';
import { bearerAuth, remoteAgent } from 'millrace/a2a';
import { createProvider } from 'millrace/ai-sdk';
import { BodyCounter } from 'millrace/internals';
import { LiteLLMProvider } from 'millrace/litellm';
import { type McpTools, mcpTools } from 'millrace/mcp';
import { lastValueFrom } from 'rxjs';
import { toolCall, toolContext } from '../tools/tool-context.ts';

const megabyte = 1024 * 1024;
const filler = 'x'.repeat(65_536);
/** An event of both wires of OpenAI. */
const delta = `data: ${JSON.stringify({
  ...{ type: 'response.output_text.delta', item_id: 'm', delta: '' },
  choices: [{ index: 0, delta: { content: 'x'.repeat(4_000) } }],
})}\n\n`;

/** How the server of these tests never ends: its content type, what it begins with, and what it says again and again. */
const endings = {
  body: ['text/event-stream', '', delta.repeat(16)],
  line: ['text/event-stream', 'data: ', filler],
  json: ['application/json', '{"a":"', filler],
} as const;
type Ending = keyof typeof endings;

async function neverEnd(response: ServerResponse, ending: Ending): Promise<void> {
  const [type, begin, more] = endings[ending];
  response.writeHead(200, { 'content-type': type }).write(begin);
  while (!response.destroyed) {
    await new Promise((resolve) => response.write(more, resolve));
  }
}

/** An MCP server whose handshake is good; how its one tool answers is the tool's name. */
async function answerMcp(request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (request.method !== 'POST') return void response.writeHead(405).end();
  const { id, method, params } = JSON.parse(await text(request));
  if (id === undefined) return void response.writeHead(202).end();
  if (method === 'tools/call') return neverEnd(response, params.name);
  const result =
    method === 'initialize'
      ? { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: { name: 's', version: '1' } }
      : { tools: ['line', 'json'].map((name) => ({ name, inputSchema: { type: 'object' } })) };
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ jsonrpc: '2.0', id, result }));
}

const server = createServer((request, response) => {
  const [, kind = '', ending = ''] = (request.url ?? '').split('/');
  if (kind === 'mcp') void answerMcp(request, response);
  else void neverEnd(response, ending === 'body' || ending === 'line' ? ending : 'json');
});
let origin = '';
const tools: McpTools[] = [];

beforeAll(async () => {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const address = server.address();
  if (typeof address === 'object') origin = `http://127.0.0.1:${address?.port}`;
});
afterEach(() => Promise.all(tools.splice(0).map((each) => each.close())));
afterAll(async () => {
  server.closeAllConnections();
  await once(server.close(), 'close');
});

/** What it fails with, and that the memory of the process grew by less than 200 MB meanwhile. */
async function refused(run: () => Promise<unknown>): Promise<AgentLoopError> {
  const base = process.memoryUsage().rss;
  let peak = base;
  const watch = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage().rss);
  }, 5);
  const thrown: unknown = await run().then(
    () => undefined,
    (error: unknown) => error,
  );
  clearInterval(watch);
  expect((peak - base) / megabyte).toBeLessThan(200);
  if (!AgentLoopError.isInstance(thrown)) throw new Error(`not refused with a coded error: ${String(thrown)}`);
  return thrown;
}

const messages = [{ role: 'user', content: 'Go on.' }] as const;

const ofBody = /sent more than maxBodyBytes \(33554432 bytes\): raise it/;
const ofEvent = /sent more than maxEventBytes \(4194304 bytes\): raise it/;

function streamed(provider: LLMProvider): Promise<unknown> {
  if (!provider.stream) throw new Error('it does not stream');
  return lastValueFrom(provider.stream({ messages }));
}

describe('an answer that never ends', () => {
  const litellm = (path: string) => new LiteLLMProvider({ baseUrl: `${origin}/${path}`, model: 'm' });
  const sdk = (path: string) => createProvider('openai:m', { baseUrl: `${origin}/${path}`, apiKey: 'k' });

  it.each<readonly [string, () => Promise<unknown>, RegExp]>([
    ['LiteLLMProvider, a stream', () => streamed(litellm('m/body')), ofBody],
    ['LiteLLMProvider, a line', () => streamed(litellm('m/line')), ofEvent],
    ['LiteLLMProvider, JSON', () => litellm('m/json').call({ messages }), ofBody],
    ['a model of the AI SDK, a stream', async () => streamed(await sdk('m/body')), /sent more than max\w+ \(33554432/],
    ['a model of the AI SDK, a line', async () => streamed(await sdk('m/line')), ofEvent],
    ['a model of the AI SDK, JSON', async () => (await sdk('m/json')).call({ messages }), ofBody],
    ['an agent card', () => remoteAgent({ url: `${origin}/a2a/json` }), ofBody],
  ])('H-12 refuses it, with little memory: %s', async (_, run, message) => {
    expect(await refused(run)).toMatchObject({ code: 'PROVIDER_TOO_LARGE', message: expect.stringMatching(message) });
  });

  it('H-12 refuses keys of an issuer that never end', async () => {
    const auth = bearerAuth({ issuer: 'i', audience: 'a', jwksUrl: `${origin}/jwks/json` });
    const token = `${Buffer.from('{"alg":"RS256"}').toString('base64url')}.e30.c2ln`;
    const request = { headers: { authorization: `Bearer ${token}` } };
    const error = await refused(async () => auth.authenticate(request));
    expect(error).toMatchObject({ code: 'PROVIDER_TOO_LARGE', message: expect.stringContaining('1048576 bytes') });
  });

  it.each<readonly [Ending, RegExp]>([
    ['line', ofEvent],
    ['json', ofBody],
  ])('H-12 refuses it from an MCP server over HTTP: %s', async (name, message) => {
    const mcp = mcpTools({ servers: { s: { url: `${origin}/mcp` } } });
    tools.push(mcp);
    await mcp.getTools(toolContext());
    const error = await refused(async () => mcp.executeTool(toolCall(`s__${name}`, {}), toolContext()));
    expect(error).toMatchObject({ code: 'TOOL_TOO_LARGE', message: expect.stringMatching(message) });
  });

  it.each<readonly [Ending, RegExp]>([
    ['line', ofEvent],
    ['json', ofBody],
  ])('H-12 refuses it in the handshake of an MCP server: %s', async (name, message) => {
    const mcp = mcpTools({ servers: { s: { url: `${origin}/m/${name}`, required: true } } });
    tools.push(mcp);
    expect((await refused(async () => mcp.getTools(toolContext()))).message).toMatch(message);
  });

  it('H-12 refuses a line of an MCP server that is a process', async () => {
    const endless = `const more = () => { while (process.stdout.write('x'.repeat(65536))); process.stdout.once('drain', more); }; more();`;
    const mcp = mcpTools({ servers: { s: { command: process.execPath, args: ['-e', endless], required: true } } });
    tools.push(mcp);
    expect((await refused(async () => mcp.getTools(toolContext()))).message).toMatch(
      /sent more than maxEventBytes \(4194304 bytes\) in one line/,
    );
  });
});

describe('the count of an event', () => {
  const limits = { maxBodyBytes: 1_000_000, maxEventBytes: 20 };
  const counted = (pieces: readonly string[]) => () => {
    const counter = new BodyCounter(limits, 'text/event-stream', (what) => new Error(what));
    for (const piece of pieces) counter.add(Buffer.from(piece));
  };
  const event = 'data: 12345678';

  it.each(['\n', '\r\n', '\r'])('H-12 begins anew with each blank line, however the stream is cut: %j', (end) => {
    const stream = `${event}${end}${end}`.repeat(10);
    for (let size = 1; size <= 20; size++) {
      const pieces = Array.from({ length: Math.ceil(stream.length / size) }, (_, at) =>
        stream.slice(at * size, (at + 1) * size),
      );
      expect(counted(pieces)).not.toThrow();
    }
    expect(counted([event, end, event, end, event])).toThrow(/maxEventBytes \(20 bytes\)/);
  });
});
