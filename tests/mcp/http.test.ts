import type { ServerResponse } from 'node:http';
import { inspect } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { ToolResult } from 'millrace';
import { messageOf } from 'millrace/internals';
import { type McpHttpOptions, type McpTools, mcpTools } from 'millrace/mcp';
import { scriptedLLM } from 'millrace/testing';
import { eventually } from '../eventually.ts';
import { thrownBy } from '../tools/thrown.ts';
import { toolCall, toolContext } from '../tools/tool-context.ts';
import { httpServer, type TestHttpServer } from './http-server.ts';

let server: TestHttpServer;
let tools: McpTools;
const warnings: unknown[] = [];

beforeEach(async () => {
  server = await httpServer();
  warnings.length = 0;
});

afterEach(async () => {
  await tools.close();
  await server.close();
});

function connect(options: Partial<McpHttpOptions> = {}): void {
  const warn = (...said: unknown[]) => warnings.push(said);
  const logger = { debug: warn, info: warn, warn, error: warn };
  tools = mcpTools({
    servers: { far: { url: server.url, ...options } },
    reconnect: { initialMs: 1, maxMs: 1 },
    logger,
  });
}

async function echo(): Promise<ToolResult> {
  await tools.getTools(toolContext());
  return tools.executeTool(toolCall('far__echo'), toolContext({ arguments: {} }));
}

function countOf(method: string): number {
  return server.requests.filter((request) => request.method === method).length;
}

