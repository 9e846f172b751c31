import { once } from 'node:events';
import { createServer } from 'node:net';
import { describe, expect, it } from '@jest/globals';
import express from 'express';
import { InMemoryStateStore, type Logger } from 'millrace';
import { type A2AServerOptions, a2aServer, apiKeyAuth, InMemoryPushStore } from 'millrace/a2a';
import { fakeClock, gate } from 'millrace/testing';
import { answerOf, clientOf, key, message, rpc, serverBench, wireMessage, wires } from './test-server.ts';

const on = serverBench();

const keys = [
  { id: 'alice', key, tenants: ['acme'] },
  { id: 'bob', key: `${key}-of-bob` },
];
const alice = { 'x-api-key': key };
const bob = { authorization: `Bearer ${key}-of-bob` };

async function served(options: Partial<A2AServerOptions> = {}): Promise<string> {
  const { url } = await on.serve({ agent: on.echo([{ text: 'One.' }, { text: 'Two.' }]), ...options });
  return url;
}

function post(
  url: string,
  path: string,
  body: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<Response> {
  return fetch(`${url}${path}`, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body });
}

describe('a2aServer', () => {
  it.each(wires)('serves an agent over %s in version %s', async (binding, version) => {
    const { url } = await on.serve({ agent: on.echo([{ text: 'Hello.' }, { text: ['Hel', 'lo.'] }]) });
    const client = await clientOf(url, { binding, version });
    const task = await client.sendMessage(message('Hi'));
    expect(task).toMatchObject({ status: { state: 3 }, artifacts: [{ artifactId: 'answer-1' }] });
    const kinds: string[] = [];
    for await (const { payload } of client.sendMessageStream(message('Hi'))) kinds.push(payload?.$case ?? '');
    expect(kinds[0]).toBe('task');
    expect(kinds).toContain('artifactUpdate');
    expect(kinds.at(-1)).toBe('statusUpdate');
  });

  it('asks for a key before anything of a request is read, and says how', async () => {
    const auth = apiKeyAuth({ keys: [{ id: 'alice', key }] });
    const { url } = await on.serve({ agent: on.echo([{ text: 'Hello.' }]), auth });
    const refused = await rpc(url, 'SendMessage', wireMessage('Hi'));
    expect(refused.status).toBe(401);
    expect(refused.headers.get('www-authenticate')).toBe('ApiKey header="x-api-key"');
    expect(await refused.json()).toMatchObject({ error: { code: -32000, message: 'Authentication is required.' } });
    const wrong = await rpc(url, 'SendMessage', wireMessage('Hi'), { 'x-api-key': `${key}x` });
    expect(wrong.status).toBe(401);
    const answered = await rpc(url, 'SendMessage', wireMessage('Hi'), { 'x-api-key': key });
    expect(await answered.json()).toMatchObject({ result: { task: { status: { state: 'TASK_STATE_COMPLETED' } } } });
  });
});

