import { describe, expect, it } from '@jest/globals';
import { InMemoryStateStore } from 'millrace';
import { type A2AServerOptions, apiKeyAuth, InMemoryPushStore } from 'millrace/a2a';
import { gate } from 'millrace/testing';
import { plainTools } from '../core/plain-tools.ts';
import { reach, type Wire, wires } from '../security/reach.ts';
import { isTask } from './messages.ts';
import { key, message, serverBench } from './server/test-server.ts';

const on = serverBench();
const alice = { 'x-api-key': key };
const long = 'x'.repeat(4_000);

/** What a refused call was answered with, as the binding has it. */
interface Answer {
  readonly status: number;
  readonly retryAfter: string | null | undefined;
  readonly body: string;
}

/** A client of one wire, and what a call that has to fail is answered with. */
async function dial(url: string, way: Wire, headers: Readonly<Record<string, string>> = alice) {
  let last: Response | undefined;
  const { client, options } = await reach(url, way, headers, (response) => {
    last = response.clone();
  });
  const refusalOf = async (call: Promise<unknown>): Promise<Answer> => {
    const failure = await call.then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(failure).toBeInstanceOf(Error);
    if (way[0] === 'GRPC') {
      const { status = 0, statusDetailsBin = '', cause } = Object(failure);
      return { status, retryAfter: cause?.metadata.get('retry-after')[0], body: String(statusDetailsBin) };
    }
    return {
      status: last?.status ?? 0,
      retryAfter: last?.headers.get('retry-after'),
      body: (await last?.text()) ?? '',
    };
  };
  return { client, options, refusalOf };
}

/** A limit of what is kept is told as the others: by status and code, by a reason with figures, and in a sentence. */
function expectLimit(
  [binding, version]: Wire,
  { status, body }: Answer,
  limit: 'maxKeptBytes' | 'maxHistory',
  max: number,
) {
  const reason = limit === 'maxKeptBytes' ? 'KEPT_LIMIT' : 'HISTORY_LIMIT';
  expect(status).toBe(binding === 'GRPC' ? 8 : 429);
  if (binding === 'HTTP+JSON' && version === '0.3') {
    expect(JSON.parse(body)).toEqual({ code: -32_000, message: expect.stringContaining(limit) });
    return;
  }
  if (binding === 'GRPC') {
    for (const part of [reason, 'millrace', limit, String(max)]) expect(body).toContain(part);
    return;
  }
  const { error } = JSON.parse(body);
  expect(error).toMatchObject(binding === 'JSONRPC' ? { code: -32_000 } : { code: 429, status: 'RESOURCE_EXHAUSTED' });
  expect(error.message).toContain(limit);
  const [detail] = binding === 'JSONRPC' ? error.data : error.details;
  expect(detail).toEqual({
    '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
    reason,
    domain: 'millrace',
    metadata: expect.objectContaining({ limit, max: String(max) }),
  });
}

async function serve(limits: A2AServerOptions['limits'], more: Partial<A2AServerOptions> = {}) {
  const provider = { call: async () => ({ message: { role: 'assistant' as const, content: 'Done.' } }) };
  const agent = on.echo([], { provider, taskStateStore: new InMemoryStateStore() });
  const auth = apiKeyAuth({ keys: [{ id: 'alice', key }] });
  return on.serve({ agent, auth, grpc: { port: 0 }, ...(limits && { limits }), ...more });
}

describe.each(wires)('a limit of what is kept, over %s of A2A %s', (...way) => {
  it('H-17 refuses messages, streams and registrations with 429 or its like, the reason, and when to try again', async () => {
    const push = { store: new InMemoryPushStore(), allowPrivateTargets: true, allowHttp: true };
    const { url } = await serve({ maxKeptBytes: 15_000 }, { push });
    const { client, options, refusalOf } = await dial(url, way);
    const task = await client.sendMessage(message(long), options);
    const config = {
      tenant: '',
      id: 'hook',
      taskId: isTask(task) ? task.id : '',
      url: 'http://127.0.0.1:9/hook',
      token: 't'.repeat(4_000),
      authentication: undefined,
    };
    const stream = () => client.sendMessageStream(message(long), options).next();
    const calls = [
      () => client.sendMessage(message(long), options),
      stream,
      () => client.createTaskPushNotificationConfig(config, options),
    ];
    // What the turn has written shows with the next count.
    for (const call of calls) {
      while (
        !(await call().then(
          () => false,
          () => true,
        ))
      );
      const answer = await refusalOf(call());
      expectLimit(way, answer, 'maxKeptBytes', 15_000);
      expect(Number(answer.retryAfter)).toBeGreaterThanOrEqual(1);
    }
  });

  it('H-17 refuses more messages to a task that runs than its history may have', async () => {
    const wait = gate();
    const agent = on.echo([{ toolCalls: [{ name: 'wait' }] }, { text: 'Done.' }], {
      taskStateStore: new InMemoryStateStore(),
      toolProviders: [plainTools({ wait: () => wait.pass() })],
    });
    const { url } = await serve({ maxHistory: 10 }, { agent });
    on.after(() => wait.open());
    const { client, options, refusalOf } = await dial(url, way);
    const immediately = {
      configuration: { acceptedOutputModes: [], taskPushNotificationConfig: undefined, returnImmediately: true },
    };
    const started = await client.sendMessage({ ...message('Work'), ...immediately }, options);
    await wait.reached;
    const taskId = isTask(started) ? started.id : '';
    const tell = (text: string) => client.sendMessage({ ...message(text, { taskId }), ...immediately }, options);
    const told = await Promise.allSettled(Array.from({ length: 20 }, (_, index) => tell(`More ${index}`)));
    // The message that began it and the answer that calls the tool are there already.
    expect(told.filter(({ status }) => status === 'fulfilled')).toHaveLength(8);
    const answer = await refusalOf(tell('One more'));
    expectLimit(way, answer, 'maxHistory', 10);
    // Waiting does not help.
    expect(answer.retryAfter ?? null).toBeNull();
  });
});
