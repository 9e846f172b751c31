import { once } from 'node:events';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { AgentCard, StreamResponse, Task } from '@a2a-js/sdk';
import {
  buildGrpcErrorMetadata,
  GrpcContentTypeNotSupportedError,
  GrpcExtendedAgentCardNotConfiguredError,
  GrpcExtensionSupportRequiredError,
  GrpcInvalidAgentResponseError,
  GrpcPushNotificationNotSupportedError,
  GrpcRequestMalformedError,
  GrpcTaskNotCancelableError,
  GrpcTaskNotFoundError,
  GrpcUnsupportedOperationError,
  GrpcVersionNotSupportedError,
} from '@a2a-js/sdk/errors/grpc';
import { Metadata } from '@grpc/grpc-js';
import { describe, expect, it } from '@jest/globals';
import { type Agent, AgentLoopError, type ErrorCode, InMemoryStateStore } from 'millrace';
import { type A2AServerOptions, apiKeyAuth, type RemoteAgentOptions, remoteAgent } from 'millrace/a2a';
import { gate, scriptedLLM } from 'millrace/testing';
import { obedient, plainTools } from '../../core/plain-tools.ts';
import { textsOf, watch } from '../../core/watch-events.ts';
import { eventually } from '../../eventually.ts';
import { answerOf, key, serverBench } from '../server/test-server.ts';
import { cardAt, cardOf, grpcWire, type Stream } from './grpc-wire.ts';
import { wireStatus, wireSubmitted, wireTask, wireText } from './wire-server.ts';

const on = serverBench();

interface Reached {
  readonly far: Agent;
  readonly shownKeys: string[];
}

/** An agent of `a2aServer`, reached over gRPC of one version, with the key of alice. */
async function reach(
  version: '1.0' | '0.3',
  served: Agent,
  { server = {}, ...options }: Partial<RemoteAgentOptions> & { readonly server?: Partial<A2AServerOptions> } = {},
): Promise<Reached> {
  const auth = apiKeyAuth({ keys: [{ id: 'alice', key }] });
  const { grpcAddress = '', cardUrl } = await on.serve({ agent: served, auth, grpc: { port: 0 }, ...server });
  const card = await answerOf(fetch(cardUrl, { headers: { 'a2a-version': '1.0' } }));
  const own = AgentCard.fromJSON(card).supportedInterfaces.filter(
    (each) => each.protocolBinding === 'GRPC' && each.protocolVersion === version,
  );
  expect(own).toHaveLength(1);
  // The card for callers that are known is asked for over gRPC.
  const url = await cardAt(on, { ...card, supportedInterfaces: own });
  const shownKeys: string[] = [];
  const headers = async () => {
    shownKeys.push(key);
    return { 'X-Api-Key': key };
  };
  const origins = [`http://${grpcAddress}`];
  return { far: await remoteAgent({ url, auth: headers, origins, contextId: 'c', ...options }), shownKeys };
}

describe.each(['1.0', '0.3'] as const)('a remote agent over gRPC of A2A %s', (version) => {
  it('streams and ends as the turn does, and shows its credentials in each call', async () => {
    const { far, shownKeys } = await reach(version, on.echo([{ text: ['Hel', 'lo.'] }]));
    expect(far.name).toBe('echo');
    const turn = far.startTurn('Hi');
    const reader = watch(turn);
    expect((await turn.result()).text).toBe('Hello.');
    expect(Object.values(textsOf(reader.events))).toEqual(['Hello.']);
    // The card, the extended card, the message and the task at its end.
    expect(shownKeys.length).toBeGreaterThanOrEqual(4);
  });

  it('suspends where the other side asks, and continues with the answer', async () => {
    const refund = { needsApproval: true, execute: () => 'refunded' };
    const served = on.echo([{ toolCalls: [{ name: 'refund' }] }, { text: 'Done.' }], {
      toolProviders: [plainTools({ refund })],
    });
    const { far } = await reach(version, served, { taskStateStore: new InMemoryStateStore() });
    const { questions } = await far.run('Refund', { taskId: 't' });
    expect(questions).toMatchObject([{ data: { question: { kind: 'approval', toolName: 'refund' } } }]);
    const answers = { [questions[0]?.id ?? '']: { approved: true } };
    expect((await far.resume('t', { answers }).result()).text).toBe('Done.');
  });

  it('cancels the remote task with the turn', async () => {
    const [started, ended] = [gate(), gate()];
    const execute = (context: Parameters<typeof obedient>[0]) => {
      started.open();
      return obedient(context).finally(() => ended.open());
    };
    const served = on.echo([{ toolCalls: [{ name: 'wait' }] }], { toolProviders: [plainTools({ wait: { execute } })] });
    const { far } = await reach(version, served);
    const turn = far.startTurn('Wait');
    watch(turn);
    await started.pass();
    await turn.cancel();
    await ended.pass();
  });

  it('says that its credentials are refused', async () => {
    const { far } = await reach(version, on.echo([]), {
      name: 'far',
      description: 'Far.',
      auth: { headers: { 'x-api-key': 'another-key-of-nobody' } },
    });
    await expect(far.run('Hi')).rejects.toMatchObject({
      code: 'PROVIDER_AUTH',
      message: expect.stringMatching(/refuses the credentials: check auth/),
    });
  });
});