describe('listening', () => {
  it('says why it cannot be', async () => {
    const { port } = await on.serve({ agent: on.echo([]) });
    const taken = on.serve({ agent: on.echo([]) }, { port });
    await expect(taken).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      message: expect.stringContaining('another process listens there'),
    });
    const open = on.serve({ agent: on.echo([]) }, { host: '0.0.0.0' });
    await expect(open).rejects.toMatchObject({ code: 'INVALID_CONFIG', message: expect.stringContaining('no auth') });
  });

  it('is for the server, and mounting needs to know where', async () => {
    const server = await a2aServer({ agent: on.echo([]), store: new InMemoryStateStore() });
    await expect(server.start()).rejects.toMatchObject({ code: 'INVALID_CONFIG' });
    const mounted = await a2aServer({
      agent: on.echo([{ text: 'Hello.' }]),
      store: new InMemoryStateStore(),
      publicUrl: 'http://localhost/agents',
    });
    on.after(() => mounted.close());
    const http = express().use('/agents', mounted.app).listen(0, '127.0.0.1');
    on.after(() => http.close());
    await once(http, 'listening');
    const address = http.address();
    const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}/agents`;
    expect((await fetch(`${url}/.well-known/agent-card.json`)).status).toBe(503);
    expect(await answerOf(fetch(`${url}/readyz`))).toEqual({ status: 'unavailable', reason: 'starting' });
    for (const path of ['/a2a/jsonrpc', '/a2a/rest/message:send', '/a2a/rest/v1/message:send']) {
      const early = await post(url, path, JSON.stringify(wireMessage('Hi')));
      expect([early.status, early.headers.get('retry-after')]).toEqual([503, '1']);
      expect(JSON.stringify(await early.json())).toContain('The server starts; try again.');
    }
    await mounted.start();
    await expect(mounted.start()).rejects.toMatchObject({ code: 'INVALID_CONFIG' });
    const card = await answerOf(fetch(`${url}/.well-known/agent-card.json`, { headers: { 'a2a-version': '1.0' } }));
    expect(card.supportedInterfaces[0].url).toBe('http://localhost/agents/a2a/jsonrpc');
    const { result } = await answerOf(rpc(url, 'SendMessage', wireMessage('Hi')));
    expect(result.task.status.state).toBe('TASK_STATE_COMPLETED');
  });
});

describe('a server that cannot start', () => {
  const unlisted = (thrown: () => void) => ({
    getTools: async () => {
      thrown();
      return [];
    },
    executeTool: () => Promise.reject(new Error('not called')),
  });

  it('gives its port back, and can be started again', async () => {
    let fails = true;
    const tools = unlisted(() => {
      if (fails) throw new Error('The tools are away.');
    });
    const agent = on.echo([], { toolProviders: [tools] });
    const server = await a2aServer({ agent, store: new InMemoryStateStore() });
    on.after(() => server.close());
    const { port } = await on.serve({ agent: on.echo([]) });
    await expect(server.listen({ port })).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    const free = createServer().listen(0, '127.0.0.1');
    await once(free, 'listening');
    const address = free.address();
    const mine = typeof address === 'object' ? (address?.port ?? 0) : 0;
    free.close();
    await expect(server.listen({ port: mine })).rejects.toThrow('The tools are away.');
    fails = false;
    expect(await server.listen({ port: mine })).toMatchObject({ port: mine });
  });

  it('does not start once it is closed, also while it is starting', async () => {
    const listed = gate();
    const tools = { ...unlisted(() => {}), getTools: () => listed.pass().then(() => []) };
    const clock = fakeClock();
    const server = await a2aServer({
      agent: on.echo([], { toolProviders: [tools] }),
      store: new InMemoryStateStore(),
      push: { store: new InMemoryPushStore() },
      clock,
      closeMs: 0,
    });
    const listening = server.listen({ port: 0 });
    await listed.reached;
    const closed = server.close();
    clock.advance(0);
    listed.open();
    await expect(listening).rejects.toMatchObject({ code: 'INVALID_CONFIG' });
    while (clock.pending > 0) {
      clock.advance(0);
      await new Promise(setImmediate);
    }
    await closed;
    await expect(server.listen({ port: 0 })).rejects.toMatchObject({ code: 'INVALID_CONFIG' });
    expect(clock.pending).toBe(0);
  });
});

describe('versions', () => {
  it.each(['1.0.1', ' 1.0 ', '1.0'])('takes %j as 1.0', async (version) => {
    const answer = await answerOf(rpc(await served(), 'ListTasks', {}, { 'a2a-version': version }));
    expect(answer.result.tasks).toEqual([]);
  });

  it('takes the version of the query where no header has one, and none as 0.3', async () => {
    const url = await served();
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ListTasks', params: {} });
    expect((await answerOf(post(url, '/a2a/jsonrpc?A2A-Version=1.0.3', body))).result.tasks).toEqual([]);
    expect((await answerOf(post(url, '/a2a/jsonrpc', body))).error.code).toBe(-32601);
    const get = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tasks/get', params: { id: 'x' } });
    expect((await answerOf(post(url, '/a2a/jsonrpc', get))).error.code).toBe(-32001);
  });

  it.each(['2.0', 'newest', '0.9'])('refuses %j, and says what there is', async (version) => {
    const { error } = await answerOf(rpc(await served(), 'ListTasks', {}, { 'a2a-version': version }));
    expect(error).toMatchObject({ code: -32009, message: expect.stringContaining('1.0, 0.3') });
  });
});

describe('limits', () => {
  it.each([
    ['the default body', {}, 10 * 2 ** 20, 'maxBodyBytes is 4194304'],
    ['its body', { maxBodyBytes: 1_000 }, 1_001, 'maxBodyBytes is 1000'],
  ])('R-40 of a message above that of %s are refused at the call', async (_, options, maxMessageBytes, sentence) => {
    const served = on.serve({ agent: on.echo([]), ...options, limits: { maxMessageBytes } });
    await expect(served).rejects.toMatchObject({ code: 'INVALID_CONFIG', message: expect.stringContaining(sentence) });
  });

  it.each([
    [{ maxBodyBytes: 1_000, limits: { maxMessageBytes: 1_000 } }],
    [{ maxBodyBytes: 1_000, limits: { maxParts: 3 } }],
    [{ limits: { maxMessageBytes: Number.POSITIVE_INFINITY } }],
    [{ maxBodyBytes: 20 * 2 ** 20, limits: { maxMessageBytes: 15 * 2 ** 20 } }],
  ])('R-40 of a message that a body can hold are taken: %j', async (options) => {
    const { url } = await on.serve({ agent: on.echo([]), ...options });
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
  });
});

describe('bodies', () => {
  const big = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params: wireMessage('x'.repeat(2_000)) });

  it('takes those larger than the default of Express, and refuses those beyond its own limit in the form of the protocol', async () => {
    const url = await served({ maxBodyBytes: 1_000 });
    const refused = await post(url, '/a2a/jsonrpc', big, { 'a2a-version': '1.0' });
    expect(refused.status).toBe(413);
    expect(await refused.json()).toMatchObject({
      jsonrpc: '2.0',
      id: null,
      error: { code: -32600, message: expect.stringContaining('1000 bytes') },
    });
    const rest = await post(url, '/a2a/rest/message:send', big, { 'a2a-version': '1.0' });
    expect(rest.status).toBe(413);
    expect(await rest.json()).toMatchObject({
      error: { code: 413, status: 'INVALID_ARGUMENT', details: [{ reason: 'REQUEST_TOO_LARGE' }] },
    });
    const legacy = await post(url, '/a2a/rest/v1/message:send', big);
    expect(await legacy.json()).toMatchObject({ code: -32600 });
    const text = 'y'.repeat(150_000);
    const large = await answerOf(rpc(await served(), 'SendMessage', wireMessage(text)));
    expect(large.result.task.status.state).toBe('TASK_STATE_COMPLETED');
  });

  it('says of what is not JSON, and of what is no request, that it is not', async () => {
    const url = await served();
    expect(await answerOf(post(url, '/a2a/jsonrpc', '{"jsonrpc":'))).toMatchObject({ error: { code: -32700 } });
    for (const body of ['[]', '"x"', '{}', 'null']) {
      expect(await answerOf(post(url, '/a2a/jsonrpc', body))).toMatchObject({ error: { code: -32600 } });
    }
    const plain = await post(url, '/a2a/jsonrpc', '{}', { 'content-type': 'text/plain', 'a2a-version': '1.0' });
    expect(await plain.json()).toMatchObject({ error: { code: -32005 } });
    expect((await fetch(`${url}/a2a/jsonrpc`)).status).toBe(405);
    expect((await fetch(`${url}/nothing`)).status).toBe(404);
  });

  const part = (wrong: unknown) => ({ message: { messageId: 'm', role: 'ROLE_USER', parts: [wrong] } });
  const legacyPart = (wrong: unknown) => ({ message: { messageId: 'm', role: 'user', parts: [wrong] } });

  it.each([
    ['SendMessage', part(null), 'message.parts.0 must be object.'],
    ['SendMessage', part({ raw: 5 }), 'message.parts.0.raw must be string,null.'],
    ['SendStreamingMessage', part({ text: {} }), 'message.parts.0.text must be string,null.'],
    ['SendMessage', { message: { messageId: 5 } }, 'message.messageId must be string,null.'],
    ['message/send', legacyPart({ kind: 'text' }), "message.parts.0 must have required property 'text'."],
    ['message/send', legacyPart({ kind: 'file' }), "message.parts.0 must have required property 'file'."],
    ['message/stream', legacyPart({ kind: 'file', file: { bytes: 5 } }), 'message.parts.0.file.bytes must be string.'],
    [
      'message/send',
      { configuration: { acceptedOutputModes: 5 } },
      'configuration.acceptedOutputModes must be array,null.',
    ],
    ['tasks/get', {}, 'The id of a task is required.'],
    ['tasks/cancel', { id: 5 }, 'id must be string,null.'],
    [
      'tasks/pushNotificationConfig/set',
      { taskId: 'x' },
      "The request must have required property 'pushNotificationConfig'.",
    ],
  ])('says of %s with %j what is wrong, and no word of the program', async (method, params, message) => {
    const version = method.includes('/') ? '0.3' : '1.0';
    const response = await rpc(await served(), method, params, { 'a2a-version': version });
    // A client of 0.3 gets the answer to a request for a stream as an event.
    const { error } = JSON.parse((await response.text()).replace(/^data: /, ''));
    expect(error).toMatchObject({ code: -32602, message });
  });

  it('says the same over HTTP+JSON, and takes a path that cannot be read for what it is', async () => {
    const url = await served();
    const wrong = await post(url, '/a2a/rest/message:send', JSON.stringify(part(null)), { 'a2a-version': '1.0' });
    expect(wrong.status).toBe(400);
    expect(await wrong.json()).toMatchObject({ error: { message: 'message.parts.0 must be object.' } });
    expect((await fetch(`${url}/a2a/rest/tasks/%ff`)).status).toBe(400);
  });

  it.each(['1.0', '0.3'])('says of what is no request of JSON-RPC in %s that it is not', async (version) => {
    const url = await served();
    for (const body of [
      '[]',
      '"x"',
      '{}',
      'null',
      '{"jsonrpc":"1.0","method":"ListTasks"}',
      '{"jsonrpc":"2.0","id":{},"method":"x"}',
    ]) {
      const { error } = await answerOf(post(url, '/a2a/jsonrpc', body, { 'a2a-version': version }));
      expect(error).toMatchObject({ code: -32600 });
    }
  });
});

describe('callers', () => {
  it('see their own tasks only, whichever way they say who they are', async () => {
    const url = await served({ auth: apiKeyAuth({ keys }) });
    const { result } = await answerOf(rpc(url, 'SendMessage', wireMessage('Hi'), alice));
    const get = { id: result.task.id };
    expect((await answerOf(rpc(url, 'GetTask', get, alice))).result.id).toBe(result.task.id);
    expect((await answerOf(rpc(url, 'GetTask', get, bob))).error.code).toBe(-32001);
    expect((await answerOf(rpc(url, 'ListTasks', {}, bob))).result.tasks).toEqual([]);
    expect((await fetch(`${url}/a2a/rest/tasks/${get.id}`, { headers: { ...bob, 'a2a-version': '1.0' } })).status).toBe(
      404,
    );
    expect((await fetch(`${url}/a2a/rest/v1/tasks/${get.id}`)).status).toBe(401);
  });

  it('act for tenants of theirs only, and tenants are apart', async () => {
    const url = await served({ auth: apiKeyAuth({ keys }) });
    const sent = await answerOf(rpc(url, 'SendMessage', { ...wireMessage('Hi'), tenant: 'acme' }, alice));
    const { id } = sent.result.task;
    expect((await answerOf(rpc(url, 'GetTask', { id, tenant: 'acme' }, alice))).result.id).toBe(id);
    expect((await answerOf(rpc(url, 'GetTask', { id }, alice))).error.code).toBe(-32001);
    const other = await answerOf(rpc(url, 'GetTask', { id, tenant: 'acme' }, bob));
    expect(other.error).toMatchObject({ code: -32602, message: 'The tenant is not one of yours.' });
    const rest = (tenant: string, path: string) =>
      fetch(`${url}/a2a/rest/${tenant}${path}`, { headers: { ...alice, 'a2a-version': '1.0' } });
    expect((await rest('acme', `/tasks/${id}`)).status).toBe(200);
    expect((await rest('other', `/tasks/${id}`)).status).toBe(400);
    expect((await rest('', `tasks?tenant=other`)).status).toBe(400);
  });

  it('read the tools of the agent in the extended card, and strangers do not', async () => {
    const auth = apiKeyAuth({ keys });
    const toolProviders = [
      {
        getTools: () => [
          { type: 'function' as const, function: { name: 'count', description: 'Counts.', parameters: {} } },
        ],
        executeTool: () => Promise.reject(new Error('not called')),
      },
    ];
    const { url, cardUrl } = await on.serve({ agent: on.echo([], { toolProviders }), auth });
    expect((await rpc(url, 'GetExtendedAgentCard', {})).status).toBe(401);
    const card = await answerOf(fetch(cardUrl, { headers: { 'a2a-version': '1.0' } }));
    expect(card.skills.map(({ id }: { id: string }) => id)).toEqual(['echo']);
    expect(card.securitySchemes).toEqual({
      apiKey: { apiKeySecurityScheme: { location: 'header', name: 'x-api-key' } },
    });
    const { result } = await answerOf(rpc(url, 'GetExtendedAgentCard', {}, alice));
    expect(result.skills.map(({ id }: { id: string }) => id)).toEqual(['echo', 'tool:count']);
  });

  it('make as many requests as they may, each user counted apart, and strangers by their address', async () => {
    const url = await served({ auth: apiKeyAuth({ keys }), rateLimit: { requests: 2, perMs: 60_000 } });
    const status = async (who: Readonly<Record<string, string>>) => (await rpc(url, 'ListTasks', {}, who)).status;
    expect([await status(alice), await status(alice), await status(alice), await status(bob)]).toEqual([
      200, 200, 429, 200,
    ]);
    const guess = { 'x-api-key': 'a-guess-of-a-key-0123' };
    expect([await status(guess), await status(guess), await status(guess)]).toEqual([401, 401, 429]);
    const refused = await rpc(url, 'ListTasks', {}, alice);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(25);
    expect(await refused.json()).toMatchObject({ error: { code: -32000, data: [{ reason: 'RATE_LIMIT' }] } });
  });

  it('have to be on this machine, under a name of it, where nobody asks who they are', async () => {
    const url = await served();
    const { port } = new URL(url);
    expect((await rpc(`http://localhost:${port}`, 'ListTasks', {})).status).toBe(200);
    const { request } = await import('node:http');
    const status = await new Promise((resolve, reject) => {
      const asked = request(
        `${url}/a2a/jsonrpc`,
        { method: 'POST', headers: { host: 'evil.example' } },
        ({ statusCode }) => resolve(statusCode),
      );
      asked.once('error', reject).end('{}');
    });
    expect(status).toBe(403);
  });
});

