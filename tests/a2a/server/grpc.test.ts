import { once } from 'node:events';
import { connect } from 'node:http2';
import type { AgentCard, Message, Task, TaskPushNotificationConfig } from '@a2a-js/sdk';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';
import { LegacyA2AService } from '@a2a-js/sdk/compat/v0_3/server/grpc';
import { describe, expect, it } from '@jest/globals';
import { InMemoryStateStore } from 'millrace';
import { type A2AServerOptions, a2aServer, apiKeyAuth, customAuth, InMemoryPushStore } from 'millrace/a2a';
import { gate, openResources } from 'millrace/testing';
import { capturedConsole } from '../../captured-console.ts';
import { obedient, plainTools } from '../../core/plain-tools.ts';
import { collect, data, isTask, shortOf, textOfPart } from '../messages.ts';
import { answerOf, clientOf, key, message, serverBench } from './test-server.ts';

const on = serverBench();

const versions = ['1.0', '0.3'] as const;

interface Reached {
  readonly grpcAddress: string;
  readonly card: AgentCard;
  readonly url: string;
}

async function served(more: Partial<A2AServerOptions> = {}): Promise<Reached> {
  const auth = apiKeyAuth({ keys: [{ id: 'alice', key }] });
  const agent = on.echo([{ text: ['Hel', 'lo.'] }, { text: 'Again.' }]);
  const { grpcAddress = '', cardUrl, url } = await on.serve({ agent, auth, grpc: { port: 0 }, ...more });
  const card = await answerOf(fetch(cardUrl, { headers: { 'a2a-version': '1.0' } }));
  return { grpcAddress, card, url };
}

/** A client over gRPC of one version, which shows the key of alice. */
async function dial({ grpcAddress, card }: Reached, version: (typeof versions)[number], shown = key) {
  const supportedInterfaces = card.supportedInterfaces.filter(
    (each) => each.protocolBinding === 'GRPC' && each.protocolVersion === version,
  );
  expect(supportedInterfaces).toHaveLength(1);
  const factory = new GrpcTransportFactory({ legacyCompat: { enabled: true } });
  const transport = await factory.create(grpcAddress, { ...card, supportedInterfaces });
  const serviceParameters = { 'a2a-version': version, ...(shown && { 'x-api-key': shown }) };
  return { transport, options: { serviceParameters } };
}

function taskIn(answer: Message | Task): Task {
  if (!isTask(answer)) throw new Error('no task');
  return answer;
}

const config = (taskId: string): TaskPushNotificationConfig => ({
  tenant: '',
  id: '',
  taskId,
  url: 'http://127.0.0.1:9/hook',
  token: '',
  authentication: undefined,
});