/** Fails its first reads, as a store that is away. */
class AwayStore extends InMemoryStateStore {
  readonly #codes: ErrorCode[];

  constructor(...codes: ErrorCode[]) {
    super();
    this.#codes = codes;
  }

  override read(...args: Parameters<InMemoryStateStore['read']>): ReturnType<InMemoryStateStore['read']> {
    const code = this.#codes.shift();
    if (code === undefined) return super.read(...args);
    throw new AgentLoopError(code, 'redis://user:password@10.0.0.7 is away.', { retryable: true });
  }
}

describe.each(['1.0', '0.3'] as const)('H-13 a remote agent of Millrace over gRPC of A2A %s', (version) => {
  it('sends its message again where the server says that it cannot work at the moment', async () => {
    const taskStateStore = new AwayStore('BUSY', 'UNAVAILABLE');
    const provider = scriptedLLM([{ text: 'Hello.' }]);
    const { far } = await reach(version, on.echo([], { provider, taskStateStore }));
    expect((await far.run('Hi')).text).toBe('Hello.');
    expect(provider.calls).toHaveLength(1);
  });

  it('sends it once where the server says that it has failed, and reads none of its own words', async () => {
    const taskStateStore = new AwayStore('POISON', 'POISON');
    const { far } = await reach(version, on.echo([], { taskStateStore }));
    await expect(far.run('Hi')).rejects.toMatchObject({
      code: 'PROVIDER_SERVER',
      message: expect.stringMatching(/fails with "The agent has failed."/),
    });
  });
});

const update = (json: object) => StreamResponse.fromJSON(json);