describe('what is logged', () => {
  it('is what was asked for, how it ended and how long it took, without a word of what was said', async () => {
    const lines: string[] = [];
    const write: Logger['info'] = (text, fields) => void lines.push(JSON.stringify({ text, ...fields }));
    const logger = { debug: write, info: write, warn: write, error: write };
    const url = await served({ auth: apiKeyAuth({ keys }), logger });
    const { result } = await answerOf(rpc(url, 'SendMessage', wireMessage('my secret'), alice));
    await (
      await fetch(`${url}/a2a/rest/tasks/${result.task.id}?x=secret`, { headers: { ...alice, 'a2a-version': '1.0' } })
    ).text();
    await rpc(url, 'GetTask', { id: 'no' }, { 'x-api-key': 'wrong-and-long-enough' });
    await new Promise(setImmediate);
    const text = lines.join('\n');
    expect(text).toContain('"operation":"SendMessage","status":200');
    expect(text).toContain('"operation":"/a2a/rest/tasks/…","status":200');
    expect(text).toContain('"status":401');
    for (const secret of ['secret', key, 'wrong-and', result.task.id, 'One.']) expect(text).not.toContain(secret);
  });
});

describe('health', () => {
  it('is said to whoever asks, without credentials, and readiness is over as soon as the server closes', async () => {
    const agent = on.echo([]);
    const { url, server } = await on.serve({ agent, auth: apiKeyAuth({ keys }) });
    expect(await answerOf(fetch(`${url}/healthz`))).toEqual({ status: 'ok' });
    expect((await fetch(`${url}/readyz`)).status).toBe(200);
    await server.close();
    await expect(fetch(`${url}/readyz`)).rejects.toThrow();
  });

  it('is not ready while the store does not answer', async () => {
    const agent = on.echo([]);
    const store = new InMemoryStateStore();
    const url = await served({
      agent,
      store: Object.assign(store, { check: () => Promise.reject(new Error('redis://secret')) }),
    });
    const answer = await fetch(`${url}/readyz`);
    expect(answer.status).toBe(503);
    expect(await answer.json()).toEqual({ status: 'unavailable', reason: 'store' });
  });
});

describe('the client of the SDK', () => {
  it('finds the way by itself, with a key', async () => {
    const url = await served({ auth: apiKeyAuth({ keys }) });
    const client = await clientOf(url, { headers: alice });
    expect(await client.sendMessage(message('Hi'))).toMatchObject({ status: { state: 3 } });
  });
});
