import { describe, expect, it } from '@jest/globals';
import type { Message, StartOptions, TaskStateStore } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { asyncStore, gate } from 'millrace/testing';
import { answerOf, deadTurn, firstCall, intentOf, question, resultOf } from './dead-turn.ts';
import { plainTools } from './plain-tools.ts';
import { turnBench } from './turn-bench.ts';
import { ofRecords, textsOf, watch } from './watch-events.ts';

const bench = turnBench();
const known: StartOptions = { taskId: 't', contextId: 'c' };

/** A turn that another loop runs, in the middle of its first model call, which goes on when `answer` opens. */
async function heldTurn() {
  const answer = gate();
  const model = bench.model([{ text: ['One', answer.pass(), ', two.'] }]);
  const turn = new AgentLoop(bench.config(model)).startTurn(question, { ...known, detached: true });
  const watcher = watch(turn);
  await watcher.until('artifact-update');
  return { turn, watcher, answer };
}

describe('startTurn with a taskId that exists', () => {
  it('observes the turn that somebody holds: it calls no model and sees the same', async () => {
    const held = await heldTurn();
    const attached = bench.loop([]).startTurn(question, known);
    const watcher = watch(attached);
    await watcher.until('artifact-update');
    held.answer.open();
    expect(await attached.result()).toEqual(await held.turn.result());
    expect(ofRecords(watcher.events)).toEqual(ofRecords(held.watcher.events));
    expect(textsOf(watcher.events)).toEqual({ 'answer-1': 'One, two.' });
    expect(watcher.end).toBe('complete');
  });

  it('resumes the turn that nobody holds', async () => {
    deadTurn(bench, [firstCall, answerOf(['count']), intentOf(0), resultOf(0, 'two')]);
    const model = bench.model([{ text: 'Two.' }]);
    const toolProviders = [plainTools({ count: () => 'never' })];
    const turn = new AgentLoop(bench.config(model, { toolProviders })).startTurn(question, known);
    const watcher = watch(turn);
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'Two.', iterations: 2 });
    expect(watcher.of('internal:resumed')).toHaveLength(1);
    expect(model.calls[0]?.messages.at(-1)).toMatchObject({ content: 'two' });
  });

  it('S1-13 replays the turn that has ended', async () => {
    const first = bench.loop([{ text: 'Two.' }]).startTurn(question, known);
    const before = watch(first);
    await first.settled;
    const again = bench.loop([]).startTurn(question, known);
    const watcher = watch(again);
    expect(await again.result()).toEqual(await first.result());
    expect(ofRecords(watcher.events)).toEqual(ofRecords(before.events));
  });

  it('S1-13 replays the turn that another took over and ended before its creator had the lease', async () => {
    const heir = bench.config(bench.model([{ text: 'Two.' }]));
    const acquire: TaskStateStore['acquire'] = async (...args) => {
      await AgentLoop.resume('t', heir).result();
      return bench.store.acquire(...args);
    };
    const slow = { taskStateStore: { ...asyncStore(bench.store), acquire } };
    const turn = bench.loop([], slow).startTurn(question, known);
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'Two.' });
  });

  it('goes on with the turn that another took over and left before its creator had the lease', async () => {
    const leaving = new AbortController();
    const answer = gate();
    const heir = bench.config(bench.model([{ gate: answer.pass(), text: 'Never.' }]), { shutdown: leaving.signal });
    const acquire: TaskStateStore['acquire'] = async (...args) => {
      const left = AgentLoop.resume('t', heir).result();
      await answer.reached;
      leaving.abort();
      await left.catch(() => {});
      return bench.store.acquire(...args);
    };
    const slow = { taskStateStore: { ...asyncStore(bench.store), acquire } };
    const turn = bench.loop([{ text: 'Two.' }], slow).startTurn(question, known);
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'Two.' });
    const types = bench.store.read('t').map(({ type }) => type);
    expect(types.filter((type) => type === 'turn.resumed')).toHaveLength(2);
  });

  const others: readonly [string, readonly Message[], StartOptions, string][] = [
    ['other messages', [{ role: 'user', content: 'How much?' }], known, 'tester'],
    ['another agent', question, { ...known, agentId: 'somebody' }, 'tester'],
    ['another context', question, { ...known, contextId: 'other' }, 'tester'],
  ];

  it.each(others)(
    'S1-13 is CONFLICT with %s: the stream errors and the journal stays as it is',
    async (_, messages, options) => {
      deadTurn(bench, [firstCall]);
      const before = bench.store.read('t');
      const turn = bench.loop([]).startTurn(messages, options);
      const watcher = watch(turn);
      await expect(turn.result()).rejects.toMatchObject({ code: 'CONFLICT', taskId: 't' });
      expect(watcher.end).toMatchObject({ error: { code: 'CONFLICT' } });
      expect(bench.store.read('t')).toEqual(before);
    },
  );

  it('S1-13 does not make turns with different ids share anything', async () => {
    const model = bench.model([{ text: 'One.' }, { text: 'Two.' }]);
    const loop = new AgentLoop(bench.config(model));
    const [one, two] = await Promise.all([
      loop.startTurn([{ role: 'user', content: 'A' }], { taskId: 'a' }).result(),
      loop.startTurn([{ role: 'user', content: 'B' }], { taskId: 'b' }).result(),
    ]);
    expect([one.text, two.text]).toEqual(['One.', 'Two.']);
    expect(model.calls.map(({ messages }) => messages)).toEqual([
      [{ role: 'user', content: 'A' }],
      [{ role: 'user', content: 'B' }],
    ]);
    expect(one.contextId).not.toBe(two.contextId);
  });

  it('starts the turn once where two start it at the same time on a store that answers later', async () => {
    const model = bench.model([{ text: 'Two.' }]);
    const taskStateStore = asyncStore(bench.store);
    const loop = new AgentLoop(bench.config(model, { taskStateStore }));
    const turns = [loop.startTurn(question, known), loop.startTurn(question, known)];
    const results = await Promise.all(turns.map((turn) => turn.result()));
    expect(results).toMatchObject([{ text: 'Two.' }, { text: 'Two.' }]);
    await Promise.all(turns.map((turn) => turn.settled));
  });
});

