import { describe, expect, it } from '@jest/globals';
import type { StartOptions } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import type { LLMStep } from 'millrace/testing';
import type { OnLimit } from 'millrace/types';
import { question } from './dead-turn.ts';
import { plainTools } from './plain-tools.ts';
import { type BenchOptions, turnBench } from './turn-bench.ts';
import { outlineOf, watch } from './watch-events.ts';

const bench = turnBench();
const asks: LLMStep = { text: 'Again.', toolCalls: [{ name: 'count' }] };

/** A turn whose model asks for a tool `times` times, and then does what `steps` say. */
function insatiable(
  times: number,
  options: BenchOptions = {},
  { steps = [], ...start }: StartOptions & { steps?: readonly LLMStep[] } = {},
) {
  const model = bench.model([...Array.from({ length: times }, () => asks), ...steps], { synchronous: true });
  const toolProviders = [plainTools({ count: () => 2 })];
  const turn = new AgentLoop(bench.config(model, { toolProviders, ...options })).startTurn(question, {
    taskId: 't',
    ...start,
  });
  return { turn, model };
}

describe('the limit of iterations', () => {
  it('S1-23 S1-34 S0-58 S3-08 S4-26 is 10: the turn fails with max_iterations, and keeps what there was', async () => {
    const { turn, model } = insatiable(10);
    const watcher = watch(turn);
    await expect(turn.result()).rejects.toMatchObject({
      code: 'MAX_ITERATIONS',
      reason: 'max_iterations',
      message: expect.stringContaining('maxIterations'),
      result: { status: 'failed', iterations: 10, toolCalls: 10, text: 'Again.', messages: { length: 20 } },
    });
    expect(model.calls).toHaveLength(10);
    expect(watcher.events.at(-1)).toMatchObject({
      status: { state: 'failed' },
      reason: 'max_iterations',
      error: { code: 'MAX_ITERATIONS' },
      final: true,
    });
  });

  it('S1-23 is the one of the configuration', async () => {
    const { turn, model } = insatiable(3, { maxIterations: 3 });
    await expect(turn.result()).rejects.toMatchObject({ code: 'MAX_ITERATIONS' });
    expect(model.calls).toHaveLength(3);
  });

  it('S1-24 is the one given with the turn, before that of the configuration', async () => {
    const { turn, model } = insatiable(2, { maxIterations: 10 }, { maxIterations: 2 });
    await expect(turn.result()).rejects.toMatchObject({ code: 'MAX_ITERATIONS' });
    expect(model.calls).toHaveLength(2);
    expect(bench.store.read('t')[0]).toMatchObject({ settings: { maxIterations: 2 } });
  });

  it('is not reached by a turn that answers in its last iteration', async () => {
    const { turn } = insatiable(2, { maxIterations: 3 }, { steps: [{ text: 'Two.' }] });
    expect(await turn.result()).toMatchObject({ status: 'completed', reason: 'stop', iterations: 3 });
  });

  it.each<[OnLimit, string]>([
    ['fail', 'failed'],
    ['stop', 'completed'],
  ])(
    'S3-08 S3-09 of 1 with onLimit %s is a single turn: one request, its tools run, reason unfinished',
    async (onLimit, status) => {
      const { turn, model } = insatiable(1, { maxIterations: 1, onLimit });
      const watcher = watch(turn);
      const [outcome] = await Promise.allSettled([turn.result()]);
      expect(model.calls).toHaveLength(1);
      expect(model.calls[0]).not.toHaveProperty('toolChoice');
      expect(watcher.of('internal:tool-complete')).toMatchObject([{ content: '2', success: true }]);
      expect(watcher.events.at(-1)).toMatchObject({ status: { state: status }, reason: 'unfinished' });
      expect(outcome).toMatchObject(
        status === 'failed' ? { reason: { reason: 'unfinished' } } : { value: { reason: 'unfinished' } },
      );
    },
  );

  it('S1-34 with onLimit stop completes with the text of the last response', async () => {
    const { turn } = insatiable(2, { maxIterations: 2, onLimit: 'stop' });
    expect(await turn.result()).toMatchObject({ status: 'completed', reason: 'max_iterations', text: 'Again.' });
  });
});

describe('the closing summary', () => {
  it('S2-01 S2-45 is the 201st call of a turn of 200: it has no tools, no toolChoice, and a request to sum up', async () => {
    const { turn, model } = insatiable(
      200,
      { maxIterations: 200, onLimit: 'summarize', toolChoice: 'auto' },
      { steps: [{ text: 'In short: two.' }] },
    );
    const watcher = watch(turn);
    expect(await turn.result()).toMatchObject({
      status: 'completed',
      reason: 'max_iterations',
      text: 'In short: two.',
    });
    expect(model.calls).toHaveLength(201);
    const last = model.calls[200];
    expect(last).not.toHaveProperty('tools');
    expect(last).not.toHaveProperty('toolChoice');
    expect(last?.messages.at(-1)).toMatchObject({ role: 'user', content: expect.stringContaining('sum up') });
    expect(model.calls[199]).toHaveProperty('tools');
    expect(watcher.of('internal:iteration-start').at(-1)).toMatchObject({ iteration: 201, summary: true });
  });

  it('S2-46 is in the history once, in the events and in the result', async () => {
    const { turn } = insatiable(1, { maxIterations: 1, onLimit: 'summarize' }, { steps: [{ text: 'In short: two.' }] });
    const watcher = watch(turn);
    const { text, allText } = await turn.result();
    expect({ text, allText }).toEqual({ text: 'In short: two.', allText: 'Again.\nIn short: two.' });
    expect(bench.store.load('t')?.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'assistant']);
    expect(bench.store.load('t')?.messages.at(-1)).toEqual({ role: 'assistant', content: 'In short: two.' });
    expect(outlineOf(watcher.events)).toContain('answer-2 is: "In short: two."');
    expect(watcher.events.at(-1)).toMatchObject({ status: { message: { parts: [{ text: 'In short: two.' }] } } });
  });

  it.each([
    ['fails', { error: new Error('cut') }],
    ['says nothing', { text: '' }],
  ])('S2-47 is replaced by a fixed sentence where its call %s; the model is not called again', async (_, step) => {
    const { turn, model } = insatiable(1, { maxIterations: 1, onLimit: 'summarize' }, { steps: [step] });
    expect(await turn.result()).toMatchObject({
      status: 'completed',
      text: 'The limit of steps was reached before an answer was found.',
    });
    expect(model.calls).toHaveLength(2);
  });

  it.each(['beforeLLMCall', 'afterLLMCall'] as const)('fails the turn where %s fails', async (hook) => {
    let asked = 0;
    const broken = {
      name: 'broken',
      [hook]: () => {
        if (++asked === 2) throw new Error('no');
      },
    };
    const options = { maxIterations: 1, onLimit: 'summarize' as const, extensions: [broken] };
    const { turn } = insatiable(1, options, { steps: hook === 'afterLLMCall' ? [{ text: 'Two.' }] : [] });
    await expect(turn.result()).rejects.toMatchObject({ code: 'EXTENSION_FAILED' });
  });

  it('runs no tool that its model asks for all the same', async () => {
    const { turn } = insatiable(1, { maxIterations: 1, onLimit: 'summarize' }, { steps: [{ ...asks, text: 'Two.' }] });
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'Two.', toolCalls: 1 });
  });
});
