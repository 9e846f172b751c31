import { afterAll, describe, expect, it } from '@jest/globals';
import {
  agent,
  InMemoryMessageStore,
  InMemoryStateStore,
  inSequence,
  type MessageStore,
  replay,
  type StoredMessage,
  team,
  tool,
} from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { LiteLLMProvider } from 'millrace/litellm';
import { LmdbMessageStore } from 'millrace/lmdb';
import { scriptedLLM, startModelServer } from 'millrace/testing';
import { ChildPrograms, kill, nextMessage } from '../stores/lmdb/child-programs.ts';
import { TemporaryStores } from '../stores/lmdb/temporary-stores.ts';
import { agentBench, says, user } from './agent-bench.ts';

const on = agentBench();
const said = (messages: readonly StoredMessage[]) => messages.map(({ message }) => message.content);
const secondsOf = (messages: readonly StoredMessage[], since: number) =>
  messages.map(({ createdAt }) => (Date.parse(createdAt) - since) / 1_000);

/** Takes ten seconds. */
const slow = () =>
  tool({
    name: 'slow',
    description: 'Takes its time.',
    parameters: { type: 'object' },
    execute: () => {
      on.bench.clock.advance(10_000);
      return 'Done.';
    },
  });

describe('the messages that a turn leaves in its context', () => {
  it('U-10 are of the times when they were said, not of the end of the turn', async () => {
    const messageStore = on.messages();
    const start = on.bench.clock.now();
    const ask = tool({
      name: 'ask',
      description: 'Asks.',
      parameters: { type: 'object' },
      execute: (_, context) => context.ask({ prompt: 'Sure?' }) as string,
    });
    const steps = [{ toolCalls: [{ name: 'slow' }] }, { toolCalls: [{ name: 'ask' }] }, { text: 'Good.' }];
    const ada = on.agent(steps, { messageStore, tools: [slow(), ask] });
    await ada.run('Well?', { taskId: 't' });
    const day = 86_400_000;
    on.bench.clock.advance(day);
    await ada.resume('t', { answers: { '2:0': 'Yes.' } }).result();
    const { messages } = messageStore.list('c');
    expect(said(messages)).toEqual(['Well?', null, 'Done.', null, 'Yes.', 'Good.']);
    expect(secondsOf(messages, start)).toEqual([0, 0, 10, 10, 10 + day / 1_000, 10 + day / 1_000]);
    expect(messages.map(({ taskId }) => taskId)).toEqual(Array(6).fill('t'));
  });

  it('U-10 keep their ids and times through a hand-off, a fork and a replay of their turns', async () => {
    const messageStore = on.messages();
    const handing = { toolCalls: [{ name: 'hand_off', arguments: { agentId: 'b', note: 'Yours.' } }] };
    const common = { clock: on.bench.clock, contextManagement: null };
    const a = agent({ ...common, id: 'a', provider: on.bench.model([{ text: 'A.' }, handing]) });
    const b = agent({ ...common, id: 'b', provider: on.bench.model([{ text: 'B.' }, { text: 'Forked.' }]) });
    const shared = { messageStore, taskStateStore: on.bench.store, contextId: 'c', clock: on.bench.clock };
    const two = team({ ...shared, agents: [a, b], handOff: true });
    const seen: (readonly StoredMessage[])[] = [];
    const look = () => void seen.push(messageStore.list('c').messages);
    await two.ask('One.', { taskId: 't1' });
    look();
    await two.ask('Two.', { taskId: 't2' });
    look();
    await replay(on.bench.store.read('t2')).result();
    look();
    await AgentLoop.fork('t2', { store: on.bench.store, at: 1, taskId: 'forked', clock: on.bench.clock });
    await (await two.resume('forked')).result();
    look();
    const last = seen.at(-1) ?? [];
    for (const earlier of seen) expect(last.slice(0, earlier.length)).toEqual(earlier);
    expect(new Set(last.map(({ id }) => id)).size).toBe(last.length);
    expect(new Set(last.map(({ taskId }) => taskId))).toEqual(new Set(['t1', 't2', 'forked']));
    expect(said(last)).toEqual(expect.arrayContaining(['Yours.', 'B.', 'Forked.']));
    await two.close();
  });

  it('U-10 keep their ids and times where the context is compacted', async () => {
    const messageStore = on.messages();
    const contextManagement = { compaction: { contextWindow: 8_000, keepLast: 2, threshold: 0.1 } };
    const provider = on.bench.model(['One.', 'Two.', 'They counted.', 'Three.'].map((text) => ({ text })));
    const ada = on.agent([], { provider, messageStore, contextManagement });
    await ada.run('A long one. '.repeat(400));
    await ada.run('And then?');
    const { messages: before } = messageStore.list('c');
    await ada.run('And last?');
    expect(JSON.stringify(provider.calls[3]?.messages[0])).toContain('They counted.');
    expect(messageStore.list('c').messages.slice(0, 4)).toEqual(before);
  });

  it('U-10 a context that remembers ends only has the times of these', async () => {
    const messageStore = on.messages();
    const start = on.bench.clock.now();
    const a = agent({
      id: 'a',
      clock: on.bench.clock,
      tools: [slow()],
      provider: on.bench.model([{ toolCalls: [{ name: 'slow' }] }, { text: 'A.' }]),
    });
    const b = agent({ id: 'b', clock: on.bench.clock, provider: on.bench.model([{ text: 'B.' }]) });
    const both = team({ agents: [a, b], messageStore, contextId: 'c', routing: inSequence(['a', 'b']) });
    await both.ask('One.');
    const { messages } = messageStore.list('c');
    expect(messages.at(0)?.message).toEqual(user('One.'));
    expect(secondsOf(messages, start).at(0)).toBe(0);
    expect(secondsOf(messages, start).at(-1)).toBe(10);
    await both.close();
  });
});

