import { describe, expect, it } from '@jest/globals';
import { InMemoryStateStore } from 'millrace';
import { type A2AServerOptions, InMemoryPushStore } from 'millrace/a2a';
import { reach, wires } from '../../security/reach.ts';
import { isTask, message as messageOf, request, text } from '../messages.ts';
import { answerOf, message, rpc, serverBench } from './test-server.ts';

const on = serverBench();

/** A task that is over, and the ways to it. */
async function served(more: Partial<A2AServerOptions> = {}) {
  const push = { store: new InMemoryPushStore(), allowHttp: true, allowPrivateTargets: true };
  const agent = on.echo([{ text: 'Hello.' }], { taskStateStore: new InMemoryStateStore() });
  const { url } = await on.serve({ agent, push, ...more });
  const { result } = await answerOf(
    rpc(url, 'SendMessage', { message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'Hi' }] } }),
  );
  const taskId: string = result.task.id;
  const legacy = (method: string, params: object) => rpc(url, method, params, { 'a2a-version': '' });
  const configs = `${url}/a2a/rest/v1/tasks/${taskId}/pushNotificationConfigs`;
  const post = (body: object) =>
    fetch(configs, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
  return { url, taskId, legacy, configs, post };
}

const hook = (path: string) => ({ url: `http://127.0.0.1:9/${path}` });