describe('a turn that is attached to one that runs elsewhere', () => {
  it('cancels it: its owner stops, and both see how it ended', async () => {
    const held = await heldTurn();
    const attached = bench.loop([]).startTurn(question, known);
    const watcher = watch(attached);
    await watcher.until('artifact-update');
    await attached.cancel('enough');
    await held.turn.settled;
    for (const { events, end } of [watcher, held.watcher]) {
      expect(events.at(-1)).toMatchObject({ status: { state: 'canceled' }, final: true, reason: 'enough' });
      expect(end).toBe('complete');
    }
  });

  it('steers it', async () => {
    const answer = gate();
    const model = bench.model([{ gate: answer.pass(), text: 'Two.' }, { text: 'No pears.' }]);
    const owner = new AgentLoop(bench.config(model)).startTurn(question, { ...known, detached: true });
    await watch(owner).until('internal:llm-call');
    const attached = bench.loop([]).startTurn(question, known);
    attached.steer({ role: 'user', content: 'And pears?' });
    const watcher = watch(attached);
    await watcher.until('internal:llm-call');
    attached.steer({ role: 'user', content: 'And plums?' });
    answer.open();
    expect(await attached.result()).toMatchObject({ text: 'No pears.' });
    expect(model.calls[1]?.messages.slice(-2).map(({ content }) => content)).toEqual(['And pears?', 'And plums?']);
    await owner.settled;
  });

  it.each(['before', 'after'] as const)('pauses it, also %s it has found out that it runs elsewhere', async (when) => {
    const answer = gate();
    const toolProviders = [plainTools({ count: () => 'two' })];
    const model = bench.model([{ gate: answer.pass(), toolCalls: [{ name: 'count' }] }]);
    const loop = new AgentLoop(bench.config(model, { toolProviders }));
    const owner = loop.startTurn(question, { ...known, detached: true });
    await watch(owner).until('internal:llm-call');
    const attached = bench.loop([]).startTurn(question, known);
    if (when === 'before') attached.pause('lunch');
    await watch(attached).until('internal:llm-call');
    if (when === 'after') attached.pause('lunch');
    answer.open();
    expect(await attached.result()).toMatchObject({ status: 'input-required', reason: 'lunch' });
    expect(await owner.result()).toMatchObject({ status: 'input-required', reason: 'lunch' });
  });
});