describe.each(versions)('gRPC in version %s', (version) => {
  it('answers, streams, and shows the task', async () => {
    const { transport, options } = await dial(await served(), version);
    const seen = await collect(transport.sendMessageStream(message('Hi'), options));
    expect([shortOf(seen[0] ?? {}), shortOf(seen.at(-1) ?? {})]).toEqual(['task:1', 'status:3']);
    const pieces = seen.flatMap(({ payload }) => (payload?.$case === 'artifactUpdate' ? [payload.value] : []));
    expect(pieces.flatMap(({ artifact }) => artifact?.parts.map(textOfPart) ?? []).join('')).toBe('Hello.');
    expect(pieces.map(({ lastChunk }) => lastChunk)).toEqual(pieces.map((_, index) => index === pieces.length - 1));
    const task = taskIn(await transport.sendMessage(message('Hi'), options));
    expect(task).toMatchObject({ status: { state: 3 }, artifacts: [{ artifactId: 'answer-1' }] });
    expect(await transport.getTask({ tenant: '', id: task.id, historyLength: 1 }, options)).toMatchObject({
      id: task.id,
      history: [{ messageId: `${task.id}:final` }],
    });
  });

  it('asks for input, takes the answer, and subscribes to what follows', async () => {
    const refund = { needsApproval: true, execute: () => 'refunded' };
    const agent = on.echo([{ toolCalls: [{ name: 'refund' }] }, { text: 'Done.' }], {
      toolProviders: [plainTools({ refund })],
    });
    const { transport, options } = await dial(await served({ agent }), version);
    const asked = taskIn(await transport.sendMessage(message('Refund'), options));
    expect(asked.status?.state).toBe(6);
    const stream = transport.resubscribeTask({ tenant: '', id: asked.id }, options);
    expect(shortOf((await stream.next()).value ?? {})).toBe('task:6');
    const answer = message('', { taskId: asked.id });
    const parts = [data({ answers: { '1:0': { approved: true } } })];
    await transport.sendMessage({ ...answer, message: { ...answer.message, parts } }, options);
    expect((await collect(stream)).map(shortOf).at(-1)).toBe('status:3');
  });

  it('cancels, and says what is wrong by the error of the protocol', async () => {
    const started = gate();
    started.open();
    const wait = {
      execute: (context: Parameters<typeof obedient>[0]) => started.pass().then(() => obedient(context)),
    };
    const agent = on.echo([{ toolCalls: [{ name: 'wait' }] }], { toolProviders: [plainTools({ wait })] });
    const { transport, options } = await dial(await served({ agent }), version);
    const stream = transport.sendMessageStream(message('Wait'), options);
    const first = await stream.next();
    const { id } = Object(first.value?.payload?.value);
    await started.reached;
    const cancelled = await transport.cancelTask({ tenant: '', id, metadata: undefined }, options);
    expect(cancelled.status?.state).toBe(5);
    expect((await collect(stream)).map(shortOf).at(-1)).toBe('status:5');
    const over = transport.resubscribeTask({ tenant: '', id }, options);
    await expect(over.next()).rejects.toMatchObject({ name: 'UnsupportedOperationError' });
    const missing = transport.getTask({ tenant: '', id: crypto.randomUUID(), historyLength: 0 }, options);
    await expect(missing).rejects.toMatchObject({ name: 'TaskNotFoundError' });
  });

  it('registers webhooks, and gives the extended card', async () => {
    const push = { store: new InMemoryPushStore(), allowHttp: true, allowPrivateTargets: true };
    const { transport, options } = await dial(await served({ push }), version);
    const { id: taskId } = taskIn(await transport.sendMessage(message('Hi'), options));
    const made = await transport.createTaskPushNotificationConfig(config(taskId), options);
    const named = { tenant: '', taskId, id: made.id };
    expect(await transport.getTaskPushNotificationConfig(named, options)).toMatchObject({ id: made.id, taskId });
    const list = { tenant: '', taskId, pageSize: 10, pageToken: '' };
    expect((await transport.listTaskPushNotificationConfig(list, options)).configs).toHaveLength(1);
    await transport.deleteTaskPushNotificationConfig(named, options);
    expect((await transport.listTaskPushNotificationConfig(list, options)).configs).toEqual([]);
    expect(await transport.getExtendedAgentCard({ tenant: '' }, options)).toMatchObject({ name: 'echo' });
  });

  it('turns strangers away', async () => {
    const { transport, options } = await dial(await served(), version, '');
    await expect(transport.sendMessage(message('Hi'), options)).rejects.toThrow(/Authentication is required/);
    await expect(transport.sendMessageStream(message('Hi'), options).next()).rejects.toThrow(/Authentication is/);
  });
});

describe('gRPC', () => {
  // The client of the SDK loses it.
  it('says in 0.3, too, which pieces of a text go on with it', async () => {
    const { grpcAddress } = await served();
    const { makeGenericClientConstructor, credentials, Metadata } = await import('@grpc/grpc-js');
    const Client = makeGenericClientConstructor(LegacyA2AService, 'a2a.v1.A2AService');
    const client = new Client(grpcAddress, credentials.createInsecure());
    on.after(() => client.close());
    const { sendStreamingMessage: method } = LegacyA2AService;
    const sent = method.requestDeserialize(
      method.requestSerialize({
        request: {
          messageId: 'm',
          contextId: '',
          taskId: '',
          role: 1,
          content: [{ part: { $case: 'text', value: 'Hi' } }],
          metadata: undefined,
          extensions: [],
        },
        configuration: undefined,
        metadata: undefined,
      }),
    );
    const metadata = new Metadata();
    metadata.set('x-api-key', key);
    const stream = client.makeServerStreamRequest(
      method.path,
      method.requestSerialize,
      method.responseDeserialize,
      sent,
      metadata,
    );
    const flags: [boolean, boolean][] = [];
    for await (const { payload } of stream)
      if (payload?.$case === 'artifactUpdate') flags.push([payload.value.append, payload.value.lastChunk]);
    expect(flags[0]).toEqual([false, false]);
    expect(flags.slice(1).every(([append]) => append)).toBe(true);
    expect(flags.at(-1)).toEqual([true, true]);
  });

  it('lists tasks in 1.0, and takes a version with a patch number', async () => {
    const { transport } = await dial(await served(), '1.0');
    const options = { serviceParameters: { 'x-api-key': key, 'a2a-version': '1.0.1' } };
    await transport.sendMessage(message('Hi'), options);
    const all = { tenant: '', contextId: '', status: 0, pageToken: '', statusTimestampAfter: undefined };
    expect((await transport.listTasks(all, options)).tasks).toHaveLength(1);
  });

  it('shows one owner’s tasks over all transports', async () => {
    const reached = await served();
    const { transport, options } = await dial(reached, '0.3');
    const { id } = taskIn(await transport.sendMessage(message('Hi'), options));
    const http = await clientOf(reached.url, { headers: { 'x-api-key': key } });
    expect(await http.getTask({ tenant: '', id })).toMatchObject({ id, status: { state: 3 } });
  });
});

