import { afterAll, afterEach, describe, expect, it } from '@jest/globals';
import {
  AgentLoop,
  agent,
  InMemoryMessageStore,
  InMemoryStateStore,
  LocalToolProvider,
  type MessageStore,
  replay,
  type TaskStateStore,
  tool,
} from 'millrace';
import { gate, type ScriptedLLMStep, scriptedLLM } from 'millrace/testing';
import type { AgentSettings } from 'millrace/types';
import { TemporaryStores } from '../stores/lmdb/temporary-stores.ts';
import { describeRedis } from '../stores/redis/describe-redis.ts';
import { RedisBench } from '../stores/redis/redis-bench.ts';

const stores = new TemporaryStores();
const agents: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of agents.splice(0)) await each.close();
});
afterAll(() => stores.clear());

/** An agent whose model answers these texts. `seen`: the texts of its last model call. */
function talking(answers: readonly (string | ScriptedLLMStep)[], settings: Partial<AgentSettings> = {}) {
  const model = scriptedLLM(answers.map((text) => (typeof text === 'string' ? { text } : text)));
  const ada = agent({
    id: 'ada',
    provider: model,
    contextId: 'c',
    ...(settings.taskStateStore === undefined && { messageStore: new InMemoryMessageStore() }),
    ...settings,
  });
  agents.push(ada);
  return { ada, seen: () => model.calls.at(-1)?.messages.map(({ content }) => content) };
}

const textsOf = async (store: MessageStore) => (await store.load('c')).messages.map(({ content }) => content);