describe('a remote agent over gRPC', () => {
  it.each([
    ['maxBodyBytes', { maxBodyBytes: 100_000 }],
    ['maxEventBytes', { maxEventBytes: 100_000 }],
  ])('ends where a message is larger than %s', async (option, limits) => {
    const large = update(wireText('x'.repeat(200_000), false));
    const { far } = await grpcWire(on, { stream: (call) => void call.write(large) }, limits);
    await expect(far.run('Go.')).rejects.toMatchObject({
      code: 'PROVIDER_TOO_LARGE',
      message: expect.stringContaining(option),
    });
  });

  it('takes a task of more than the four MiB that gRPC takes by default', async () => {
    const long = 'x'.repeat(5 * 1024 * 1024);
    const end = () => Task.fromJSON(wireTask('COMPLETED', [long]));
    const { far } = await grpcWire(on, {
      stream(call) {
        call.write(update(wireSubmitted));
        call.write(update(wireStatus('COMPLETED')));
        call.end();
      },
      task: end,
    });
    expect((await far.run('Go.')).text).toHaveLength(long.length);
  });

  it('gives up a call that is not answered in time, and closes it', async () => {
    const closed = gate();
    const stream = (call: Stream) => void call.on('cancelled', () => closed.open());
    const { far } = await grpcWire(on, { stream }, { requestTimeoutMs: 200, silenceMs: 50 });
    await expect(far.run('Go.')).rejects.toMatchObject({
      message: expect.stringMatching(/did not answer in time: raise requestTimeoutMs/),
    });
    await closed.pass();
  });

  it('closes its stream, and cancels the task, where the turn is cancelled', async () => {
    const closed = gate();
    const { far, calls } = await grpcWire(on, {
      stream(call) {
        call.on('cancelled', () => closed.open());
        call.write(update(wireSubmitted));
        call.write(update(wireText('One', false)));
      },
    });
    const turn = far.startTurn('Go.');
    await watch(turn).until('artifact-update');
    await turn.cancel();
    await closed.pass();
    await eventually(() => calls.at(-1) === 'CancelTask');
  });

  it('asks for the task where the stream ends well without an end of the task', async () => {
    const { far, calls } = await grpcWire(on, {
      stream(call) {
        call.write(update(wireSubmitted));
        call.write(update(wireText('One ', false)));
        call.end();
      },
      task: () => Task.fromJSON(wireTask('COMPLETED', ['One ', 'two.'])),
    });
    const turn = far.startTurn('Go.');
    const reader = watch(turn);
    expect((await turn.result()).text).toBe('One two.');
    expect(Object.values(textsOf(reader.events))).toEqual(['One two.']);
    expect(calls).toEqual(['SendStreamingMessage', 'GetTask']);
  });

  it('does not take a stream without a message for an answer', async () => {
    const { far, calls } = await grpcWire(on, { stream: (call) => void call.end() }, { silenceMs: 1 });
    await expect(far.run('Go.')).rejects.toMatchObject({ code: 'PROVIDER_STREAM_CLOSED' });
    expect(calls).toEqual(['SendStreamingMessage']);
  });

  it('follows the task where the stream breaks', async () => {
    let asked = 0;
    const { far, calls } = await grpcWire(on, {
      stream(call) {
        call.write(update(wireSubmitted));
        call.write(update(wireText('One ', false)));
        call.emit('error', { code: 14, details: 'gone' });
      },
      task: () =>
        Task.fromJSON(asked++ === 0 ? wireTask('WORKING', ['One ']) : wireTask('COMPLETED', ['One ', 'two.'])),
    });
    const turn = far.startTurn('Go.');
    const reader = watch(turn);
    expect((await turn.result()).text).toBe('One two.');
    expect(Object.values(textsOf(reader.events))).toEqual(['One two.']);
    expect(calls.filter((call) => call === 'SendStreamingMessage')).toHaveLength(1);
  });

  // The statuses of 1.0.1 (section 5.4), and those that 1.0.0 had in their place.
  it.each([
    [GrpcTaskNotFoundError, 5, 'PROVIDER_NOT_FOUND', false],
    [GrpcTaskNotCancelableError, 9, 'PROVIDER_BAD_REQUEST', false],
    [GrpcPushNotificationNotSupportedError, 9, 'PROVIDER_BAD_REQUEST', false],
    [GrpcPushNotificationNotSupportedError, 12, 'PROVIDER_BAD_REQUEST', false],
    [GrpcUnsupportedOperationError, 9, 'PROVIDER_BAD_REQUEST', true],
    [GrpcUnsupportedOperationError, 12, 'PROVIDER_BAD_REQUEST', true],
    [GrpcContentTypeNotSupportedError, 3, 'PROVIDER_BAD_REQUEST', false],
    [GrpcInvalidAgentResponseError, 13, 'PROVIDER_SERVER', false],
    [GrpcExtendedAgentCardNotConfiguredError, 9, 'PROVIDER_BAD_REQUEST', false],
    [GrpcExtensionSupportRequiredError, 9, 'PROVIDER_BAD_REQUEST', false],
    [GrpcVersionNotSupportedError, 9, 'PROVIDER_BAD_REQUEST', false],
    [GrpcVersionNotSupportedError, 12, 'PROVIDER_BAD_REQUEST', false],
    [GrpcRequestMalformedError, 3, 'PROVIDER_BAD_REQUEST', false],
  ])('understands %p with the status %i', async (Failure, status, code, isAskedWithoutStream) => {
    const refuse = (answer: (error: object) => void) => {
      const error = new Failure({ status });
      answer({ code: status, details: error.message, metadata: buildGrpcErrorMetadata(Metadata, error) });
    };
    const { far, calls } = await grpcWire(on, {
      stream: (call) => refuse((error) => call.emit('error', error)),
      send: (answer) => refuse(answer),
    });
    await expect(far.run('Go.')).rejects.toMatchObject({ code });
    expect(calls).toEqual(['SendStreamingMessage', ...(isAskedWithoutStream ? ['SendMessage'] : [])]);
  });

  it.each([
    [3, 'PROVIDER_BAD_REQUEST'],
    [4, 'PROVIDER_TIMEOUT'],
    [5, 'PROVIDER_NOT_FOUND'],
    [7, 'PROVIDER_AUTH'],
    [8, 'PROVIDER_RATE_LIMIT'],
    [9, 'PROVIDER_BAD_REQUEST'],
    [12, 'PROVIDER_BAD_REQUEST'],
    [13, 'PROVIDER_SERVER'],
    [14, 'PROVIDER_STREAM_CLOSED'],
    [16, 'PROVIDER_AUTH'],
  ])('understands the status %i without details', async (status, code) => {
    const error = { code: status, details: 'words of a proxy' };
    const stream = (call: Stream) => void call.emit('error', error);
    const { far } = await grpcWire(on, { stream, send: (answer) => answer(error) }, { silenceMs: 1 });
    await expect(far.run('Go.')).rejects.toMatchObject({ code });
  });

  it('says that nobody is there', async () => {
    const free = createTcpServer();
    await once(free.listen(0, '127.0.0.1'), 'listening');
    const { port } = free.address() as AddressInfo;
    await new Promise((resolve) => free.close(resolve));
    const url = await cardAt(on, cardOf(`127.0.0.1:${port}`));
    const far = await remoteAgent({ url, origins: [`http://127.0.0.1:${port}`], silenceMs: 1 });
    await expect(far.run('Go.')).rejects.toMatchObject({ code: 'PROVIDER_UNREACHABLE' });
  });

  it('goes to no address that was not named, and says which to name', async () => {
    const { calls, port } = await grpcWire(on, {});
    const url = await cardAt(on, cardOf(`127.0.0.1:${port}`));
    await expect(remoteAgent({ url }).then((far) => far.run('Go.'))).rejects.toMatchObject({
      code: 'PROVIDER_PROTOCOL',
      message: expect.stringContaining(`add https://127.0.0.1:${port} to origins`),
    });
    expect(calls).toEqual([]);
  });

  it('is not chosen before another binding unless its address is named', async () => {
    const { port } = await grpcWire(on, {});
    const bindings = [{ url: 'http://127.0.0.1:9/', protocolBinding: 'JSONRPC', protocolVersion: '1.0' }];
    const url = await cardAt(on, cardOf(`127.0.0.1:${port}`, bindings));
    await expect(remoteAgent({ url }).then((far) => far.run('Go.'))).rejects.toMatchObject({
      message: expect.stringContaining('is found at http://127.0.0.1:9'),
    });
  });

  it.each([
    ['127.0.0.1:%', 'https://127.0.0.1:%'],
    ['https://127.0.0.1:%/a2a', 'https://127.0.0.1:%'],
    ['grpcs://127.0.0.1:%', 'https://127.0.0.1:%'],
  ])('begins TLS with %s where %s is named, and sends nothing in the clear', async (address, origin) => {
    const first = gate();
    let bytes = Buffer.alloc(0);
    const tcp = createTcpServer((socket) => {
      socket.on('error', () => {});
      socket.once('data', (given) => {
        bytes = given;
        socket.destroy();
        first.open();
      });
    });
    await once(tcp.listen(0, '127.0.0.1'), 'listening');
    on.after(() => tcp.close());
    const port = String((tcp.address() as AddressInfo).port);
    const url = await cardAt(on, cardOf(address.replace('%', port)));
    const far = await remoteAgent({ url, origins: [origin.replace('%', port)], auth: { bearer: key }, silenceMs: 1 });
    await expect(far.run('Go.')).rejects.toMatchObject({ code: expect.stringMatching(/^PROVIDER_(UNREACH|STREAM)/) });
    await first.pass();
    // A handshake of TLS.
    expect([...bytes.subarray(0, 2)]).toEqual([0x16, 0x03]);
  });

  it('speaks no plaintext to an address with TLS', async () => {
    const { calls, port } = await grpcWire(on, {});
    const url = await cardAt(on, cardOf(`https://127.0.0.1:${port}`));
    const far = remoteAgent({ url, origins: [`http://127.0.0.1:${port}`] }).then((agent) => agent.run('Go.'));
    await expect(far).rejects.toMatchObject({ code: 'PROVIDER_PROTOCOL' });
    expect(calls).toEqual([]);
  });
});
