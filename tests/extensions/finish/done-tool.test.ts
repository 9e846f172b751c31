import { describe, expect, it } from '@jest/globals';
import { DoneSignal, doneTool, LocalToolProvider, TaskComplete, tool } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import type { LLMStep } from 'millrace/testing';
import type { DoneToolOptions } from 'millrace/types';
import { answerOf, deadTurn, firstCall, intentOf, question } from '../../core/dead-turn.ts';
import { plainTools } from '../../core/plain-tools.ts';
import { turnBench } from '../../core/turn-bench.ts';
import { outlineOf, watch } from '../../core/watch-events.ts';

const bench = turnBench();
const done = (message?: string): LLMStep => ({
  text: 'All is counted.',
  toolCalls: [{ name: 'done', arguments: message === undefined ? {} : { message } }],
});

function ending(steps: readonly LLMStep[], options: DoneToolOptions = {}) {
  const toolProviders = [plainTools({ count: () => 2 })];
  return bench.loop(steps, { toolProviders, extensions: [doneTool(options)] });
}

describe('doneTool', () => {
  it('S2-39 ends the turn with the message that the model gives', async () => {
    const result = await ending([done('There are two.')])
      .startTurn(question)
      .result();
    expect(result).toMatchObject({ status: 'completed', reason: 'done', text: 'There are two.', iterations: 1 });
  });

  it('S2-39 ends it with the text of the response that called it where there is no message', async () => {
    const result = await ending([done()]).startTurn(question).result();
    expect(result).toMatchObject({ status: 'completed', text: 'All is counted.' });
  });

  it('S2-40 leaves its call and its result in the history', async () => {
    const result = await ending([done('There are two.')])
      .startTurn(question)
      .result();
    expect(result.messages).toMatchObject([
      { role: 'assistant', content: 'All is counted.', toolCalls: [{ function: { name: 'done' } }] },
      { role: 'tool', content: 'There are two.' },
      { role: 'assistant', content: 'There are two.' },
    ]);
    expect(result.messages[1]).not.toHaveProperty('status');
  });

  it('S2-41 skips the calls of its batch that have not started', async () => {
    const names = ['count', 'done', 'count'];
    const toolProviders = [plainTools({ count: () => 2 })];
    const loop = bench.loop([{ toolCalls: names.map((name) => ({ name })) }], {
      toolProviders,
      extensions: [doneTool()],
      toolConcurrency: 1,
    });
    const result = await loop.startTurn(question).result();
    expect(result.messages.slice(1)).toMatchObject([
      { content: '2' },
      { content: 'The task is complete.' },
      { content: 'Tool error: skipped: the turn finished', status: 'error' },
    ]);
  });

  it('counts the first of two calls that end the turn', async () => {
    const calls = ['one', 'two'].map((message) => ({ name: 'done', arguments: { message } }));
    const result = await ending([{ toolCalls: calls }])
      .startTurn(question)
      .result();
    expect(result).toMatchObject({ status: 'completed', text: 'one' });
  });

  it('S2-08 is not needed unless it is required', async () => {
    const result = await ending([{ text: 'Two.' }])
      .startTurn(question)
      .result();
    expect(result).toMatchObject({ text: 'Two.', reason: 'stop', iterations: 1 });
  });

  it('S2-08 S2-28 makes a turn go on where it is required, until it is called', async () => {
    const model = bench.model([{ text: 'Two.' }, done('There are two.')]);
    const config = bench.config(model, { extensions: [doneTool({ required: true })] });
    const result = await new AgentLoop(config).startTurn(question).result();
    expect(result).toMatchObject({ text: 'There are two.', iterations: 2 });
    expect(model.calls[1]?.messages.slice(1)).toEqual([
      { role: 'assistant', content: 'Two.' },
      { role: 'user', content: 'Continue with the task. If it is complete, call the tool "done".' },
    ]);
  });

  it('S2-28 ends a turn that never calls it at the limit of iterations', async () => {
    const model = bench.model([{ text: 'One.' }, { text: 'Two.' }]);
    const extensions = [doneTool({ required: true, nudge: 'On!' })];
    const loop = new AgentLoop(bench.config(model, { extensions, maxIterations: 2 }));
    await expect(loop.startTurn(question).result()).rejects.toMatchObject({ code: 'MAX_ITERATIONS' });
    expect(model.calls[1]?.messages.at(-1)).toEqual({ role: 'user', content: 'On!' });
  });

  it('ends a turn that a process died in the middle of its call', async () => {
    deadTurn(bench, [firstCall, answerOf(['done']), intentOf(0)]);
    const config = bench.config(bench.model([]), { extensions: [doneTool({ required: true })] });
    const result = await AgentLoop.resume('t', config).result();
    expect(result).toMatchObject({ status: 'completed', reason: 'done', toolCalls: 1 });
  });
});

describe('a tool that ends the turn', () => {
  const submit = (execute: () => unknown) =>
    new LocalToolProvider([tool({ name: 'submit', description: 'Submits.', parameters: { type: 'object' }, execute })]);
  const throwing = () => {
    throw new TaskComplete('Submitted.');
  };
  const run = async (execute: () => unknown, taskId: string) => {
    const steps = [{ text: 'I submit.', toolCalls: [{ name: 'submit' }] }];
    const loop = bench.loop(steps, { toolProviders: [submit(execute)], extensions: [doneTool()] });
    const turn = loop.startTurn(question, { taskId });
    const watcher = watch(turn);
    await watcher.ended;
    const { text, status, reason, messages, iterations } = await turn.result();
    return { outline: outlineOf(watcher.events), result: { text, status, reason, messages, iterations } };
  };

  const returns: readonly [string, () => unknown][] = [
    ['at once', () => new DoneSignal('Submitted.')],
    ['later', async () => new DoneSignal('Submitted.')],
  ];

  it('S2-38 by throwing TaskComplete completes it with its message, without another model call', async () => {
    const { result } = await run(throwing, 'thrown');
    expect(result).toMatchObject({ status: 'completed', text: 'Submitted.', iterations: 1 });
  });

  it.each(returns)('S2-42 by returning a DoneSignal %s gives the same events and result', async (_, returning) => {
    expect(await run(returning, 'returned')).toEqual(await run(throwing, 'thrown'));
  });
});