describe('an MCP server over HTTP', () => {
  it('gets the headers with each request, asked for anew each time', async () => {
    let count = 0;
    connect({ headers: async () => ({ authorization: `Bearer token-${++count}` }) });
    expect((await echo()).content).toBe('echoed');
    const sent = server.requests.map(({ headers }) => headers.authorization);
    expect(sent.length).toBeGreaterThan(3);
    expect(new Set(sent).size).toBe(sent.length);
    await tools.close();
    expect(server.requests.at(-1)).toMatchObject({ httpMethod: 'DELETE', headers: { 'mcp-session-id': 'session-1' } });
  });

  it('H-13 is not waited for where headers never come, and the error names the limit', async () => {
    let answers = true;
    const headers = () => (answers ? {} : new Promise<Record<string, string>>(() => {}));
    connect({ headers, connectTimeoutMs: 1_000 });
    await tools.getTools(toolContext());
    answers = false;
    const called = tools.executeTool(toolCall('far__echo'), toolContext({ arguments: {} }));
    const late = 'has no headers: their function did not answer within 1000 ms (connectTimeoutMs)';
    await expect(called).rejects.toThrow(late);
    answers = true;
  });

  it('that has forgotten the session gets another one, and the call again', async () => {
    connect();
    await echo();
    server.odd(({ headers }, response) => {
      if (headers['mcp-session-id'] !== 'session-1') return undefined;
      response.writeHead(404).end();
      return true;
    });
    expect((await echo()).content).toBe('echoed');
    expect(countOf('initialize')).toBe(2);
  });

  it('that breaks off its answer costs one error at once', async () => {
    connect();
    await echo();
    server.odd(({ method }, response) => {
      if (method !== 'tools/call') return undefined;
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end(': nothing\n\n');
      return true;
    });
    expect(await thrownBy(echo)).toMatchObject({
      code: 'TOOL_FAILED',
      message: 'the MCP server "far" broke off its answer; the call may or may not have taken effect',
    });
    server.odd(undefined);
    expect((await echo()).content).toBe('echoed');
  });

  it('that is gone costs one error, and is found again once it is back', async () => {
    connect();
    await echo();
    server.odd((_request, response) => Boolean(response.destroy()));
    expect(await thrownBy(echo)).toMatchObject({ code: 'TOOL_FAILED', message: /cannot be reached/ });
    server.odd(undefined);
    await new Promise((resolve) => setTimeout(resolve, 2));
    expect((await echo()).content).toBe('echoed');
  });

  it.each([
    [401, 'does not accept our credentials (HTTP 401)'],
    [503, 'refused the request (HTTP 503)'],
  ])('that answers %i is named, without its words and without our credentials', async (status, what) => {
    connect({ required: true, headers: { authorization: 'Bearer sesame-sesame' } });
    server.odd(({ headers }, response) => {
      response.writeHead(status).end(`you said ${headers.authorization}`);
      return true;
    });
    const error = await thrownBy(() => tools.connect());
    expect(error.message).toBe(`the MCP server "far" cannot be used: it ${what}`);
    expect(inspect(error, { depth: 9 })).not.toContain('sesame');
    expect(inspect(warnings, { depth: 9 })).not.toContain('sesame');
  });

  it('that says our credentials in an error of the protocol does not pass them on', async () => {
    connect({ headers: { 'x-api-key': 'sesame-sesame' } });
    await echo();
    server.odd(({ method, id, headers }, response) => {
      if (method !== 'tools/call') return undefined;
      const error = { code: -32_000, message: `bad key ${headers['x-api-key']}` };
      response.setHeader('content-type', 'application/json').end(JSON.stringify({ jsonrpc: '2.0', id, error }));
      return true;
    });
    expect((await thrownBy(echo)).message).toBe('the MCP server "far" answered with an error: bad key [redacted]');
  });

  it('that asks on the stream of a call which was cancelled is answered at once', async () => {
    connect({ sampling: { provider: scriptedLLM([]) } });
    const controller = new AbortController();
    let stream: ServerResponse | undefined;
    const asks = (id: string, method: string, params: object) =>
      stream?.write(`data: ${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n\n`);
    server.odd(({ method }, response) => {
      if (method === 'tools/call') {
        stream = response.writeHead(200, { 'content-type': 'text/event-stream' });
        stream.flushHeaders();
        controller.abort();
        return true;
      }
      if (method === 'notifications/cancelled') {
        asks('e', 'elicitation/create', { message: 'Who?', requestedSchema: { type: 'object', properties: {} } });
        asks('s', 'sampling/createMessage', { messages: [], maxTokens: 1 });
      }
      return undefined;
    });
    await tools.getTools(toolContext());
    const running = tools.executeTool(toolCall('far__echo'), toolContext({ arguments: {}, signal: controller.signal }));
    expect(await thrownBy(() => running)).toMatchObject({ code: 'CANCELED' });
    const answerTo = (id: string) => server.requests.find((each) => each.method === undefined && each.id === id);
    await eventually(() => answerTo('e') !== undefined && answerTo('s') !== undefined);
    expect(answerTo('e')?.result).toEqual({ action: 'cancel' });
    expect(answerTo('s')?.error).toMatchObject({ message: expect.stringContaining('no tool call is running') });
  });

  it('that does not take in that the handshake is over is given up', async () => {
    connect({ required: true, connectTimeoutMs: 300 });
    server.odd(({ method }) => method === 'notifications/initialized');
    const error = await thrownBy(() => tools.connect());
    expect(error.message).toBe(
      'the MCP server "far" cannot be used: it did not answer within 300 ms (connectTimeoutMs)',
    );
  });

  it('that answers with a page is no MCP server', async () => {
    connect({ required: true });
    server.odd((_request, response) => Boolean(response.setHeader('content-type', 'text/html').end('<p>hello</p>')));
    const message = await tools.connect().then(() => '', messageOf);
    expect(message).toBe('the MCP server "far" cannot be used: it answers with what is not MCP');
  });

  it('is left out of the turn where it is not required, and told to the logger', async () => {
    connect();
    server.odd((_request, response) => Boolean(response.destroy()));
    expect(await tools.getTools(toolContext())).toEqual([]);
    expect(warnings).toEqual([['MCP server skipped', { server: 'far', why: expect.stringContaining('cannot be') }]]);
  });
});
