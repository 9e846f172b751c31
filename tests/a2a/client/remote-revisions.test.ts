import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from '@jest/globals';
import { type RemoteAgentOptions, remoteAgent } from 'millrace/a2a';
import { watch } from '../../core/watch-events.ts';

interface Answer {
  readonly status: number;
  readonly body: object;
}

/** What a server of HTTP+JSON answers to a message and to a cancel. */
interface Answers {
  readonly mediaType: string;
  readonly send: Answer;
  readonly cancel?: Answer;
}

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function serve({ mediaType, send, cancel }: Answers) {
  const requests: string[] = [];
  const answer = (request: IncomingMessage, response: ServerResponse) => {
    const { method, url = '' } = request;
    requests.push(`${method} ${url}`);
    const card = () => ({ status: 200, body: cardAt(String(request.headers.host)) });
    const task = () => ({ status: 200, body: Object(send.body).task ?? {} });
    const { status, body } = url.includes('.well-known')
      ? card()
      : url.endsWith(':send')
        ? send
        : (url.endsWith(':cancel') && cancel) || task();
    response.writeHead(status, { 'content-type': mediaType }).end(JSON.stringify(body));
  };
  const server = createServer(answer);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closing.push(
    () => new Promise((resolve) => server.close(resolve)),
    () => server.closeAllConnections(),
  );
  const { port } = server.address() as AddressInfo;
  const connect = (options: Partial<RemoteAgentOptions> = {}) =>
    remoteAgent({ url: `http://127.0.0.1:${port}`, ...options });
  return { requests, connect };
}

function cardAt(host: string): object {
  return {
    name: 'far',
    description: 'Answers.',
    version: '1.0.0',
    supportedInterfaces: [{ url: `http://${host}`, protocolBinding: 'HTTP+JSON', protocolVersion: '1.0' }],
    capabilities: { streaming: false },
    defaultInputModes: ['text/plain'],
    defaultOutputModes: ['text/plain'],
    skills: [],
  };
}

function taskIn(state: string): object {
  const artifacts = [{ artifactId: 'a', parts: [{ text: 'Hello.' }] }];
  return { id: 't', contextId: 'c', status: { state: `TASK_STATE_${state}` }, artifacts };
}

/** An error in the form of the binding: in 1.0.1 the members of `details` carry `@type`. */
function refusal(status: number, reason: string): Answer {
  const details = [{ '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason, domain: 'a2a-protocol.org' }];
  return {
    status,
    body: { error: { code: status, status: 'INVALID_ARGUMENT', message: `It is ${reason}.`, details } },
  };
}

const revisions = [
  ['1.0.0', 'application/json', { notCancelable: 409, contentType: 415, agentResponse: 502 }],
  ['1.0.1', 'application/a2a+json', { notCancelable: 400, contentType: 400, agentResponse: 500 }],
] as const;

describe.each(revisions)('a remote agent of a server of A2A %s', (_, mediaType, statuses) => {
  it('reads what is sent in its media type', async () => {
    const { connect } = await serve({ mediaType, send: { status: 200, body: { task: taskIn('COMPLETED') } } });
    expect((await (await connect()).run('Hi')).text).toBe('Hello.');
  });

  it('knows an error by its reason, whatever its status', async () => {
    const contentType = await serve({ mediaType, send: refusal(statuses.contentType, 'CONTENT_TYPE_NOT_SUPPORTED') });
    await expect((await contentType.connect()).run('Hi')).rejects.toMatchObject({
      code: 'PROVIDER_BAD_REQUEST',
      message: expect.stringContaining('It is CONTENT_TYPE_NOT_SUPPORTED.'),
    });
    const agentResponse = await serve({ mediaType, send: refusal(statuses.agentResponse, 'INVALID_AGENT_RESPONSE') });
    await expect((await agentResponse.connect({ silenceMs: 50 })).run('Hi')).rejects.toMatchObject({
      code: 'PROVIDER_SERVER',
      message: expect.stringContaining('It is INVALID_AGENT_RESPONSE.'),
    });
  });

  it('cancels once a task that can no more be canceled', async () => {
    const { connect, requests } = await serve({
      mediaType,
      send: { status: 200, body: { task: taskIn('WORKING') } },
      cancel: refusal(statuses.notCancelable, 'TASK_NOT_CANCELABLE'),
    });
    const turn = (await connect()).startTurn('Hi');
    await watch(turn).until('artifact-update');
    await turn.cancel();
    expect(requests.filter((each) => each.endsWith(':cancel'))).toEqual(['POST /tasks/t:cancel']);
  });
});
