import { describe, expect, it } from '@jest/globals';
import type { AgentEvent } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { question } from '../core/dead-turn.ts';
import { turnBench } from '../core/turn-bench.ts';
import { outlineOf, watch } from '../core/watch-events.ts';
import { localTools } from './local-tools.ts';

const bench = turnBench();
const toolProviders = () => [localTools({ look: () => 'a tree' })];
const look = { toolCalls: [{ name: 'look' }] };

function usage(promptTokens: number, completionTokens: number) {
  return { promptTokens, completionTokens, totalTokens: promptTokens + completionTokens };
}

describe('result()', () => {
  it('S0-48 starts a turn that nobody watches, once, and resolves with its texts and usage', async () => {
    const model = bench.model([
      { text: 'I look.', ...look, usage: usage(10, 2) },
      { text: 'Green.', usage: usage(20, 3) },
    ]);
    const turn = new AgentLoop(bench.config(model, { toolProviders: toolProviders() })).startTurn(question);
    expect(model.calls).toHaveLength(0);
    const [result, again] = await Promise.all([turn.result(), turn.result()]);
    expect(result).toMatchObject({
      status: 'completed',
      text: 'Green.',
      allText: 'I look.\nGreen.',
      usage: usage(30, 5),
    });
    expect(again).toEqual(result);
    expect(model.calls).toHaveLength(2);
  });

  it('S0-55 has the sum of the tokens of all iterations', async () => {
    const loop = bench.loop(
      [
        { ...look, usage: { ...usage(10, 2), cachedTokens: 4 } },
        { ...look, usage: usage(20, 3) },
        { text: 'Green.', usage: { ...usage(30, 4), cachedTokens: 8, cost: 0.5 } },
      ],
      { toolProviders: toolProviders() },
    );
    const result = await loop.startTurn(question).result();
    expect(result.usage).toEqual({ ...usage(60, 9), cachedTokens: 12, cost: 0.5 });
    expect(result.usage.totalTokens).toBe(69);
  });

  it('S0-57 has the text of an answer without calls, which ends the turn', async () => {
    const model = bench.model([{ text: 'Green.', finishReason: 'stop' }]);
    const turn = new AgentLoop(bench.config(model)).startTurn(question);
    const watcher = watch(turn);
    await watcher.ended;
    expect(outlineOf(watcher.events).slice(-2)).toEqual(['iteration-complete 1', 'status completed final (stop)']);
    expect(model.calls).toHaveLength(1);
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'Green.', iterations: 1 });
  });

  it("S0-58 rejects at the limit with onLimit 'fail', and keeps what there was", async () => {
    const step = { text: 'I look.', ...look, usage: usage(10, 2) };
    const loop = bench.loop([step, step], { toolProviders: toolProviders(), maxIterations: 2, onLimit: 'fail' });
    const turn = loop.startTurn(question);
    const watcher = watch(turn);
    await watcher.ended;
    expect(watcher.events.at(-1)).toMatchObject({ status: { state: 'failed' }, final: true, reason: 'max_iterations' });
    await expect(turn.result()).rejects.toMatchObject({
      code: 'MAX_ITERATIONS',
      reason: 'max_iterations',
      result: { status: 'failed', text: 'I look.', allText: 'I look.\nI look.', usage: usage(20, 4), toolCalls: 2 },
    });
    await expect(turn.result()).rejects.toHaveProperty('result.messages.length', 4);
  });
});

describe('for await', () => {
  it('S0-49 gives the events; leaving it early cancels the turn', async () => {
    const model = bench.model([{ text: ['It ', 'is'], never: true }]);
    const turn = new AgentLoop(bench.config(model)).startTurn(question, { taskId: 't' });
    const kinds: AgentEvent['kind'][] = [];
    for await (const event of turn) {
      kinds.push(event.kind);
      if (event.kind === 'artifact-update') break;
    }
    await turn.settled;
    expect(kinds[0]).toBe('task');
    expect(kinds.filter((kind) => kind === 'artifact-update')).toHaveLength(1);
    expect([model.unsubscribed, model.calls[0]?.signal?.aborted]).toEqual([1, true]);
    expect(bench.store.read('t').at(-1)).toMatchObject({ type: 'turn.canceled' });
  });

  it('S0-56 yields the failure of a provider last, with its code, and ends without throwing', async () => {
    const loop = bench.loop([{ text: 'It', error: new Error('no route') }]);
    const events: AgentEvent[] = [];
    for await (const event of loop.startTurn(question)) events.push(event);
    expect(events.at(-1)).toMatchObject({
      kind: 'status-update',
      status: { state: 'failed' },
      final: true,
      error: { code: 'PROVIDER_FAILED' },
    });
  });
});

it('S0-59 tells durations by its timestamps, and the tokens of all calls', async () => {
  const takes = (ms: number) => () => bench.clock.advance(ms);
  const after = (ms: number, step: Parameters<typeof bench.model>[0][number]) => () => {
    takes(ms)();
    return typeof step === 'function' ? {} : step;
  };
  const tools = localTools({ slow: takes(300) });
  const loop = bench.loop(
    [
      after(1_000, { toolCalls: [{ name: 'slow' }, { name: 'slow' }], usage: usage(10, 2) }),
      after(2_500, { text: 'Green.', usage: usage(20, 3) }),
    ],
    { toolProviders: [tools], toolConcurrency: 1 },
  );
  const turn = loop.startTurn(question);
  const watcher = watch(turn);
  const result = await turn.result();
  const times = (kind: 'internal:iteration-start' | 'internal:iteration-complete') =>
    watcher.of(kind).map(({ timestamp }) => Date.parse(timestamp));
  const [starts, ends] = [times('internal:iteration-start'), times('internal:iteration-complete')];
  expect(ends.map((end, index) => end - (starts[index] ?? 0))).toEqual([1_600, 2_500]);
  expect(watcher.of('internal:tool-complete').map(({ durationMs }) => durationMs)).toEqual([300, 300]);
  const [first, last] = [watcher.events[0], watcher.events.at(-1)];
  expect(Date.parse(last?.timestamp ?? '') - Date.parse(first?.timestamp ?? '')).toBe(4_100);
  expect(result.usage).toEqual(usage(30, 5));
});
