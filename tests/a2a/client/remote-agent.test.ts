import { afterEach, describe, expect, it } from '@jest/globals';
import { agent, agentTools, InMemoryStateStore } from 'millrace';
import { remoteAgent } from 'millrace/a2a';
import { scriptedLLM } from 'millrace/testing';
import { textsOf, watch } from '../../core/watch-events.ts';
import { type SdkServer, type SdkServerOptions, sdkServer } from './sdk-server.ts';

const open: SdkServer[] = [];

async function serving(options: SdkServerOptions): Promise<SdkServer> {
  const server = await sdkServer(options);
  open.push(server);
  return server;
}

afterEach(async () => {
  await Promise.all(open.splice(0).map((server) => server.close()));
});

const text = (value: string) => [{ text: value }];

const ways = [
  { transport: 'JSONRPC', version: '1.0' },
  { transport: 'HTTP+JSON', version: '1.0' },
  { transport: 'JSONRPC', version: '0.3' },
  { transport: 'HTTP+JSON', version: '0.3' },
] as const;

describe('a remote agent', () => {
  it.each(ways)('is run over $transport of A2A $version, and its text is the answer', async (way) => {
    const server = await serving({
      ...way,
      execute(task) {
        task.state('WORKING');
        task.artifact('a', text('It is '));
        task.artifact('a', text(`far: ${task.said}`), { append: true });
        task.state('COMPLETED');
      },
    });
    const far = await remoteAgent({ url: server.url });
    expect(far.name).toBe('Far_away');
    expect(far.options.description).toBe('Knows what is far away. Its skills: Seeing: Sees far');
    const turn = far.startTurn('How far?');
    const reader = watch(turn);
    const result = await turn.result();
    expect(result).toMatchObject({ status: 'completed', text: 'It is far: How far?' });
    expect(Object.values(textsOf(reader.events))).toEqual(['It is far: How far?']);
  });

  it('streams what the other side writes while it writes it', async () => {
    let goOn = () => {};
    const waiting = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    const server = await serving({
      async execute(task) {
        task.state('WORKING');
        task.artifact('a', text('Once'));
        await waiting;
        task.artifact('a', text(' upon'), { append: true });
        task.state('COMPLETED');
      },
    });
    const far = await remoteAgent({ url: server.url });
    const pieces: string[] = [];
    for await (const event of far.startTurn('Tell.')) {
      if (event.kind !== 'artifact-update') continue;
      for (const part of event.artifact.parts) if (part.kind === 'text') pieces.push(part.text);
      if (pieces.join('') === 'Once') goOn();
    }
    expect(pieces.join('')).toBe('Once upon');
  });

  it('is asked again how the task is where the other side does not stream', async () => {
    const server = await serving({
      streaming: false,
      execute(task) {
        task.artifact('a', text('No stream.'));
        task.state('COMPLETED');
      },
    });
    const far = await remoteAgent({ url: server.url });
    expect((await far.run('Well?')).text).toBe('No stream.');
  });

  it('answers with the message of a side that makes no task of it', async () => {
    const server = await serving({ taskless: true, execute: (task) => task.message('Just so.') });
    const far = await remoteAgent({ url: server.url });
    const turn = far.startTurn('Well?');
    const reader = watch(turn);
    expect((await turn.result()).text).toBe('Just so.');
    const pieces = reader.of('artifact-update').flatMap(({ artifact }) => artifact.parts);
    expect(pieces.filter((part) => part.kind === 'text' && part.text !== '')).toEqual([
      { kind: 'text', text: 'Just so.' },
    ]);
    // The message is all that was asked for.
    expect(server.headers).toHaveLength(1);
  });

  it('goes on in the same remote context, with a new task', async () => {
    const seen: string[] = [];
    const server = await serving({
      execute(task) {
        seen.push(task.request.contextId);
        task.artifact('a', text(`${seen.length}`));
        task.state('COMPLETED');
      },
    });
    const far = await remoteAgent({ url: server.url });
    expect([(await far.run('One.')).text, (await far.run('Two.')).text]).toEqual(['1', '2']);
    expect(seen[1]).toBe(seen[0]);
    expect((await far.run('Elsewhere.', { contextId: 'other' })).text).toBe('3');
    expect(seen[2]).not.toBe(seen[0]);
  });

  it.each(ways)('suspends where the other side asks, and sends it the answer ($transport $version)', async (way) => {
    const answers: unknown[] = [];
    const server = await serving({
      ...way,
      execute(task) {
        if (!task.request.task)
          return task.state('INPUT_REQUIRED', [{ text: 'Which one?' }, { data: { of: ['a', 'b'] } }]);
        answers.push(task.request.userMessage.parts.map(({ content }) => content?.value));
        task.artifact('a', text('That one.'));
        return task.state('COMPLETED');
      },
    });
    const far = await remoteAgent({ url: server.url, taskStateStore: new InMemoryStateStore() });
    const asked = await far.run('Choose.', { taskId: 't' });
    expect(asked).toMatchObject({ status: 'input-required', questions: [{ kind: 'input', prompt: 'Which one?' }] });
    expect(asked.questions[0]?.data).toMatchObject({ parts: [{ text: 'Which one?' }, { data: { of: ['a', 'b'] } }] });
    const id = asked.questions[0]?.id ?? '';
    const done = await far.resume('t', { answers: { [id]: 'b' } }).result();
    expect(done.text).toBe('That one.');
    expect(answers).toEqual([['b']]);
    expect(server.messageIds).toHaveLength(2);
  });

  it('fails as the other side does, in its words', async () => {
    const server = await serving({ execute: (task) => task.state('FAILED', text('no  eyes\ntoday')) });
    const far = await remoteAgent({ url: server.url });
    await expect(far.run('Look.')).rejects.toMatchObject({
      code: 'PROVIDER_FAILED',
      message: `The agent at ${server.url} has failed its task, saying "no eyes today".`,
    });
  });

  it('fails with a reason of its own where the other side rejects', async () => {
    const server = await serving({ execute: (task) => task.state('REJECTED', text('Not today.')) });
    const far = await remoteAgent({ url: server.url });
    await expect(far.run('Look.')).rejects.toMatchObject({ code: 'PROVIDER_FAILED', reason: 'remote_rejected' });
  });

  it('cancels the remote task with the turn', async () => {
    const server = await serving({
      execute(task) {
        task.state('WORKING');
        task.artifact('a', text('Long'));
        return new Promise(() => {});
      },
    });
    const far = await remoteAgent({ url: server.url });
    const turn = far.startTurn('Go.');
    const reader = watch(turn);
    await reader.until('artifact-update');
    await turn.cancel();
    await turn.settled;
    expect(server.canceled).toHaveLength(1);
  });

  it('goes on with the text where the connection breaks', async () => {
    let resume = () => {};
    const broken = new Promise<void>((resolve) => {
      resume = resolve;
    });
    const server = await serving({
      async execute(task) {
        task.state('WORKING');
        task.artifact('a', text('Before'));
        await broken;
        task.artifact('a', text(' and after.'), { append: true });
        task.state('COMPLETED');
      },
    });
    const far = await remoteAgent({ url: server.url });
    const turn = far.startTurn('Go.');
    const reader = watch(turn);
    await reader.until('artifact-update');
    server.cut();
    resume();
    expect((await turn.result()).text).toBe('Before and after.');
    expect(server.messageIds).toHaveLength(1);
  });

  it('is a tool of another agent', async () => {
    const server = await serving({
      execute(task) {
        task.artifact('a', text(`seen: ${task.said}`));
        task.state('COMPLETED');
      },
    });
    const far = await remoteAgent({ url: server.url, name: 'far', description: 'Sees far.' });
    const provider = scriptedLLM([
      { toolCalls: [{ name: 'far', arguments: { message: 'Look!' } }] },
      { text: 'It says so.' },
    ]);
    const near = agent({ name: 'near', provider, toolProviders: [agentTools([far])] });
    const { messages } = await near.run('Ask far.');
    expect(messages[1]).toMatchObject({ role: 'tool', content: 'seen: Look!' });
    provider.assertDone();
  });
});