describe('a client of A2A 0.3', () => {
  it('P-16 gets the newest configuration where it names none', async () => {
    const { taskId, legacy, configs, url } = await served();
    const found = async () => answerOf(legacy('tasks/pushNotificationConfig/get', { id: taskId }));
    expect((await found()).error).toMatchObject({ code: -32001 });
    for (const id of ['zzz', 'aaa', 'mmm']) {
      const params = { taskId, pushNotificationConfig: { id, ...hook(id) } };
      await legacy('tasks/pushNotificationConfig/set', params);
      expect((await found()).result).toMatchObject({ taskId, pushNotificationConfig: { id } });
    }
    // The Python SDK writes None for no id.
    expect(await answerOf(fetch(`${configs}/None`))).toMatchObject({ pushNotificationConfig: { id: 'mmm' } });
    expect((await fetch(`${configs}/other`)).status).toBe(404);
    const current = await rpc(url, 'GetTaskPushNotificationConfig', { taskId, id: '' });
    expect((await answerOf(Promise.resolve(current))).error).toMatchObject({ code: -32001 });
  });

  it.each([
    [
      'as a configuration',
      (task: string) => ({
        name: `${task}/pushNotificationConfigs/x`,
        pushNotificationConfig: { id: 'x', ...hook('x') },
      }),
    ],
    [
      'as the message of the method',
      (task: string) => ({
        parent: task,
        configId: 'x',
        config: { name: `${task}/pushNotificationConfigs/x`, pushNotificationConfig: hook('x') },
      }),
    ],
    [
      'with the names of the protocol buffer',
      (task: string) => ({ parent: task, config_id: 'x', config: { push_notification_config: hook('x') } }),
    ],
  ])('P-16 sets a configuration over HTTP+JSON %s', async (_, body) => {
    const { taskId, post, configs } = await served();
    const response = await post(body(`tasks/${taskId}`));
    expect(response.status).toBe(201);
    expect(await response.json()).toMatchObject({
      name: `tasks/${taskId}/pushNotificationConfigs/x`,
      pushNotificationConfig: { id: 'x', ...hook('x') },
    });
    expect(await answerOf(fetch(`${configs}/x`))).toMatchObject({ pushNotificationConfig: hook('x') });
  });

  it('P-16 sets none for another task than that of the path, and none without one', async () => {
    const { post } = await served();
    for (const body of [
      { parent: 'tasks/other', config: { pushNotificationConfig: hook('x') } },
      { name: 'tasks/other/pushNotificationConfigs/x', pushNotificationConfig: hook('x') },
    ]) {
      const response = await post(body);
      expect([response.status, await response.json()]).toEqual([
        400,
        { code: -32602, message: 'The body names another task than the path.' },
      ]);
    }
    expect((await post({ config: 'x' })).status).toBe(400);
  });

  it.each([
    [
      'message/stream',
      {
        message: { kind: 'message', messageId: 'n', role: 'user', taskId: 'x', parts: [{ kind: 'text', text: 'Hi' }] },
      },
      -32001,
    ],
    ['message/stream', { message: { messageId: 'n', role: 'user', parts: [{ kind: 'text' }] } }, -32602],
    ['tasks/resubscribe', { id: 'x' }, -32001],
  ])('P-16 is refused a stream by one event, %s', async (method, params, code) => {
    const { legacy } = await served();
    const response = await legacy(method, params);
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/event-stream; charset=utf-8']);
    const [event, rest] = (await response.text()).split('\n\n');
    expect(JSON.parse(event?.replace(/^data: /, '') ?? '')).toMatchObject({ jsonrpc: '2.0', id: 1, error: { code } });
    expect(rest).toBe('');
  });

  it('P-16 is refused a stream with the status of a limit, where one is reached', async () => {
    const { legacy } = await served({ limits: { maxKeptBytes: 3_000 } });
    const parts = [{ kind: 'text', text: 'x'.repeat(3_000) }];
    const response = await legacy('message/stream', { message: { messageId: 'n', role: 'user', parts } });
    expect([response.status, response.headers.get('content-type')]).toEqual([429, 'application/json; charset=utf-8']);
  });

  // The SDK's messages of 0.3 have no such member over HTTP+JSON and gRPC. Once they do, the alignment page says too much.
  it.each(wires)('gets the metadata of its parts back where the SDK reads it: %s of %s', async (...way) => {
    const { url } = await served({ grpc: { port: 0 } });
    const { client, options } = await reach(url, way);
    const metadata = { from: 'a form' };
    const task = await client.sendMessage(
      request(messageOf([{ ...text('Hi'), metadata }], { messageId: 'n' })),
      options,
    );
    const current = await answerOf(rpc(url, 'GetTask', { id: isTask(task) ? task.id : '' }));
    const [binding, version] = way;
    const isLost = version === '0.3' && binding !== 'JSONRPC';
    expect(current.result.history[0].parts).toEqual([{ text: 'Hi', ...(!isLost && { metadata }) }]);
  });

  it('gets no metadata of its parts back over HTTP+JSON, where it sends that', async () => {
    const { url, legacy } = await served();
    const content = [{ text: 'Hi', metadata: { from: 'a form' } }];
    const response = await fetch(`${url}/a2a/rest/v1/message:send`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ message: { messageId: 'n', role: 'ROLE_USER', content } }),
    });
    const { task } = await answerOf(Promise.resolve(response));
    const { result } = await answerOf(legacy('tasks/get', { id: task.id }));
    expect(result.history[0].parts).toEqual([{ kind: 'text', text: 'Hi' }]);
  });

  it('P-16 gets the whole history over gRPC where it says nothing of it', async () => {
    const { url } = await served({ grpc: { port: 0 } });
    const { client, options } = await reach(url, ['GRPC', '0.3']);
    const task = await client.sendMessage(message('Hi', { messageId: 'm' }), options);
    const id = isTask(task) ? task.id : '';
    const history = async (historyLength: number) =>
      (await client.getTask({ tenant: '', id, historyLength }, options)).history.length;
    expect([await history(0), await history(1), await history(2)]).toEqual([2, 1, 2]);
  });
});

it.each([
  ['1.0', ''],
  ['0.3', '/v1'],
])('P-16 the answer to a deleted configuration is an empty message in %s', async (version, prefix) => {
  const { url, taskId, post } = await served();
  await post({ pushNotificationConfig: { id: 'x', ...hook('x') } });
  const path = `${url}/a2a/rest${prefix}/tasks/${taskId}/pushNotificationConfigs/x`;
  const headers = { 'a2a-version': version };
  const response = await fetch(path, { method: 'DELETE', headers });
  expect([response.status, await response.json()]).toEqual([200, {}]);
  expect((await fetch(path, { headers })).status).toBe(404);
  expect((await fetch(path.replace(taskId, 'other'), { method: 'DELETE', headers })).status).toBe(404);
});
