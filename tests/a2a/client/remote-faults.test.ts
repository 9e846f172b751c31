import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { JsonRpcTransportError } from '@a2a-js/sdk/errors';
import { afterAll, afterEach, describe, expect, it } from '@jest/globals';
import { propagation } from '@opentelemetry/api';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { team } from 'millrace';
import { type RemoteAgentOptions, remoteAgent } from 'millrace/a2a';
import { isUnavailable, remoteError } from 'millrace/internals';
import { recordSpans } from 'millrace/testing';
import { eventually } from '../../eventually.ts';
import { ChildPrograms, kill, nextMessage } from '../../stores/lmdb/child-programs.ts';
import { TemporaryStores } from '../../stores/lmdb/temporary-stores.ts';
import { type SdkServer, type SdkServerOptions, sdkServer } from './sdk-server.ts';

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  await Promise.all(closing.splice(0).map((close) => close()));
});

async function serving(options: Partial<SdkServerOptions> = {}): Promise<SdkServer> {
  const execute: SdkServerOptions['execute'] = (task) => {
    task.artifact('a', [{ text: 'Fine.' }]);
    task.state('COMPLETED');
  };
  const server = await sdkServer({ execute, ...options });
  closing.push(() => server.close());
  return server;
}

/** A plain HTTP server that answers as it is told. */
async function plain(listener: RequestListener): Promise<string> {
  const server: Server = createServer(listener);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closing.push(async () => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

it.each([
  ['UNAVAILABLE', true],
  ['BUSY', true],
  ['SHUTDOWN', true],
  ['POISON', false],
])('H-13 an internal error of a server of Millrace with the code %s says that it is away: %s', (code, isAway) => {
  const data = [{ '@type': 'type.googleapis.com/google.rpc.ErrorInfo', metadata: { code } }];
  const error = { code: -32603, message: 'The agent is not available.', data };
  const thrown = new JsonRpcTransportError({ jsonrpc: '2.0', id: 1, error });
  const told = remoteError({ address: 'https://far.example', secrets: [] }, thrown);
  expect(told).toMatchObject({ code: 'PROVIDER_SERVER', retryable: true });
  expect(isUnavailable(told)).toBe(isAway);
});

const named = { name: 'far', description: 'Far away.' };
const failing = (url: string, options: Partial<RemoteAgentOptions> = {}) =>
  remoteAgent({ url, ...options }).then((far) => far.run('Hello?'));

describe('what a remote agent is given', () => {
  it('sends its credentials with each request, and the trace of the caller', async () => {
    const spans = recordSpans();
    propagation.setGlobalPropagator(new W3CTraceContextPropagator());
    closing.push(async () => propagation.disable());
    const server = await serving();
    const far = await remoteAgent({ url: server.url, auth: { bearer: 'secret-token' } });
    await far.run('Hello?');
    const { traceId } =
      spans
        .spans()
        .find(({ name }) => name === 'agent.turn')
        ?.spanContext() ?? {};
    await spans.dispose();
    expect(server.headers.length).toBeGreaterThan(1);
    for (const headers of server.headers) {
      expect(headers.authorization).toBe('Bearer secret-token');
      expect(headers['traceparent']).toContain(traceId);
    }
  });

  it('asks for credentials anew with each request where they are a function', async () => {
    let count = 0;
    const server = await serving();
    const far = await remoteAgent({ url: server.url, auth: async () => ({ 'x-key': `key-${++count}` }) });
    await far.run('Hello?');
    const keys = server.headers.map((headers) => headers['x-key']);
    expect(new Set(keys).size).toBe(keys.length);
  });

  it.each([
    [{ url: 'ftp://far.example' }, /url must be an http\(s\) address/],
    [{ url: 'https://me:secret@far.example' }, /must not contain a user/],
    [{ url: 'https://far.example', auth: {} }, /auth is none of the forms/],
    [{ url: 'https://far.example', origins: ['https://x.example/path'] }, /is no origin/],
    [{ url: 'https://far.example', transports: ['SOAP'] }, /transports must be an array of known ones/],
    [{ url: 'https://far.example', silenceMs: 0 }, /silenceMs must be milliseconds from 1/],
    [{ url: 'https://far.example', model: 'm' }, /has no option "model"/],
  ])('refuses %j', async (options, message) => {
    const refused = Reflect.apply(remoteAgent, undefined, [options]);
    await expect(refused).rejects.toMatchObject({ code: 'INVALID_CONFIG', message: expect.stringMatching(message) });
  });
});

describe('a remote agent whose other side is at fault', () => {
  it('says that nobody is there', async () => {
    const server = await serving();
    await server.close();
    await expect(failing(server.url)).rejects.toMatchObject({
      code: 'PROVIDER_UNREACHABLE',
      message: `The agent at ${server.url} cannot be reached: check url and that it runs.`,
    });
  });

  it.each([
    [401, 'PROVIDER_AUTH', /refuses the credentials: check auth/],
    [404, 'PROVIDER_NOT_FOUND', /has nothing at this address: check url/],
    [302, 'PROVIDER_PROTOCOL', /redirects: set url to where it really is/],
    [429, 'PROVIDER_RATE_LIMIT', /is asked too often/],
    [503, 'PROVIDER_SERVER', /fails with HTTP 503/],
  ])('says what HTTP %i means', async (status, code, message) => {
    const url = await plain((_request, response) => {
      response.writeHead(status, { location: 'http://127.0.0.1:1/elsewhere' }).end('<h1>internal text</h1>');
    });
    const failed = failing(url, { auth: { bearer: 'secret-token' } });
    await expect(failed).rejects.toMatchObject({ code, message: expect.stringMatching(message) });
    await expect(failed).rejects.not.toMatchObject({ message: expect.stringMatching(/internal text|secret/) });
  });

  it('H-13 says what an HTTP status of the card means, also where the answer is JSON', async () => {
    const url = await plain((_request, response) => {
      response.writeHead(503, { 'content-type': 'application/json' }).end('{"error":"starting"}');
    });
    await expect(failing(url)).rejects.toMatchObject({ code: 'PROVIDER_SERVER', retryable: true, status: 503 });
  });

  it('says that what answers is no A2A server, without the credentials that it echoes', async () => {
    const url = await plain(({ headers }, response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).end(`no JSON ${headers.authorization}`);
    });
    const failed = failing(url, { auth: { bearer: 'secret-token' } });
    await expect(failed).rejects.toMatchObject({ code: 'PROVIDER_PROTOCOL' });
    await expect(failed).rejects.not.toMatchObject({ message: expect.stringMatching(/secret-token/) });
  });

  it.each([
    ['has no id', { status: { state: 'TASK_STATE_WORKING' } }],
    ['has no status', { id: 't' }],
    ['dances', { id: 't', status: { state: 'DANCING' } }],
  ])('gives up a task that %s', async (_what, task) => {
    const intercept: SdkServerOptions['intercept'] = ({ method, path }, response, next) => {
      if (method === 'GET' && /\/tasks\/[^/:]+$/.test(path)) response.json(task);
      else next();
    };
    const server = await serving({ intercept, transport: 'HTTP+JSON', streaming: false });
    await expect(failing(server.url)).rejects.toMatchObject({
      code: 'PROVIDER_PROTOCOL',
      message: expect.stringMatching(/with a task that has no id or no known state/),
    });
  });

  it('takes the public card of a server that promises another one and has none', async () => {
    const server = await serving({ extendedCard: true });
    const far = await remoteAgent({ url: server.url });
    expect(far.name).toBe('Far_away');
    expect((await far.run('Hello?')).text).toBe('Fine.');
  });

  it('says which transports it needs where a server is offered over others only', async () => {
    const card = { name: 'far', description: 'Far.', supportedInterfaces: [{ protocolBinding: 'SOAP', url: 'h:1' }] };
    const url = await plain((_request, response) => {
      response.setHeader('content-type', 'application/json').end(JSON.stringify(card));
    });
    await expect(failing(url, named)).rejects.toMatchObject({
      code: 'PROVIDER_PROTOCOL',
      message: expect.stringMatching(/is offered over "?SOAP"?: remoteAgent needs JSONRPC or HTTP\+JSON or GRPC/),
    });
  });

  it('does not follow a card to another origin, unless that is named', async () => {
    const server = await serving();
    const { origin } = new URL(server.url.replace('127.0.0.1', 'localhost'));
    const elsewhere = { url: origin, auth: { bearer: 'secret-token' } };
    await expect(failing(origin, elsewhere)).rejects.toMatchObject({
      code: 'PROVIDER_PROTOCOL',
      message: expect.stringMatching(/says that it is found at .*: add that to origins/),
    });
    expect(server.headers).toEqual([]);
    await expect(failing(origin, { ...elsewhere, origins: [server.url] })).resolves.toMatchObject({ text: 'Fine.' });
  });

  it('gives up a request that is not answered in time', async () => {
    const server = await serving({ intercept: () => {} });
    const failed = failing(server.url, { ...named, requestTimeoutMs: 50 });
    await expect(failed).rejects.toMatchObject({
      message: expect.stringMatching(/did not answer in time: raise requestTimeoutMs/),
    });
  });

  it('asks how the task is where a stream is silent', async () => {
    let asked = 0;
    let finish = () => {};
    const server = await serving({
      intercept(request, _response, next) {
        if (request.body?.method === 'GetTask' || request.url.includes('tasks/')) asked++;
        if (asked > 1) finish();
        next();
      },
      transport: 'HTTP+JSON',
      execute(task) {
        task.state('WORKING');
        return new Promise((resolve) => {
          finish = () => {
            task.artifact('a', [{ text: 'Woken.' }]);
            task.state('COMPLETED');
            resolve();
          };
        });
      },
    });
    await expect(failing(server.url, { silenceMs: 50 })).resolves.toMatchObject({ text: 'Woken.' });
  });
});

describe('a remote agent whose own process dies', () => {
  const programs = new ChildPrograms('tests/a2a/client/children');
  const stores = new TemporaryStores();
  afterAll(() => Promise.all([programs.clear(), stores.clear()]));

  it('goes on with the remote task that there is, and with its text', async () => {
    let finish = () => {};
    const server = await serving({
      execute(task) {
        task.state('WORKING');
        task.artifact('a', [{ text: 'Half' }]);
        return new Promise((resolve) => {
          finish = () => {
            task.artifact('a', [{ text: ' and whole.' }], { append: true });
            task.state('COMPLETED');
            resolve();
          };
        });
      },
    });
    const path = stores.path();
    const child = programs.start('turn', server.url, path);
    await nextMessage(child);
    await kill(child);
    const taskStateStore = stores.open({ path });
    await eventually(() => !taskStateStore.list().some(({ held }) => held));
    const local = { id: 'far', contextId: 'c', taskStateStore, leaseMs: 100 };
    const far = await remoteAgent({ url: server.url, ...local });
    const resumed = far.resume('t');
    resumed.subscribe({ next: (event) => event.kind === 'internal:llm-call' && finish(), error: () => {} });
    expect((await resumed.result()).text).toBe('Half and whole.');
    expect(server.messageIds).toHaveLength(1);
    expect(server.canceled).toEqual([]);
  });
});

describe('a remote agent in a team', () => {
  it('answers in its place', async () => {
    const server = await serving();
    const far = await remoteAgent({ url: server.url, ...named });
    await expect(team({ agents: [far] }).ask('Hello?')).resolves.toMatchObject({ text: 'Fine.' });
  });
});
