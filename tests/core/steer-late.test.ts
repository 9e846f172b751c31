import { describe, expect, it } from '@jest/globals';
import { type Extension, InMemoryStateStore, limits, type TurnResult, type UserMessage } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { gate } from 'millrace/testing';
import { agUiEvents, plainEvents, uiMessageChunks } from 'millrace/ui';
import { a2aBench, send } from '../a2a/bench.ts';
import { message, textOfPart } from '../a2a/messages.ts';
import { agentBench, says, user } from '../agent/agent-bench.ts';
import { deadTurn, question } from './dead-turn.ts';
import { plainTools } from './plain-tools.ts';
import { type BenchOptions, turnBench } from './turn-bench.ts';
import { watch } from './watch-events.ts';

const pears: UserMessage = { role: 'user', content: 'And pears?' };
const counting = { toolProviders: [plainTools({ count: () => 2 })], maxIterations: 1 };

async function resultOf(turn: { result(): Promise<TurnResult> }): Promise<TurnResult> {
  return turn.result().catch((error: { readonly result: TurnResult }) => error.result);
}

describe('a steering message that the turn does not read', () => {
  const bench = turnBench();

  /** A turn that is steered while its first model call runs, which then gives `step`. */
  async function steered(step: object, options: BenchOptions = {}, more: readonly object[] = []) {
    const answer = gate();
    const model = bench.model([{ gate: answer.pass(), ...step }, ...more]);
    const turn = new AgentLoop(bench.config(model, options)).startTurn(question, { taskId: 't' });
    const watcher = watch(turn);
    await watcher.until('internal:llm-call');
    const given = turn.steer(pears);
    return { turn, given, countsFor: given.countsFor(), watcher, answer, model };
  }

  it.each<readonly [string, object, BenchOptions, string, string]>([
    ['the answer of the last iteration', { text: 'Two.' }, { maxIterations: 1 }, 'next-turn', 'completed'],
    ['a model that fails', { error: new Error('broken') }, {}, 'this-turn', 'failed'],
    ['a limit that fails', { toolCalls: [{ name: 'count' }] }, counting, 'next-turn', 'failed'],
    [
      'a limit that stops',
      { toolCalls: [{ name: 'count' }] },
      { ...counting, onLimit: 'stop' },
      'next-turn',
      'completed',
    ],
  ])('R-26 counts for the next turn, and its sender is told: %s', async (_, step, options, expected, status) => {
    const { turn, given, countsFor, watcher, answer } = await steered(step, options);
    expect(given.expected).toBe(expected);
    answer.open();
    const result = await resultOf(turn);
    expect(result).toMatchObject({ status, unread: [pears] });
    expect(result.messages.at(-1)).toEqual(pears);
    await expect(countsFor).resolves.toBe('next-turn');
    expect(watcher.events.at(-1)).toMatchObject({ kind: 'status-update', final: true, unread: [pears] });
  });

  const fail = { code: 'REJECTED', message: 'no' } as const;
  const later = (state: { readonly iteration: number }) => state.iteration === 1;
  it.each<readonly [string, Extension, string]>([
    ['a limit before the next call', limits({ maxTokens: 10 }), 'failed'],
    ['a limit that stops before the next call', limits({ maxTokens: 10, onLimit: 'stop' }), 'completed'],
    [
      'prepareIteration finishes',
      {
        name: 'f',
        prepareIteration: (_, { state }) => (later(state) ? { finish: { text: 'Enough.' } } : undefined),
      },
      'completed',
    ],
    ['afterIteration finishes', { name: 'f', afterIteration: () => ({ finish: { text: 'Enough.' } }) }, 'completed'],
    ['afterToolCall fails', { name: 'f', afterToolCall: () => ({ fail }) }, 'failed'],
    ['afterIteration fails', { name: 'f', afterIteration: () => ({ fail }) }, 'failed'],
  ])('R-26 counts for the next turn where no model call follows: %s', async (_, extension, status) => {
    const usage = { promptTokens: 10, completionTokens: 10, totalTokens: 20 };
    const { toolProviders } = counting;
    const step = { toolCalls: [{ name: 'count' }], usage };
    const { turn, countsFor, answer, watcher } = await steered(step, { toolProviders, extensions: [extension] });
    answer.open();
    const result = await resultOf(turn);
    expect(result).toMatchObject({ status, unread: [pears] });
    expect(result.messages.at(-1)).toEqual(pears);
    await expect(countsFor).resolves.toBe('next-turn');
    expect(watcher.events.at(-1)).toMatchObject({ final: true, unread: [pears] });
  });

  it('R-26 counts for the next turn after a cancel, and a retry reads it', async () => {
    const { turn, countsFor } = await steered({ text: 'Two.' });
    await turn.cancel();
    expect(await resultOf(turn)).toMatchObject({ status: 'canceled', unread: [pears] });
    await expect(countsFor).resolves.toBe('next-turn');
    const again = bench.model([{ text: 'No pears.' }]);
    const retried = await AgentLoop.retry('t', bench.config(again)).result();
    expect(again.calls[0]?.messages).toEqual([...question, pears]);
    expect(retried).not.toHaveProperty('unread');
  });

  it('R-26 counts for the turn that reads it', async () => {
    const within = await steered({ text: 'Two.' }, {}, [{ text: 'No pears.' }]);
    expect(within.given.expected).toBe('this-turn');
    within.answer.open();
    expect(await within.turn.result()).not.toHaveProperty('unread');
    await expect(within.countsFor).resolves.toBe('this-turn');
  });

  it('R-26 is read by the closing summary after tool calls', async () => {
    const step = { toolCalls: [{ name: 'count' }] };
    const { turn, countsFor, answer, model } = await steered(step, { ...counting, onLimit: 'summarize' }, [
      { text: 'Two.' },
    ]);
    answer.open();
    expect(await turn.result()).not.toHaveProperty('unread');
    await expect(countsFor).resolves.toBe('this-turn');
    expect(model.calls[1]?.messages).toContainEqual(pears);
  });

  it('R-26 is told to the readers of AG-UI, useChat and plain events', async () => {
    const { turn, watcher, answer } = await steered({ text: 'Two.' }, { maxIterations: 1 });
    answer.open();
    await turn.result();
    const written = [agUiEvents({ threadId: 'c', runId: 'r' }), uiMessageChunks(), plainEvents()].map((events) =>
      watcher.events.flatMap((event): readonly object[] => events(event)).at(-1),
    );
    expect(written).toMatchObject([
      { type: 'RUN_FINISHED', result: { unread: 1 } },
      { type: 'finish', messageMetadata: { unread: 1 } },
      { event: 'end', data: { unread: 1 } },
    ]);
  });
});

