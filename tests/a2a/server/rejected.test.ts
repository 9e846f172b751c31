import { describe, expect, it } from '@jest/globals';
import { type Extension, InMemoryStateStore } from 'millrace';
import { type A2AServerOptions, remoteAgent } from 'millrace/a2a';
import { reach, wires } from '../../security/reach.ts';
import { clientOf, message, serverBench } from './test-server.ts';

const on = serverBench();

const why = 'Ask again after 8:00 UTC.';
const closed: Extension = {
  name: 'office-hours',
  beforeTurn: ({ state }) =>
    JSON.stringify(state.messages).includes('now') ? { fail: { code: 'REJECTED', message: why } } : undefined,
};

const served = async (more: Partial<A2AServerOptions> = {}) => {
  const taskStateStore = new InMemoryStateStore();
  const agent = on.echo([{ text: 'Fine.' }], { taskStateStore, extensions: [closed] });
  return { ...(await on.serve({ agent, ...more })), taskStateStore };
};

const rejected = {
  state: 7,
  message: { role: 2, parts: [{ content: { $case: 'text', value: why } }] },
};

describe('a turn that an extension rejects', () => {
  it.each(wires)('is shown as rejected, with the reason, over %s in version %s', async (...way) => {
    const { url } = await served({ grpc: { port: 0 } });
    const { client, options } = await reach(url, way);
    const task = await client.sendMessage(message('Do it now.'), options);
    if (!('artifacts' in task)) throw new Error('no task');
    expect(task).toMatchObject({ status: rejected, artifacts: [] });
    expect(await client.getTask({ tenant: '', id: task.id }, options)).toMatchObject({ status: rejected });
    const seen: unknown[] = [];
    for await (const { payload } of client.sendMessageStream(message('Do it now.'), options)) {
      if (payload?.$case === 'statusUpdate') seen.push(payload.value.status);
    }
    expect(seen.at(-1)).toMatchObject(rejected);
  });

  it('is listed as rejected and not as failed, and takes no more messages', async () => {
    const { url } = await served();
    const client = await clientOf(url);
    const task = await client.sendMessage(message('Do it now.'));
    if (!('artifacts' in task)) throw new Error('no task');
    await client.sendMessage(message('Do it later.'));
    const filter = { tenant: '', contextId: '', statusTimestampAfter: undefined, pageSize: 10, pageToken: '' };
    const list = async (status: number) => {
      const request = { ...filter, status, historyLength: 0, includeArtifacts: false };
      return (await client.listTasks(request)).tasks.map(({ id }) => id);
    };
    expect(await list(7)).toEqual([task.id]);
    expect(await list(5)).toEqual([]);
    expect(await list(0)).toHaveLength(2);
    const more = message('And now?', { taskId: task.id });
    await expect(client.sendMessage(more)).rejects.toMatchObject({ name: 'UnsupportedOperationError' });
  });

  it('fails a turn of the engine, and a remote agent with a reason of its own', async () => {
    const { url, taskStateStore } = await served();
    const far = await remoteAgent({ url });
    await expect(far.run('Do it now.')).rejects.toMatchObject({
      code: 'PROVIDER_FAILED',
      reason: 'remote_rejected',
      message: expect.stringContaining(why),
    });
    const [only] = taskStateStore.list();
    expect(only).toMatchObject({ state: 'failed' });
    expect(taskStateStore.read(only?.taskId ?? '').at(-1)).toMatchObject({ type: 'turn.failed', code: 'REJECTED' });
  });

  it('leaves its message out of the conversation', async () => {
    const agent = on.echo([{ text: 'Fine.' }], { contextId: 'c', extensions: [closed] });
    await expect(agent.run('Do it now.')).rejects.toMatchObject({ code: 'REJECTED', message: why });
    const { messages } = await agent.run('Do it later.');
    expect(JSON.stringify(messages)).not.toContain('now');
  });
});