describe('listening over HTTP and gRPC', () => {
  it('begins no more where the server is closed meanwhile, and leaves nothing open', async () => {
    const resources = openResources();
    const server = await a2aServer({ agent: on.echo([]), store: new InMemoryStateStore(), grpc: { port: 0 } });
    const beginning = server.listen({ port: 0 });
    const refused = expect(beginning).rejects.toMatchObject({ code: 'INVALID_CONFIG' });
    await server.close();
    await refused;
    await resources.assertNone();
  });

  it('leaves nothing open where the port of gRPC cannot be had', async () => {
    const { grpcAddress } = await on.serve({ agent: on.echo([]), grpc: { port: 0 }, recoverEveryMs: 0 });
    const resources = openResources();
    const port = Number(grpcAddress?.split(':').at(-1));
    const server = await a2aServer({ agent: on.echo([]), store: new InMemoryStateStore(), grpc: { port } });
    const logged = capturedConsole('error');
    await expect(server.listen({ port: 0 })).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    expect(logged).toEqual([expect.stringContaining('No address added')]);
    await resources.assertNone();
  });
});

describe('a connection of gRPC', () => {
  it('is asked for a sign of life, so that nothing in between takes it for dead', async () => {
    const { grpcAddress } = await served({ heartbeatMs: 20 });
    const session = connect(`http://${grpcAddress}`);
    on.after(() => session.destroy());
    await once(session, 'ping');
    await once(session, 'ping');
  });
});

describe('streams over gRPC', () => {
  /** A server whose model never answers, and whose streams are counted. */
  async function halting(more: Partial<A2AServerOptions>) {
    const held = gate();
    on.after(() => held.open());
    const call = async () => {
      await held.pass();
      return { message: { role: 'assistant' as const, content: 'Done.' } };
    };
    return served({ agent: on.echo([], { provider: { call } }), ...more });
  }

  it('are counted off again where they failed', async () => {
    const { transport, options } = await dial(await served({ maxStreams: 1 }), '1.0');
    for (const _ of [1, 2, 3]) {
      const failing = transport.resubscribeTask({ tenant: '', id: 'unknown' }, options);
      await expect(failing.next()).rejects.toThrow(/no such task/);
    }
    await collect(transport.sendMessageStream(message('Hi'), options));
  });

  it('H-17 are refused beyond the turns that one caller may have', async () => {
    const { transport, options } = await dial(await halting({ maxTurns: 1 }), '1.0');
    await transport.sendMessageStream(message('Hi'), options).next();
    await expect(transport.sendMessage(message('Hi'), options)).rejects.toThrow(/Too many of your tasks/);
    await expect(transport.sendMessageStream(message('Hi'), options).next()).rejects.toThrow(/Too many of your tasks/);
  });

  it('are counted off once where their client leaves', async () => {
    const { transport, options } = await dial(await halting({ maxStreams: 2 }), '1.0');
    const open = (signal?: AbortSignal) =>
      transport.sendMessageStream(message('Hi'), { ...options, ...(signal && { signal }) });
    const leaving = new AbortController();
    await open(leaving.signal).next();
    await open().next();
    await expect(open().next()).rejects.toThrow(/Too many streams/);
    leaving.abort();
    const admitted = async () =>
      open()
        .next()
        .then(
          () => true,
          () => false,
        );
    while (!(await admitted()));
    await expect(open().next()).rejects.toThrow(/Too many streams/);
  });

  it('are not counted where their client left while it was asked who it is', async () => {
    const asked = gate();
    const auth = customAuth(async ({ headers }) => {
      if (headers['x-slow']) await asked.pass();
      return { id: 'alice' };
    });
    const { transport } = await dial(await halting({ maxStreams: 1, auth }), '1.0');
    const serviceParameters = { 'a2a-version': '1.0' };
    const leaving = new AbortController();
    const slow = { serviceParameters: { ...serviceParameters, 'x-slow': '1' }, signal: leaving.signal };
    const left = transport.sendMessageStream(message('Hi'), slow).next();
    await asked.reached;
    leaving.abort();
    await expect(left).rejects.toThrow();
    // What comes later over the same connection is heard of later.
    await transport.getTask({ tenant: '', id: 'x' }, { serviceParameters }).catch(() => {});
    asked.open();
    expect((await transport.sendMessageStream(message('Hi'), { serviceParameters }).next()).done).toBe(false);
  });
});
