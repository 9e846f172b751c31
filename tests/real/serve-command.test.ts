import { expect, it } from '@jest/globals';
import { AgentFolder, ServeProcess } from '../a2a/server/serve-process.ts';
import { clientOf, message, rpc, serverBench, wireMessage } from '../a2a/server/test-server.ts';
import { runInProcess } from '../cli/run-in-process.ts';
import { eventually } from '../eventually.ts';
import { describeReal } from './real-part.ts';

const on = serverBench();

function serve(
  folder: AgentFolder,
  more: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
): ServeProcess {
  const started = new ServeProcess(
    ['--agent', folder.agent, '--store', folder.store, '--lease-ms', '500', ...more],
    env,
  );
  on.after(() => started.end('SIGKILL'));
  return started;
}

function agentFolder(): AgentFolder {
  const folder = new AgentFolder();
  on.after(() => folder.remove());
  return folder;
}

describeReal(['a2a'], 'millrace serve', () => {
  it('goes on, after kill -9 in the middle of a tool, with the turns that it left behind, and repeats no finished call', async () => {
    const folder = agentFolder();
    const first = serve(folder);
    const started = await (await clientOf(await first.url())).sendMessage({
      ...message('Do both.', { messageId: 'once' }),
      configuration: { returnImmediately: true, acceptedOutputModes: [], taskPushNotificationConfig: undefined },
    });
    const taskId = 'id' in started ? started.id : '';
    await eventually(() => folder.ledger().length === 2);
    await first.end('SIGKILL');

    const second = serve(folder);
    const client = await clientOf(await second.url());
    const states: unknown[] = [];
    for await (const { payload } of client.resubscribeTask({ tenant: '', id: taskId })) {
      folder.go();
      if (payload?.$case === 'statusUpdate') states.push(payload.value.status?.state);
    }
    expect(states.at(-1)).toBe(3);
    expect(await client.getTask({ tenant: '', id: taskId })).toMatchObject({
      status: { state: 3, message: { parts: [{ content: { value: 'Both are done.' } }] } },
    });
    expect(folder.ledger()).toEqual(['quick', `slow ${taskId}:2:0`, `slow ${taskId}:2:0`]);
    const again = await client.sendMessage(message('Do both.', { messageId: 'once' }));
    expect(again).toMatchObject({ id: taskId, status: { state: 3 } });
    expect(await second.end('SIGINT')).toBe(0);
  });

  it('drains on a signal: the stream is told, and the next server goes on', async () => {
    const folder = agentFolder();
    const first = serve(folder);
    const response = await rpc(await first.url(), 'SendStreamingMessage', wireMessage('Do both.', 'once'));
    await eventually(() => folder.ledger().length === 2);
    const ended = first.end('SIGTERM');
    await eventually(() => /shutting down/.test(first.output));
    folder.go();
    const told = await response.text();
    expect(told).toMatch(/event: error\ndata: .*The server is shutting down; the task continues/);
    expect(await ended).toBe(0);

    const second = serve(folder);
    const client = await clientOf(await second.url());
    expect(await client.sendMessage(message('Do both.', { messageId: 'once' }))).toMatchObject({
      status: { state: 3 },
    });
    expect(folder.ledger().filter((line) => line.startsWith('slow'))).toHaveLength(1);
  });

  it('asks callers for the keys of the environment, and never shows them', async () => {
    const folder = agentFolder();
    const key = 'the-key-of-alice-0123';
    const started = serve(folder, ['--log'], { MILLRACE_CLIENT_KEYS: `alice=${key}` });
    const url = await started.url();
    expect((await rpc(url, 'ListTasks', {})).status).toBe(401);
    expect((await rpc(url, 'ListTasks', {}, { authorization: `Bearer ${key}` })).status).toBe(200);
    await started.end('SIGINT');
    expect(started.output).toMatch(/"operation":"ListTasks","status":200/);
    expect(started.output).not.toContain(key);
  });

  it.each([
    [['--host', '0.0.0.0'], '--host 0.0.0.0 lets others reach the server; set MILLRACE_CLIENT_KEYS, or add --open'],
    [['--agent', 'nowhere.mjs'], 'cannot be found'],
    [['--model', 'x', '--agent', 'y'], '--agent includes the model'],
    [['--client-keys-env', 'NOT_SET'], 'is not set'],
  ])('refuses %j in one sentence', async (args, sentence) => {
    const { exitCode, stderr } = await runInProcess(['serve', ...args]);
    expect(stderr.replace(/\s+/g, ' ')).toContain(sentence);
    expect(exitCode).toBe(2);
  });
});
