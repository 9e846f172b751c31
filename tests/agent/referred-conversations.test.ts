import { afterEach, describe, expect, it } from '@jest/globals';
import {
  agent,
  foldRecords,
  InMemoryMessageStore,
  InMemoryStateStore,
  replay,
  type TaskStateStore,
  tool,
} from 'millrace';
import { AgentLoop, formatJournal, parseJournal } from 'millrace/internals';
import { type ScriptedLLMStep, scriptedLLM } from 'millrace/testing';
import type { AgentSettings } from 'millrace/types';

const agents: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of agents.splice(0)) await each.close();
});

const asks = tool({
  name: 'delete',
  description: 'Deletes.',
  parameters: { type: 'object', properties: {} },
  execute: (_, context) => context.ask({ prompt: 'Sure?' }) as string,
});

/** An agent of a process of its own. `seen`: the texts of its last model call. */
function processOn(store: TaskStateStore, steps: readonly ScriptedLLMStep[], settings: Partial<AgentSettings> = {}) {
  const model = scriptedLLM(steps);
  const ada = agent({ id: 'ada', provider: model, taskStateStore: store, contextId: 'c', tools: [asks], ...settings });
  agents.push(ada);
  return {
    ada,
    calls: () => model.calls.length,
    seen: () => model.calls.at(-1)?.messages.map(({ content }) => content),
  };
}

const asking: ScriptedLLMStep = { toolCalls: [{ id: 'x', name: 'delete', arguments: '{}' }] };
const yes = { answers: { '1:0': 'Yes.' } };

/** A conversation of two turns, and a third that waits for an answer. */
async function suspendedTurn(store = new InMemoryStateStore(), settings: Partial<AgentSettings> = {}) {
  const first = processOn(store, [{ text: 'One.' }, { text: 'Two.' }, asking], settings);
  await first.ada.run('1?');
  await first.ada.run('2?');
  await expect(first.ada.startTurn('3?', { taskId: 't' }).result()).resolves.toMatchObject({
    status: 'input-required',
  });
  return { store, first };
}

const whole = ['1?', 'One.', '2?', 'Two.', '3?', null, 'Yes.'];

describe('a turn whose journal refers to its conversation', () => {
  it('C-02 is resumed by another process with the same messages', async () => {
    const { store } = await suspendedTurn();
    const next = processOn(store, [{ text: 'Done.' }]);
    await expect(next.ada.resume('t', yes).result()).resolves.toMatchObject({ text: 'Done.' });
    expect(next.seen()).toEqual(whole);
  });

  it('C-02 is forked, exported and replayed with the same messages, also after later turns and a compaction', async () => {
    const { store, first } = await suspendedTurn();
    await first.ada.close();
    const steps = Array.from({ length: 9 }, (_, index) => ({ text: `Text ${index}, long enough to be summarized.` }));
    const next = processOn(store, steps, {
      contextManagement: { compaction: { keepLast: 1, contextWindow: 100, threshold: 0.2 } },
    });
    const { text } = await next.ada.resume('t', yes).result();
    const before = await store.read('t');
    await next.ada.run('4?');
    await next.ada.run('5?');
    expect((await store.messages.load('c')).metadata).not.toEqual({});
    expect(await store.read('t')).toEqual(before);
    const forked = await AgentLoop.fork('t', { store, at: 1, taskId: 'f' });
    expect(forked.taskId).toBe('f');
    expect(foldRecords(await store.read('f')).messages.map(({ content }) => content)).toEqual(whole);
    const elsewhere = parseJournal(formatJournal(before));
    expect(elsewhere).toEqual(before);
    const played = await replay(elsewhere).result();
    expect(played.text).toBe(text);
    expect(JSON.stringify(before)).not.toContain('givenFrom');
  });

  it('C-02 fails where its conversation was deleted meanwhile, and calls no model', async () => {
    const { store } = await suspendedTurn();
    await store.messages.delete('c');
    const next = processOn(store, [{ text: 'Done.' }]);
    const end = next.ada.resume('t', yes).result();
    await expect(end).rejects.toMatchObject({ code: 'NOT_FOUND', message: expect.stringContaining('"c" was deleted') });
    expect(next.calls()).toBe(0);
    await expect(store.describe('t')).toMatchObject({ state: 'failed' });
  });

  it('C-03 is copied where conversations are stored apart', async () => {
    const { store } = await suspendedTurn(undefined, { messageStore: new InMemoryMessageStore() });
    await store.messages.delete('c');
    const next = processOn(store, [{ text: 'Done.' }], { messageStore: new InMemoryMessageStore() });
    await expect(next.ada.resume('t', yes).result()).resolves.toMatchObject({ text: 'Done.' });
    expect(next.seen()).toEqual(whole);
  });

  it('C-03 loads, resumes and replays from a journal of schema 2, which contains it', async () => {
    const { store } = await suspendedTurn();
    const text = formatJournal(store.read('t')).replace('"schema":3', '"schema":2');
    const [started, ...rest] = parseJournal(text);
    if (started?.type !== 'turn.started') throw new Error('the journal begins otherwise');
    expect(started.schema).toBe(2);
    const moved = new InMemoryStateStore();
    moved.create('t', started);
    const lease = moved.acquire('t', 'somebody', 1_000);
    moved.append(
      lease,
      rest.map((record) => ({ ...record, epoch: lease.epoch })),
      {
        status: 'input-required',
        barrier: true,
      },
    );
    moved.release(lease);
    expect(foldRecords(moved.read('t')).messages.map(({ content }) => content)).toEqual(whole.slice(0, 6));
    const next = processOn(moved, [{ text: 'Done.' }]);
    await expect(next.ada.resume('t', yes).result()).resolves.toMatchObject({ text: 'Done.' });
    expect(next.seen()).toEqual(whole);
    await expect(replay(moved.read('t')).result()).resolves.toMatchObject({ text: 'Done.' });
  });
});
