import { afterEach, expect, it } from '@jest/globals';
import { agent, InMemoryStateStore } from '../../src/index.ts';
import { scriptedLLM } from '../../src/testing/index.ts';
import { artifactText, collect, isTask, message, request, shortOf } from './messages.ts';
import { Serving, wires } from './serving.ts';

let serving: Serving | undefined;
afterEach(async () => {
  await serving?.close();
  serving = undefined;
});

it.each(wires)('answers a message over %s %s', async (binding, version) => {
  const provider = scriptedLLM([{ text: ['Hello ', 'there.'] }]);
  serving = await Serving.start({
    agent: agent({ name: 'greeter', provider, taskStateStore: new InMemoryStateStore() }),
  });
  const client = await serving.client(binding, version);
  const task = await client.sendMessage(request(message('Hi')));
  if (!isTask(task)) throw new Error('no task');
  expect(task.status?.state).toBe(3);
  expect(artifactText(task, 'answer-1')).toBe('Hello there.');
});

it.each(wires)('streams over %s %s', async (binding, version) => {
  const provider = scriptedLLM([{ text: ['Hello ', 'there.'] }]);
  serving = await Serving.start({
    agent: agent({ name: 'greeter', provider, taskStateStore: new InMemoryStateStore() }),
  });
  const client = await serving.client(binding, version);
  const all = await collect(client.sendMessageStream(request(message('Hi'))));
  expect(all.map(shortOf)).toEqual([
    'task:1',
    'status:2',
    'answer-1:Hello ',
    'answer-1+:there.',
    'answer-1+.:',
    'status:3',
  ]);
});