describe('steering by an agent', () => {
  const on = agentBench();

  it('R-26 tells what becomes of messages to a turn of another process', async () => {
    const held = gate();
    const steps = [{ gate: held.pass(), text: 'Two.' }];
    const owner = on.agent(steps, { maxIterations: 1, messageStore: on.messages() });
    const other = on.agent([], { maxIterations: 1 });
    const turn = owner.startTurn('Apples?', { taskId: 't', detached: true });
    await watch(turn).until('internal:llm-call');
    const given = await other.steer('t', 'And pears?');
    expect(given.expected).toBe('next-turn');
    const countsFor = given.countsFor();
    held.open();
    await expect(countsFor).resolves.toBe('next-turn');
    expect(await turn.result()).toMatchObject({ unread: [user('And pears?')] });
  });

  it('R-26 rejects where the turn ended without the message', async () => {
    deadTurn(on.bench, []);
    const ada = on.agent([]);
    const given = await ada.steer('t', 'And pears?');
    const countsFor = given.countsFor();
    await AgentLoop.cancel('t', { store: on.bench.store, clock: on.bench.clock });
    await expect(countsFor).rejects.toMatchObject({ code: 'TERMINAL', message: expect.stringContaining('new turn') });
  });

  it('R-26 starts a turn of its own with busy: steer where the one that runs is at its last model call', async () => {
    const held = gate();
    const provider = on.bench.model([{ gate: held.pass(), text: 'One.' }, { text: 'Two.' }]);
    const ada = on.agent([], { provider, busy: 'steer', maxIterations: 1 });
    const first = ada.startTurn('1');
    await watch(first).until('internal:llm-call');
    const second = ada.startTurn('2');
    expect(second.taskId).not.toBe(first.taskId);
    const texts = Promise.all([first.result(), second.result()]);
    held.open();
    expect((await texts).map(({ text }) => text)).toEqual(['One.', 'Two.']);
    expect(provider.calls[1]?.messages).toEqual([user('1'), says('One.'), user('2')]);
  });
});

describe('steering over A2A', () => {
  it.each([
    ['the answer', {}, 'Two.'],
    [
      'what replaces the answer',
      { extensions: [{ name: 'f', afterIteration: () => ({ finish: { text: 'Three.' } }) }] },
      'Three.',
    ],
  ])(
    'R-26 counts for the next turn, and its task says so: the message is after %s, which is there once',
    async (_, more, said) => {
      const held = gate();
      const store = new (class extends InMemoryStateStore {
        override post(...args: Parameters<InMemoryStateStore['post']>) {
          const posted = super.post(...args);
          held.open();
          return posted;
        }
      })();
      const options = { maxIterations: 1, ...more };
      const { handler } = a2aBench({ store, steps: [{ gate: held.pass(), text: 'Two.' }], agent: options });
      const { id } = await send(handler, message('Apples?'), { returnImmediately: true });
      const task = await send(handler, message('And pears?', { taskId: id }));
      expect(task).toMatchObject({ metadata: { 'urn:millrace:a2a:turn:v1': { unread: 1 } } });
      expect(task.history.map(({ parts }) => parts.map(textOfPart).join(''))).toEqual(['Apples?', said, 'And pears?']);
    },
  );
});