describe('the ids of stored messages', () => {
  it('U-10 are not sent to models, nor are times: neither on the wire nor to a provider of one’s own', async () => {
    const server = await startModelServer({ script: [{ text: 'One.' }, { text: 'Two.' }] });
    try {
      const messageStore = new InMemoryMessageStore();
      const provider = new LiteLLMProvider({ baseUrl: server.baseUrl, model: 'm' });
      const wired = agent({ id: 'ada', contextId: 'c', provider, messageStore });
      await wired.run('1');
      await wired.run('2');
      const { messages } = messageStore.list('c');
      expect(server.requests[1]?.['messages']).toEqual([
        { role: 'user', content: '1' },
        { role: 'assistant', content: 'One.' },
        { role: 'user', content: '2' },
      ]);
      for (const { id, createdAt } of messages) {
        expect(JSON.stringify(server.requests)).not.toContain(id);
        expect(JSON.stringify(server.requests)).not.toContain(createdAt);
      }
    } finally {
      await server.close();
    }
    const model = on.bench.model([{ text: 'One.' }, { text: 'Two.' }]);
    const ada = on.agent([], { provider: model, messageStore: on.messages() });
    await ada.run('1');
    await ada.run('2', { taskId: 'second' });
    expect(model.calls[1]?.messages).toEqual([user('1'), says('One.'), user('2')]);
    // The journal of a turn holds its history: ids in it would be stored again with every turn.
    expect(JSON.stringify(on.bench.store.read('second'))).not.toContain('createdAt');
  });
});

describe('a message store of somebody else that has no list', () => {
  const old = (): MessageStore => {
    const store = new InMemoryMessageStore();
    return Object.assign(Object.create(store), { list: undefined });
  };
  const refusal = (name: string) =>
    expect.objectContaining({
      code: 'INVALID_CONFIG',
      message: expect.stringMatching(
        new RegExp(`^${name} must be a MessageStore; it lacks list; add list\\(contextId`),
      ),
    });

  it('U-10 is refused with what to add, for agents, teams and stores of journals that bring it', () => {
    const provider = on.bench.model([]);
    expect(() => agent({ provider, messageStore: old() })).toThrow(refusal('messageStore'));
    expect(() => team({ agents: [agent({ provider })], messageStore: old() })).toThrow(refusal('messageStore'));
    const taskStateStore = Object.defineProperty(new InMemoryStateStore(), 'messages', { value: old() });
    expect(() => agent({ provider, taskStateStore })).toThrow(refusal('taskStateStore.messages'));
  });
});

describe('messages of a process that was killed before it saved them', () => {
  const programs = new ChildPrograms('tests/agent/children');
  const stores = new TemporaryStores();
  afterAll(() => Promise.all([programs.clear(), stores.clear()]));

  it('U-10 have the ids and the times that their own process would have given them, once', async () => {
    const path = stores.path();
    const child = programs.start('turn', path, 'theirs', 'unsaved');
    await nextMessage(child);
    await kill(child);
    const messageStore = new LmdbMessageStore({ path });
    const taskStateStore = stores.open({ path: `${path}/journal` });
    try {
      const times = new Map(taskStateStore.read('theirs').map(({ type, at }) => [type, new Date(at).toISOString()]));
      const provider = scriptedLLM([{ text: 'Mine.' }]);
      await agent({ id: 'ada', contextId: 'c', provider, messageStore, taskStateStore, leaseMs: 100 }).run('Go on.');
      const { messages } = messageStore.list('c');
      expect(said(messages)).toEqual(['Question of theirs.', 'Answer of theirs.', 'Go on.', 'Mine.']);
      expect(messages.slice(0, 2)).toMatchObject([
        { taskId: 'theirs', createdAt: times.get('x.conversation') },
        { taskId: 'theirs', createdAt: times.get('llm.done') },
      ]);
      // The append that the dead process had sent may still arrive.
      await messageStore.append('c', 'theirs', [user('Question of theirs.'), says('Answer of theirs.')]);
      expect(messageStore.list('c').messages).toEqual(messages);
    } finally {
      await messageStore.close();
    }
  });
});
