import { afterEach, describe, expect, it } from '@jest/globals';
import {
  AgentLoopError,
  agent,
  agentTools,
  InMemoryMessageStore,
  InMemoryStateStore,
  LocalToolProvider,
  structuredOutput,
  tool,
} from 'millrace';
import { remoteAgent } from 'millrace/a2a';
import { innermostQuestion } from 'millrace/internals';
import { gate, scriptedLLM } from 'millrace/testing';
import type { AgentSettings } from 'millrace/types';
import { textsOf, type Watcher, watch } from '../../core/watch-events.ts';
import { eventually } from '../../eventually.ts';
import { type ServeOptions, Serving, wires } from '../serving.ts';

const open: Serving[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((serving) => serving.close()));
});

type Steps = Parameters<typeof scriptedLLM>[0];

/** An agent of ours behind the request handler. */
async function serving(
  steps: Steps,
  settings: Partial<AgentSettings> = {},
  options: Partial<ServeOptions> = {},
): Promise<Serving> {
  const taskStateStore = new InMemoryStateStore();
  const served = agent({
    name: 'far',
    description: 'Is far away.',
    provider: scriptedLLM(steps),
    taskStateStore,
    ...settings,
  });
  const started = await Serving.start({ agent: served, ...options });
  open.push(started);
  return started;
}

const local = () => ({ taskStateStore: new InMemoryStateStore() });

const refund = tool({
  name: 'refund',
  description: 'Refunds.',
  parameters: { type: 'object', properties: { cents: { type: 'number' } }, required: ['cents'] },
  needsApproval: true,
  execute: ({ cents }) => `refunded ${cents}`,
});

describe.each(wires)('a remote agent of Millrace over %s %s', (...only) => {
  it('streams and ends as the turn does that it asks for', async () => {
    const { url } = await serving([{ text: ['It is ', 'far.'] }], {}, { only });
    const far = await remoteAgent({ url });
    const turn = far.startTurn('How far?');
    const reader = watch(turn);
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'It is far.' });
    expect(Object.values(textsOf(reader.events))).toEqual(['It is far.']);
  });

  it('has the whole text where it is read while it is written', async () => {
    let reader: Watcher | undefined;
    const isShown = (text: string) =>
      reader?.until('artifact-update', ({ artifact }) =>
        artifact.parts.some((part) => part.kind === 'text' && part.text.includes(text)),
      );
    const look = tool({
      name: 'look',
      description: 'Looks.',
      parameters: { type: 'object', properties: { after: { type: 'string' } }, required: ['after'] },
      execute: async ({ after }) => {
        await isShown(String(after));
        return 'seven';
      },
    });
    const looking = (text: string) => ({ text, toolCalls: [{ name: 'look', arguments: { after: text } }] });
    const steps = [looking('Let me look.'), looking('And again.'), { text: ['It ', 'is ', 'seven.'] }];
    const { url } = await serving(steps, { toolProviders: [new LocalToolProvider([look])] }, { only });
    const far = await remoteAgent({ url });
    const turn = far.startTurn('What is it?');
    reader = watch(turn);
    expect((await turn.result()).text).toBe('It is seven.');
    expect(Object.values(textsOf(reader.events)).at(-1)).toBe('It is seven.');
  });

  it('hands an approval on to the call that waits for it', async () => {
    const steps = [{ toolCalls: [{ name: 'refund', arguments: { cents: 900 } }] }, { text: 'Done: refunded 900.' }];
    const { url } = await serving(steps, { toolProviders: [new LocalToolProvider([refund])] }, { only });
    const far = await remoteAgent({ url, ...local() });
    const asked = await far.run('Refund it.', { taskId: 't' });
    expect(asked).toMatchObject({
      status: 'input-required',
      questions: [
        {
          kind: 'input',
          prompt: 'May the tool "refund" run with these arguments?',
          data: { question: { id: '1:0', kind: 'approval', toolName: 'refund', data: { cents: 900 } } },
        },
      ],
    });
    const answers = { [asked.questions[0]?.id ?? '']: { approved: true } };
    expect(await far.resume('t', { answers }).result()).toMatchObject({ text: 'Done: refunded 900.' });
  });
});

class UnreadableStore extends InMemoryStateStore {
  isAway = false;
  refused = 0;

  override read(...args: Parameters<InMemoryStateStore['read']>): ReturnType<InMemoryStateStore['read']> {
    if (!this.isAway) return super.read(...args);
    this.refused++;
    throw new AgentLoopError('UNAVAILABLE', 'The store is away.', { retryable: true });
  }
}

describe.each(wires)('H-13 a remote agent of Millrace over %s %s whose server does not reach its store', (...only) => {
  it('is followed until it does', async () => {
    const done = gate();
    const wait = tool({
      name: 'wait',
      description: 'Waits.',
      parameters: { type: 'object' },
      execute: () => done.pass().then(() => 'done'),
    });
    const taskStateStore = new UnreadableStore();
    const steps = [{ text: 'Let me wait.', toolCalls: [{ name: 'wait', arguments: {} }] }, { text: 'Waited.' }];
    const toolProviders = [new LocalToolProvider([wait])];
    const { url } = await serving(steps, { taskStateStore, toolProviders, storeDeadlineMs: 300 }, { only });
    const own = local();
    const leaving = new AbortController();
    const turn = (await remoteAgent({ url, ...own, id: 'far', shutdown: leaving.signal })).startTurn('Go.', {
      taskId: 't',
    });
    await watch(turn).until('artifact-update');
    leaving.abort();
    await expect(turn.result()).rejects.toMatchObject({ code: 'SHUTDOWN' });
    const next = await remoteAgent({ url, ...own, id: 'far' });
    taskStateStore.isAway = true;
    const resumed = next.resume('t').result();
    await eventually(() => taskStateStore.refused > 0);
    taskStateStore.isAway = false;
    done.open();
    expect((await resumed).text).toBe('Waited.');
  });
});

