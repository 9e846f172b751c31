import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { LATEST_PROTOCOL_VERSION } from '@modelcontextprotocol/sdk/types.js';
import { agent } from 'millrace';
import { mcpServer } from 'millrace/mcp';
import type { Random } from '../../crash/random.ts';
import { readyModel } from './a2a-server.ts';
import type { Outcome, Target } from './fuzz-run.ts';
import { bodyOf, faultOf } from './http-answer.ts';
import { mangled, mutated, oddHeader } from './mutations.ts';

const begin = {
  method: 'initialize',
  params: { protocolVersion: LATEST_PROTOCOL_VERSION, capabilities: {}, clientInfo: { name: 'fuzz', version: '1' } },
};

function drawn(random: Random): unknown {
  const id = random.int(1, 1_000_000);
  const call = {
    name: 'clerk',
    arguments: { message: 'Hi', conversation: random.pick(['a', 'b']) },
    _meta: { progressToken: id },
  };
  const { method, params } = random.pick<{ readonly method: string; readonly params?: object }>([
    { method: 'tools/call', params: call },
    { method: 'tools/call', params: call },
    { method: 'tools/call', params: { name: 'clerk', arguments: { message: 'Hi' } } },
    { method: 'tools/list', params: { cursor: 'x' } },
    { method: 'ping' },
    begin,
    { method: 'logging/setLevel', params: { level: 'info' } },
    { method: 'resources/read', params: { uri: 'file:///etc/passwd' } },
    {
      method: 'completion/complete',
      params: { ref: { type: 'ref/prompt', name: 'x' }, argument: { name: 'a', value: 'b' } },
    },
    { method: 'tasks/get', params: { taskId: 'x' } },
  ]);
  const request = { jsonrpc: '2.0', id, method, ...(params && { params }) };
  const notification = {
    jsonrpc: '2.0',
    method: random.pick(['notifications/cancelled', 'notifications/progress', 'notifications/initialized']),
    params: { requestId: id, progressToken: id, progress: 1 },
  };
  return random.pick<unknown>([
    request,
    request,
    request,
    request,
    notification,
    { jsonrpc: '2.0', id, result: {} },
    [request, notification],
  ]);
}

function textOf(random: Random): string {
  const message = drawn(random);
  if (random.chance(0.15)) return JSON.stringify(message);
  if (random.chance(0.2)) return mangled(JSON.stringify(message), random);
  return JSON.stringify(mutated(message, random)) ?? 'null';
}

const served = () => mcpServer({ agent: agent({ name: 'clerk', provider: readyModel }), maxTurns: 10_000 });

export async function mcpHttpTarget(): Promise<Target> {
  const server = served();
  const { url } = await server.listen({ sessionIdleMs: 1_000, maxSessions: 10_000, maxSessionsPerCaller: 10_000 });
  const common = { accept: 'application/json, text/event-stream', 'content-type': 'application/json' };
  let session: Promise<string> | undefined;
  const open = async () => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 0, ...begin });
    const response = await fetch(url, { method: 'POST', headers: common, body });
    await response.text();
    return response.headers.get('mcp-session-id') ?? '';
  };
  return {
    name: 'MCP over HTTP',
    close: () => server.close(),
    async send(random) {
      session ??= open();
      const id = await session;
      const headers: Record<string, string> = {
        ...common,
        'mcp-session-id': id,
        'mcp-protocol-version': LATEST_PROTOCOL_VERSION,
      };
      if (random.chance(0.15)) {
        const name = random.pick([
          'mcp-session-id',
          'mcp-protocol-version',
          'accept',
          'content-type',
          'last-event-id',
          'origin',
          'content-encoding',
        ]);
        if (random.chance(0.3)) delete headers[name];
        else headers[name] = oddHeader(random);
      }
      const method = random.chance(0.93) ? 'POST' : random.pick(['GET', 'DELETE', 'PUT', 'PATCH']);
      const body = method === 'POST' ? textOf(random) : undefined;
      const sent = `${method} ${JSON.stringify(headers)} ${body?.slice(0, 500) ?? ''}`;
      const given = { method, headers, ...(body !== undefined && { body }) };
      const leaving = new AbortController();
      const response = await fetch(url, { ...given, signal: leaving.signal }).catch((error: unknown) => error);
      if (!(response instanceof Response)) return isOurs(response) ? { sent } : Promise.reject(response);
      const answer = method === 'GET' && response.ok ? '' : await bodyOf(response, /"(result|error)":/);
      if (method === 'GET') leaving.abort();
      if (method === 'DELETE' || response.status === 404) session = undefined;
      const fault = faultOf(response.status, answer);
      return { sent, ...(fault !== undefined && { fault }) };
    },
  };
}

function isOurs(error: unknown): boolean {
  return error instanceof TypeError && !('cause' in error && error.cause);
}

export async function mcpStdioTarget(): Promise<Target> {
  const server = served();
  const [stdin, stdout] = [new PassThrough(), new PassThrough()];
  const over = server.serve({ stdin, stdout });
  const waiting = new Map<string, () => void>();
  let faults: string[] = [];
  let rest = '';
  stdout.on('data', (piece: Buffer) => {
    const lines = (rest + piece.toString()).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      const fault = faultOf(200, line);
      if (fault !== undefined) faults.push(fault);
      waiting.get(/"id":"(pong-\d+)"/.exec(line)?.[1] ?? '')?.();
    }
  });
  let pings = 0;
  const ask = (message: object) => {
    const id = `pong-${++pings}`;
    const answered = new Promise<void>((resolve) => void waiting.set(id, resolve));
    stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, ...message })}\n`);
    return answered.finally(() => waiting.delete(id));
  };
  await ask(begin);
  return {
    name: 'MCP over stdio',
    async close() {
      stdin.end();
      await over;
      stdout.destroy();
    },
    async send(random): Promise<Outcome> {
      const text = textOf(random);
      if (!stdin.write(`${text}\n`)) await once(stdin, 'drain');
      await ask({ method: 'ping' });
      const [fault] = faults;
      faults = [];
      return { sent: text.slice(0, 500), ...(fault !== undefined && { fault }) };
    },
  };
}
