import { describe, expect, it } from '@jest/globals';
import {
  agent,
  agentTools,
  DoneSignal,
  doneTool,
  type Extension,
  LocalToolProvider,
  TaskComplete,
  type ToolProvider,
  type ToolResult,
  tool,
} from 'millrace';
import { gate } from 'millrace/testing';
import { question } from './dead-turn.ts';
import { plainTools } from './plain-tools.ts';
import { turnBench } from './turn-bench.ts';
import { ofKind, watch } from './watch-events.ts';

const bench = turnBench();
const calls = (...names: readonly string[]) => ({
  text: 'I submit.',
  toolCalls: names.map((name, index) => ({ name, id: `k${index}` })),
});
const submitting = (execute: () => unknown) =>
  new LocalToolProvider([tool({ name: 'submit', description: 'Submits.', parameters: { type: 'object' }, execute })]);
const thrown = (message?: string) => () => {
  throw new TaskComplete(message);
};

/** As a provider in JavaScript says it: its answer is not looked at. */
const isAnswer = (answer: unknown): answer is ToolResult => answer !== undefined;

describe('a tool that ends the turn, without further set-up', () => {
  const ways: readonly [string, () => unknown][] = [
    ['throws TaskComplete', thrown('Submitted.')],
    ['rejects with TaskComplete', async () => thrown('Submitted.')()],
    ['returns a DoneSignal', () => new DoneSignal('Submitted.')],
    ['resolves with a DoneSignal', async () => new DoneSignal('Submitted.')],
  ];

  it.each(ways)('U-09 completes it where it %s', async (_, execute) => {
    const turn = bench.loop([calls('submit')], { toolProviders: [submitting(execute)] }).startTurn(question);
    const reader = watch(turn);
    const { status, reason, text, messages } = await turn.result();
    expect([status, reason, text]).toEqual(['completed', 'done', 'Submitted.']);
    expect(messages.slice(-2)).toEqual([
      { role: 'tool', toolCallId: 'k0', content: 'Submitted.' },
      { role: 'assistant', content: 'Submitted.' },
    ]);
    expect(ofKind(reader.events, 'internal:tool-complete')).toMatchObject([{ success: true }]);
  });

  it('U-09 completes it from a provider of its own, and without a message with the text of the response', async () => {
    const provider: ToolProvider = {
      getTools: () => [{ type: 'function', function: { name: 'submit', description: 'Submits.', parameters: {} } }],
      executeTool() {
        const answer: unknown = new DoneSignal();
        if (isAnswer(answer)) return answer;
        throw new Error('never');
      },
    };
    const turn = bench.loop([calls('submit')], { toolProviders: [provider] }).startTurn(question);
    expect(await turn.result()).toMatchObject({ reason: 'done', text: 'I submit.' });
  });

  it('U-09 counts once: the first of two calls, and where doneTool is there too', async () => {
    const later = gate();
    const two = plainTools({ first: thrown('First.'), second: () => later.pass().then(thrown('Second.')) });
    const turn = bench.loop([calls('second', 'first')], { toolProviders: [two] }).startTurn(question);
    const reader = watch(turn);
    await reader.until('internal:tool-complete');
    later.open();
    expect((await turn.result()).text).toBe('First.');
    const both = bench.loop([calls('submit')], {
      toolProviders: [submitting(thrown('Submitted.'))],
      extensions: [doneTool()],
      toolFailureMode: 'fail',
    });
    expect(await both.startTurn(question, { taskId: 'both' }).result()).toMatchObject({ text: 'Submitted.' });
    const records = await bench.store.read('both');
    expect(records.filter(({ type }) => type.startsWith('x.'))).toMatchObject([{ type: 'x.done-tool' }]);
  });

  it('U-09 is a success to extensions, and one may still keep the turn going by its result', async () => {
    const seen: unknown[] = [];
    const refuses: Extension = {
      name: 'refuses',
      afterToolCall({ result }) {
        seen.push(result.success);
        return { result: { content: 'Not yet.', success: false } };
      },
    };
    const steps = [calls('submit'), { text: 'Then later.' }];
    const config = { toolProviders: [submitting(thrown('Submitted.'))], extensions: [refuses] };
    const { text, reason } = await bench.loop(steps, config).startTurn(question).result();
    expect([seen, text, reason]).toEqual([[true], 'Then later.', 'stop']);
  });

  it('U-09 ends the turn of a sub-agent only', async () => {
    const bo = agent({
      id: 'bo',
      provider: bench.model([calls('submit')]),
      toolProviders: [submitting(thrown('Submitted.'))],
      clock: bench.clock,
    });
    const asks = { toolCalls: [{ name: 'bo', arguments: { message: 'Go.' } }] };
    const turn = bench.loop([asks, { text: 'So.' }], { toolProviders: [agentTools([bo])] }).startTurn(question);
    const { text, messages } = await turn.result();
    expect([text, messages.at(1)?.content]).toEqual(['So.', 'Submitted.']);
  });
});