describe('a remote agent of Millrace', () => {
  it('asks one question after another where several are open, and answers all of them at once', async () => {
    const call = (cents: number) => ({ name: 'refund', arguments: { cents } });
    const provider = scriptedLLM([{ toolCalls: [call(1), call(2)] }, { text: 'Both.' }]);
    const { url } = await serving([], { toolProviders: [new LocalToolProvider([refund])], provider });
    const far = await remoteAgent({ url, ...local() });
    const first = await far.run('Refund them.', { taskId: 't' });
    expect(first.questions).toMatchObject([
      { prompt: expect.stringMatching(/May the tool/), data: { question: { id: '1:0' } }, child: { agentId: far.id } },
    ]);
    const [asked] = first.questions;
    expect(asked && innermostQuestion(asked)).toMatchObject({ kind: 'approval', toolName: 'refund' });
    const text = far.resume('t', { answers: { [asked?.id ?? '']: 'yes' } }).result();
    await expect(text).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    const answer = (id: string, approved: boolean) => far.resume('t', { answers: { [id]: { approved } } }).result();
    const second = await answer(first.questions[0]?.id ?? '', true);
    expect(second.questions).toMatchObject([{ data: { question: { id: '1:1' } } }]);
    expect(await answer(second.questions[0]?.id ?? '', false)).toMatchObject({ text: 'Both.' });
    const results = provider.calls[1]?.messages.filter(({ role }) => role === 'tool');
    expect(results).toMatchObject([{ content: 'refunded 1' }, { content: expect.stringMatching(/rejected/) }]);
  });

  it('gives a text to a tool that asks for one', async () => {
    const pick = tool({
      name: 'pick',
      description: 'Picks.',
      parameters: { type: 'object' },
      execute: (_args, { ask }) => `took ${String(ask({ prompt: 'Which?' }))}`,
    });
    const provider = scriptedLLM([{ toolCalls: [{ name: 'pick', arguments: {} }] }, { text: 'Taken.' }]);
    const { url } = await serving([], { toolProviders: [new LocalToolProvider([pick])], provider });
    const far = await remoteAgent({ url, ...local() });
    const asked = await far.run('Pick.', { taskId: 't' });
    expect(asked.questions).toMatchObject([{ prompt: 'Which?' }]);
    await far.resume('t', { answers: { [asked.questions[0]?.id ?? '']: 'the red one' } }).result();
    expect(provider.calls[1]?.messages.at(-1)).toMatchObject({ content: 'took the red one' });
  });

  it('ends with the value that the remote turn ends with, which as a tool is its result', async () => {
    const weather = { city: 'Oslo', celsius: 4 };
    const served = () =>
      serving([{ toolCalls: [{ name: '__finish__', arguments: weather }] }], {
        extensions: [
          structuredOutput({
            schema: {
              type: 'object',
              properties: { city: { type: 'string' }, celsius: { type: 'number' } },
              required: ['city', 'celsius'],
            },
          }),
        ],
      });
    const far = await remoteAgent({ url: (await served()).url });
    expect((await far.run('Weather?')).value).toEqual(weather);
    const provider = scriptedLLM([
      { toolCalls: [{ name: 'far', arguments: { message: 'Weather?' } }] },
      { text: '4.' },
    ]);
    const below = await remoteAgent({ url: (await served()).url, name: 'far', description: 'Knows.' });
    await agent({ name: 'near', provider, toolProviders: [agentTools([below])] }).run('Weather?');
    expect(JSON.parse(String(provider.calls[1]?.messages.at(-1)?.content))).toEqual(weather);
  });

  it('cancels the turn on the other side with its own', async () => {
    let isStarted = () => {};
    const started = new Promise<void>((resolve) => {
      isStarted = resolve;
    });
    let isStopped = () => {};
    const stopped = new Promise<void>((resolve) => {
      isStopped = resolve;
    });
    const wait = tool({
      name: 'wait',
      description: 'Waits.',
      parameters: { type: 'object' },
      execute: (_args, { signal }) => {
        isStarted();
        signal.addEventListener('abort', () => isStopped());
        return stopped.then(() => 'stopped');
      },
    });
    const taskStateStore = new InMemoryStateStore();
    const steps = [{ toolCalls: [{ name: 'wait', arguments: {} }] }];
    const { url } = await serving(steps, { toolProviders: [new LocalToolProvider([wait])], taskStateStore });
    const far = await remoteAgent({ url });
    const turn = far.startTurn('Wait.');
    turn.subscribe({ error: () => {} });
    await started;
    await turn.cancel();
    await stopped;
    await turn.settled;
    expect(await taskStateStore.list({ state: 'canceled' })).toHaveLength(1);
  });

  it('goes on in one context of the other side', async () => {
    const provider = scriptedLLM([{ text: 'One.' }, { text: 'Two.' }]);
    const { url } = await serving([], { provider, messageStore: new InMemoryMessageStore() });
    const far = await remoteAgent({ url });
    await far.run('First.');
    await far.run('Second.');
    expect(provider.calls[1]?.messages.map(({ content }) => content)).toEqual(['First.', 'One.', 'Second.']);
  });
});