describe('a conversation with branches', () => {
  it('R-11 answers a turn anew, and continues from the new answer', async () => {
    const messageStore = new InMemoryMessageStore();
    const { ada, seen } = talking(['One.', 'Two.', 'Two again.', 'Three.'], { messageStore });
    await ada.run('1?');
    await ada.run('2?', { taskId: 'second' });
    const turn = await ada.regenerate('second', { taskId: 'anew' });
    await expect(turn.result()).resolves.toMatchObject({ text: 'Two again.', taskId: 'anew' });
    expect(seen()).toEqual(['1?', 'One.', '2?']);
    await ada.run('3?');
    expect(seen()).toEqual(['1?', 'One.', '2?', 'Two again.', '3?']);
    expect(await textsOf(messageStore)).toEqual(['1?', 'One.', '2?', 'Two.', '2?', 'Two again.', '3?', 'Three.']);
  });

  it('R-11 answers the first turn anew, as often as it is asked to', async () => {
    const { ada, seen } = talking(['One.', 'Two.', 'One again.', 'One at last.', 'Three.']);
    await ada.run('1?', { taskId: 'first' });
    await ada.run('2?');
    await (await ada.regenerate('first', { taskId: 'anew' })).result();
    expect(seen()).toEqual(['1?']);
    await (await ada.regenerate('anew')).result();
    expect(seen()).toEqual(['1?']);
    await ada.run('3?');
    expect(seen()).toEqual(['1?', 'One at last.', '3?']);
  });

  it('R-11 follows a message, a turn, or nothing', async () => {
    const messageStore = new InMemoryMessageStore();
    const { ada, seen } = talking(['One.', 'Two.', 'a', 'b', 'c', 'd'], { messageStore });
    await ada.run('1?', { taskId: 'first' });
    await ada.run('2?', { taskId: 'second' });
    const { messages } = await messageStore.list('c');
    await ada.run('edited', { after: messages[1]?.id });
    expect(seen()).toEqual(['1?', 'One.', 'edited']);
    await ada.run('from the start', { after: null });
    expect(seen()).toEqual(['from the start']);
    await ada.run('the other branch', { after: 'second' });
    expect(seen()).toEqual(['1?', 'One.', '2?', 'Two.', 'the other branch']);
    await ada.run('its end');
    expect(seen()).toEqual(['1?', 'One.', '2?', 'Two.', 'the other branch', 'c', 'its end']);
  });

  it('R-11 fails where the context does not have what it follows', async () => {
    const { ada } = talking(['One.']);
    await ada.run('1?', { taskId: 'first' });
    await expect(ada.run('2?', { after: 'nowhere' })).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await expect(ada.run('2?', { after: 'first', contextId: 'empty' })).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await expect(ada.regenerate('nowhere')).rejects.toMatchObject({ code: 'NOT_FOUND' });
    for (const after of ['', 7, {}] as unknown as string[])
      expect(() => ada.startTurn('2?', { after })).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }));
  });

  it('R-11 is in the journal: a submitted, a queued and a suspended turn keep their place', async () => {
    const taskStateStore = new InMemoryStateStore();
    const settings = { taskStateStore, busy: 'queue' } as const;
    const first = talking(['One.', 'Two.'], settings);
    await first.ada.run('1?', { taskId: 'first' });
    await first.ada.run('2?', { taskId: 'second' });
    await first.ada.submit('edited', { taskId: 'submitted', after: 'first' });
    const next = talking(['Edited.', 'Three.'], settings);
    await next.ada.resume('submitted').result();
    expect(next.seen()).toEqual(['1?', 'One.', 'edited']);
    await next.ada.run('3?', { taskId: 'third' });
    expect(next.seen()).toEqual(['1?', 'One.', 'edited', 'Edited.', '3?']);
    const journal = await taskStateStore.read('third');
    await expect(replay(journal).result()).resolves.toMatchObject({ text: 'Three.', deviations: [] });
  });

  it('R-11 follows what a failed turn followed when it is tried again', async () => {
    const taskStateStore = new InMemoryStateStore();
    const broken: ScriptedLLMStep = { error: new Error('no line') };
    const { ada, seen } = talking(['One.', 'Two.', broken, 'Edited.', 'Three.'], { taskStateStore, retry: null });
    await ada.run('1?', { taskId: 'first' });
    await ada.run('2?');
    await expect(ada.run('edited', { taskId: 'failed', after: 'first' })).rejects.toThrow();
    await ada.retry('failed').result();
    expect(seen()).toEqual(['1?', 'One.', 'edited']);
    await ada.run('3?');
    expect(seen()).toEqual(['1?', 'One.', 'edited', 'Edited.', '3?']);
  });

  it.each([
    ['after its model call', 1],
    ['before its first step', 0],
  ])('R-11 is what a fork begins that copies a turn %s', async (_, at) => {
    const taskStateStore = new InMemoryStateStore();
    const { ada, seen } = talking(['One.', { toolCalls: [{ name: 'look' }] }, 'Two.', 'Three.', 'a', 'b', 'c'], {
      taskStateStore,
      toolProviders: [
        new LocalToolProvider([
          tool({ name: 'look', description: 'Looks.', parameters: { type: 'object' }, execute: () => 'Seen.' }),
        ]),
      ],
    });
    await ada.run('1?');
    await ada.run('2?', { taskId: 'second' });
    await ada.run('3?', { taskId: 'third' });
    const fork = await AgentLoop.fork('second', { store: taskStateStore, at, taskId: 'fork' });
    await ada.resume(fork.taskId).result();
    const calls = at === 0 ? [] : [null, 'Seen.'];
    expect(seen()).toEqual(['1?', 'One.', '2?', ...calls]);
    await ada.run('4?');
    expect(seen()).toEqual(['1?', 'One.', '2?', ...calls, 'a', '4?']);
    await ada.run('5?', { after: 'third' });
    expect(seen()?.slice(-4)).toEqual(['Two.', '3?', 'Three.', '5?']);
  });

  it('R-11 is not begun by a fork in another context, which has other messages', async () => {
    const taskStateStore = new InMemoryStateStore();
    const { ada, seen } = talking(['One.', 'a', 'b', 'Two.', 'c'], { taskStateStore });
    await ada.run('1?', { taskId: 'first' });
    for (const text of ['2?', '3?']) await ada.run(text, { contextId: 'other' });
    const origin = { store: taskStateStore, at: 0, taskId: 'fork', contextId: 'other' };
    await AgentLoop.fork('first', origin);
    await ada.resume('fork').result();
    expect(seen()).toEqual(['2?', 'a', '3?', 'b', '1?']);
    await ada.run('4?', { contextId: 'other' });
    expect(seen()).toEqual(['2?', 'a', '3?', 'b', '1?', 'Two.', '4?']);
  });

  it('R-11 fails in a fork of a turn that follows what its context does not have', async () => {
    const taskStateStore = new InMemoryStateStore();
    const { ada } = talking(['One.'], { taskStateStore });
    await ada.run('1?');
    await expect(ada.run('2?', { after: 'nowhere', taskId: 'lost' })).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await AgentLoop.fork('lost', { store: taskStateStore, at: 0, taskId: 'fork' });
    await expect(ada.resume('fork').result()).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  it('R-11 shows the branch of a version, which has the ids of all', async () => {
    const { ada } = talking(['One.', 'Two.', 'a', 'b', 'c']);
    await ada.run('1?', { taskId: 'first' });
    await ada.run('2?', { taskId: 'second' });
    for (const taskId of ['anew', 'again']) await (await ada.regenerate('second', { taskId })).result();
    await ada.run('3?', { after: 'anew' });
    const shown = async (version?: string) =>
      (await ada.conversation('c', { limit: 100, version })).map(({ message, versions }) => [
        message.content,
        ...(versions ? [versions.at] : []),
      ]);
    const start = [['1?'], ['One.']];
    const anew = [...start, ['2?', 1], ['a'], ['3?'], ['c']];
    expect(await shown()).toEqual(anew);
    const ids = (await ada.conversation('c', { limit: 100 }))[2]?.versions?.ids ?? [];
    expect(ids).toHaveLength(3);
    expect(await shown(ids[0])).toEqual([...start, ['2?', 0], ['Two.']]);
    expect(await shown(ids[1])).toEqual(anew);
    expect(await shown(ids[2])).toEqual([...start, ['2?', 2], ['b']]);
    expect(await shown('unknown')).toEqual(anew);
  });

  it('R-11 answers a turn anew that still runs, behind it', async () => {
    const slow = gate();
    const settings = { taskStateStore: new InMemoryStateStore(), busy: 'queue' } as const;
    const { ada, seen } = talking(['One.', { text: ['Two.', slow.pass()] }, 'Two again.'], settings);
    await ada.run('1?');
    const second = ada.startTurn('2?', { taskId: 'second' });
    second.subscribe();
    const anew = (await ada.regenerate('second')).result();
    slow.open();
    await second.result();
    await expect(anew).resolves.toMatchObject({ text: 'Two again.' });
    expect(seen()).toEqual(['1?', 'One.', '2?']);
  });

  it('R-11 is a turn of its own while another one runs that would take its messages', async () => {
    const slow = gate();
    const { ada, seen } = talking([{ text: 'One.', gate: slow.pass() }, 'Two.'], { busy: 'steer' });
    const first = ada.startTurn('1?').result();
    const second = ada.startTurn('2?', { after: null }).result();
    slow.open();
    await expect(first).resolves.toMatchObject({ text: 'One.' });
    await expect(second).resolves.toMatchObject({ text: 'Two.' });
    expect(seen()).toEqual(['2?']);
  });

  it('R-11 takes no place from the metadata of a message', async () => {
    const { ada, seen } = talking(['One.', 'Two.', 'Three.']);
    await ada.run('1?');
    await ada.run({ role: 'user', content: '2?', metadata: { 'millrace.follows': 0, mine: 1 } });
    await ada.run({ role: 'user', content: '3?', metadata: { 'millrace.follows': 0 } });
    expect(seen()).toEqual(['1?', 'One.', '2?', 'Two.', '3?']);
    const stored = await ada.options.messageStore?.load('c');
    expect(stored?.messages.map(({ metadata }) => metadata)).toEqual([
      undefined,
      undefined,
      { mine: 1 },
      undefined,
      undefined,
      undefined,
    ]);
    expect((await ada.options.messageStore?.load('c'))?.messages[2]?.metadata).toEqual({ mine: 1 });
  });

  it('R-11 reads a summary only on the branches whose messages it replaces', async () => {
    const messageStore = new InMemoryMessageStore();
    const { ada, seen } = talking(['One.', 'Two.', 'Three.', 'a', 'b', 'c'], { messageStore });
    for (const n of [1, 2, 3]) await ada.run(`${n}?`, { taskId: `t${n}` });
    messageStore.setMetadata('c', { compaction: { upTo: 4, summary: 'They counted.' } });
    await ada.run('4?');
    expect(seen()).toEqual([expect.stringContaining('They counted.'), '3?', 'Three.', '4?']);
    await ada.run('edited', { after: 't1' });
    expect(seen()).toEqual(['1?', 'One.', 'edited']);
    await ada.run('back', { after: 't3' });
    expect(seen()).toEqual([expect.stringContaining('They counted.'), '3?', 'Three.', 'back']);
  });

  it('R-11 summarizes the branch that it is on', async () => {
    const messageStore = new InMemoryMessageStore();
    const long = 'word '.repeat(400);
    const summing = scriptedLLM(Array.from({ length: 5 }, () => ({ text: 'A summary.' })));
    const { ada, seen } = talking(
      ['One.', 'Two.', `Edited. ${long}`, `More. ${long}`, `Much. ${long}`, 'Last.', 'Other.', 'End.'],
      { messageStore, contextManagement: { compaction: { contextWindow: 1_600, keepLast: 2, provider: summing } } },
    );
    await ada.run('1?', { taskId: 't1' });
    await ada.run('2?', { taskId: 't2' });
    await ada.run('edited', { after: 't1' });
    await ada.run('more');
    await ada.run('much');
    await ada.run('last', { taskId: 'last' });
    expect(seen()?.[0]).toContain('A summary.');
    const { compaction } = (await messageStore.load('c', { limit: 0 })).metadata;
    expect(compaction).toMatchObject({ last: expect.any(Number) });
    await ada.run('other', { after: 't2' });
    expect(seen()).toEqual(['1?', 'One.', '2?', 'Two.', 'other']);
    await ada.run('end', { after: 'last' });
    expect(seen()?.[0]).toContain('A summary.');
  });

  async function crossesProcesses(store: TaskStateStore & { readonly messages: MessageStore }) {
    const settings = { taskStateStore: store, messageStore: store.messages };
    const one = talking(['One.', 'Two.', 'Three.'], settings);
    await one.ada.run('1?', { taskId: 'first' });
    await one.ada.run('2?', { taskId: 'second' });
    const two = talking(['Two again.', 'Four.'], settings);
    await (await two.ada.regenerate('second', { taskId: 'anew' })).result();
    expect(two.seen()).toEqual(['1?', 'One.', '2?']);
    await one.ada.run('3?', { taskId: 'third' });
    expect(one.seen()).toEqual(['1?', 'One.', '2?', 'Two again.', '3?']);
    await two.ada.run('4?', { taskId: 'fourth', after: 'second' });
    expect(two.seen()).toEqual(['1?', 'One.', '2?', 'Two.', '4?']);
    for (const taskId of ['anew', 'third', 'fourth']) {
      const journal = await store.read(taskId);
      await expect(replay(journal).result()).resolves.toMatchObject({ deviations: [] });
    }
  }

  it('R-11 is one conversation for two processes, in LMDB', () => crossesProcesses(stores.open()));

  describeRedis('in Redis', () => {
    const bench = new RedisBench();
    it('R-11 is one conversation for two processes', () => crossesProcesses(bench.open({ prefix: 'branches' })));
  });
});
