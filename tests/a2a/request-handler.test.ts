import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { agent, InMemoryStateStore } from 'millrace';
import { gate, type ScriptedLLMStep, scriptedLLM } from 'millrace/testing';
import type { AgentSettings, GivenTools } from 'millrace/types';
import { obedient, plainTools } from '../core/plain-tools.ts';
import { refusal } from './bench.ts';
import { artifactText, collect, data, isTask, message, request, shortOf } from './messages.ts';
import { Serving, wires } from './serving.ts';

const open: Serving[] = [];
beforeEach(() => {
  // The SDK's transports print the errors that they send.
  jest.spyOn(console, 'error').mockImplementation(() => {});
});
afterEach(async () => {
  jest.restoreAllMocks();
  for (const each of open.splice(0)) await each.close();
});

async function serve(steps: readonly ScriptedLLMStep[], options: Partial<AgentSettings> & GivenTools = {}) {
  const provider = scriptedLLM(steps);
  const served = agent({ id: 'ada', provider, taskStateStore: new InMemoryStateStore(), ...options });
  const serving = await Serving.start({ agent: served });
  open.push(serving);
  return serving;
}

describe.each(wires)('over %s of A2A %s', (binding, version) => {
  it('a message is answered, and the task can be asked for', async () => {
    const client = await (await serve([{ text: ['Hello ', 'there.'] }])).client(binding, version);
    const task = await client.sendMessage(request(message('Hi')));
    if (!isTask(task)) throw new Error('no task');
    expect(task.status?.state).toBe(3);
    expect(artifactText(task, 'answer-1')).toBe('Hello there.');
    const got = await client.getTask({ tenant: '', id: task.id, historyLength: 1 });
    expect(got).toMatchObject({ id: task.id, contextId: task.contextId, status: { state: 3 } });
    expect(got.history).toHaveLength(1);
  });

  it('a message is answered in a stream', async () => {
    const client = await (await serve([{ text: ['Hello ', 'there.'] }])).client(binding, version);
    const all = await collect(client.sendMessageStream(request(message('Hi'))));
    // The SDK's client of 0.3 over HTTP drops `append`.
    const plus = binding === 'HTTP+JSON' && version === '0.3' ? '' : '+';
    expect(all.map(shortOf)).toEqual([
      'task:1',
      'status:2',
      'answer-1:Hello ',
      `answer-1${plus}:there.`,
      `answer-1${plus}.:`,
      'status:3',
    ]);
  });

  it('a task asks for input, is answered, and is over', async () => {
    const refund = { needsApproval: true, execute: () => 'refunded' };
    const serving = await serve([{ toolCalls: [{ name: 'refund' }] }, { text: 'Done.' }], {
      toolProviders: [plainTools({ refund })],
    });
    const client = await serving.client(binding, version);
    const asked = await client.sendMessage(request(message('Refund')));
    if (!isTask(asked)) throw new Error('no task');
    expect(asked.status).toMatchObject({ state: 6 });
    expect(asked.status?.message?.parts[1]?.content?.value).toMatchObject({
      question: { id: '1:0', kind: 'approval' },
    });
    const answer = message([data({ answers: { '1:0': { approved: true } } })], { taskId: asked.id });
    expect((await collect(client.sendMessageStream(request(answer)))).map(shortOf).at(-1)).toBe('status:3');
  });

  it('a task that runs is subscribed to, cancelled, and can be no more', async () => {
    const started = gate();
    const wait = { execute: (context: Parameters<typeof obedient>[0]) => started.pass().then(() => obedient(context)) };
    const serving = await serve([{ toolCalls: [{ name: 'wait' }] }], { toolProviders: [plainTools({ wait })] });
    const client = await serving.client(binding, version);
    const task = await client.sendMessage(request(message('Wait'), { returnImmediately: true }));
    if (!isTask(task)) throw new Error('no task');
    await started.reached;
    started.open();
    const stream = client.resubscribeTask({ tenant: '', id: task.id });
    expect(shortOf((await stream.next()).value ?? {})).toBe('task:2');
    const cancelled = await client.cancelTask({ tenant: '', id: task.id, metadata: undefined });
    expect(cancelled.status?.state).toBe(5);
    expect((await collect(stream)).map(shortOf).at(-1)).toBe('status:5');
    const again = await client.cancelTask({ tenant: '', id: task.id, metadata: undefined });
    expect(again.status?.state).toBe(5);
    expect(await refusal(client.resubscribeTask({ tenant: '', id: task.id }))).toMatch(/UnsupportedOperation|-32004/);
  });

  it('a task that there is not is not found, and one of somebody else neither', async () => {
    const serving = await serve([{ text: 'Hi.' }]);
    const ann = await serving.client(binding, version, 'ann');
    const task = await ann.sendMessage(request(message('Hi')));
    if (!isTask(task)) throw new Error('no task');
    const bob = await serving.client(binding, version, 'bob');
    for (const id of [task.id, crypto.randomUUID()])
      expect(await refusal(bob.getTask({ tenant: '', id }))).toMatch(/TaskNotFound/);
  });
});

it.each(['JSONRPC', 'HTTP+JSON'] as const)('tasks are listed over %s of A2A 1.0', async (binding) => {
  const says = () => ({ text: 'Hi.' });
  const client = await (await serve([says, says, says])).client(binding);
  for (const _ of [1, 2, 3]) await client.sendMessage(request(message('Hi')));
  const filter = { tenant: '', contextId: '', status: 3, statusTimestampAfter: undefined, includeArtifacts: true };
  const first = await client.listTasks({ ...filter, pageSize: 2, pageToken: '' });
  expect(first).toMatchObject({ pageSize: 2, totalSize: 3 });
  expect(first.tasks.map((task) => artifactText(task, 'answer-1'))).toEqual(['Hi.', 'Hi.']);
  const second = await client.listTasks({ ...filter, pageSize: 2, pageToken: first.nextPageToken });
  expect(second).toMatchObject({ nextPageToken: '', tasks: [{ status: { state: 3 } }] });
});
