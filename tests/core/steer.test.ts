import { describe, expect, it } from '@jest/globals';
import type { Extension, UserMessage } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { gate, type ScriptedLLM } from 'millrace/testing';
import { answerOf, deadTurn, firstCall, intentOf, question, resultOf } from './dead-turn.ts';
import { plainTools } from './plain-tools.ts';
import { turnBench } from './turn-bench.ts';
import { outlineOf, watch } from './watch-events.ts';

const bench = turnBench();
const pears: UserMessage = { role: 'user', content: 'And pears?' };

function lastMessages({ calls }: ScriptedLLM) {
  return calls.map(({ messages }) => messages.at(-1));
}

describe('Turn.steer', () => {
  it('adds a message to the history before the next model call, behind the results of the batch', async () => {
    const toolProviders = [
      plainTools({
        count: () => {
          turn.steer(pears);
          return 'two';
        },
      }),
    ];
    const model = bench.model([{ toolCalls: [{ name: 'count' }] }, { text: 'No pears.' }]);
    const turn = new AgentLoop(bench.config(model, { toolProviders })).startTurn(question, { taskId: 't' });
    expect(await turn.result()).toMatchObject({ text: 'No pears.' });
    expect(model.calls[1]?.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'user']);
    expect(lastMessages(model)[1]).toEqual(pears);
    expect(bench.store.read('t').filter(({ type }) => type === 'x.steer')).toMatchObject([
      { effects: { messages: [pears] } },
    ]);
  });

  it('makes a turn go on that would have ended with this answer', async () => {
    const answer = gate();
    const model = bench.model([{ gate: answer.pass(), text: 'Two.' }, { text: 'No pears.' }]);
    const turn = new AgentLoop(bench.config(model)).startTurn(question, { taskId: 't' });
    const watcher = watch(turn);
    await watcher.until('internal:llm-call');
    turn.steer(pears);
    answer.open();
    expect(await turn.result()).toMatchObject({ text: 'No pears.', allText: 'Two.\nNo pears.', iterations: 2 });
    expect(model.calls[1]?.messages).toEqual([...question, { role: 'assistant', content: 'Two.' }, pears]);
    const lines = outlineOf(watcher.events);
    expect(lines.slice(lines.indexOf('llm-response 1 stop'), lines.indexOf('llm-call 2.1'))).toEqual([
      'llm-response 1 stop',
      'checkpoint after-llm 1',
      'checkpoint before-iteration 1',
      'iteration-complete 1',
      'iteration-start 2',
    ]);
  });

  it.each<readonly [string, readonly Extension[]]>([
    ['nobody', []],
    ['beforeFinish', [{ name: 'closing', beforeFinish: () => undefined }]],
    ['afterIteration', [{ name: 'closing', afterIteration: () => undefined }]],
    ['afterTurn', [{ name: 'closing', afterTurn: () => undefined }]],
    ['a hook that finishes the turn', [{ name: 'closing', afterIteration: () => ({ finish: { text: 'Two.' } }) }]],
  ])('keeps the answer where it comes during the last iteration, with %s asked at the end', async (_, extensions) => {
    const answer = gate();
    const model = bench.model([{ gate: answer.pass(), text: 'Two.' }]);
    const loop = new AgentLoop(bench.config(model, { extensions, maxIterations: 1 }));
    const turn = loop.startTurn(question, { taskId: 't' });
    const watcher = watch(turn);
    await watcher.until('internal:llm-call');
    turn.steer(pears);
    answer.open();
    const messages = [{ role: 'assistant', content: 'Two.' }, pears];
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'Two.', reason: 'stop', messages });
    expect(watcher.of('internal:iteration-complete')).toHaveLength(1);
    expect(bench.store.read('t').slice(-2)).toMatchObject([{ type: 'x.steer' }, { type: 'turn.done' }]);
  });

  const summary = { type: 'llm.start', iteration: 2, attempt: 1, summary: true } as const;
  const inSummary = [firstCall, answerOf(['count']), intentOf(0), resultOf(0, 'two'), summary];
  const summarizing = {
    maxIterations: 1,
    onLimit: 'summarize',
    toolProviders: [plainTools({ count: () => 2 })],
  } as const;

  it('does not reach the closing summary, and is kept behind it', async () => {
    deadTurn(bench, inSummary);
    const model = bench.model([{ text: 'Two so far.' }]);
    const turn = AgentLoop.resume('t', bench.config(model, summarizing));
    turn.steer(pears);
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'Two so far.' });
    expect(model.calls[0]?.messages).not.toContainEqual(pears);
    expect(bench.store.read('t').slice(-2)).toMatchObject([{ type: 'x.steer' }, { type: 'turn.done' }]);
  });

  it('is not lost where the turn is paused or left in its closing summary', async () => {
    deadTurn(bench, inSummary);
    const turn = AgentLoop.resume('t', bench.config(bench.model([]), summarizing));
    turn.steer(pears);
    turn.pause('later');
    expect(await turn.result()).toMatchObject({ status: 'input-required' });
    expect(bench.store.read('t').slice(-2)).toMatchObject([{ type: 'x.steer' }, { type: 'turn.suspended' }]);
    const continues = AgentLoop.resume('t', bench.config(bench.model([{ text: 'Two so far.' }]), summarizing));
    expect(await continues.result()).toMatchObject({ status: 'completed', text: 'Two so far.', reason: 'unfinished' });
    expect(bench.store.read('t').filter(({ type }) => type === 'x.steer')).toHaveLength(1);
  });

  it('reaches the first model call where the turn has not started', async () => {
    const model = bench.model([{ text: 'No pears.' }]);
    const turn = new AgentLoop(bench.config(model)).startTurn(question);
    turn.steer(pears);
    await turn.result();
    expect(model.calls[0]?.messages).toEqual([...question, pears]);
  });

  it('keeps the order of several messages', async () => {
    const model = bench.model([{ text: 'No.' }]);
    const turn = new AgentLoop(bench.config(model)).startTurn(question);
    const more = ['one', 'two', 'three'].map((content): UserMessage => ({ role: 'user', content }));
    for (const message of more) turn.steer(message);
    await turn.result();
    expect(model.calls[0]?.messages.slice(1)).toEqual(more);
  });

  it('refuses what is no message, and a turn that is over', async () => {
    const turn = bench.loop([{ text: 'Two.' }]).startTurn(question);
    // @ts-expect-error: a role that there is not
    expect(() => turn.steer({ role: 'boss', content: 'Faster!' })).toThrow(
      expect.objectContaining({ code: 'INVALID_INPUT' }),
    );
    await turn.result();
    expect(() => turn.steer(pears)).toThrow(expect.objectContaining({ code: 'TERMINAL' }));
  });
});

describe('a steering command in the store', () => {
  it('is followed by whoever runs the turn, once, also where that one dies behind it', async () => {
    deadTurn(bench, []);
    bench.store.post('t', { id: 'one', type: 'steer', message: pears });
    const stuck = bench.model([{ never: true }]);
    const first = AgentLoop.resume('t', bench.config(stuck, { taskStateStore: bench.store }));
    await watch(first).until('internal:llm-call');
    expect(lastMessages(stuck)).toEqual([pears]);
    const thief = bench.model([{ text: 'No pears.' }]);
    expect(bench.store.read('t').filter(({ type }) => type === 'x.steer')).toMatchObject([{ command: 'one' }]);
    bench.leases.advance(30_000);
    const second = AgentLoop.resume('t', bench.config(thief));
    expect(await second.result()).toMatchObject({ status: 'completed', text: 'No pears.' });
    expect(thief.calls[0]?.messages).toEqual([...question, pears]);
    bench.clock.advance(10_000);
    await expect(first.settled).rejects.toMatchObject({ code: 'FENCED' });
  });
});
