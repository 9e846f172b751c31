import { describe, expect, it } from '@jest/globals';
import { AgentLoop } from 'millrace/internals';
import { gate } from 'millrace/testing';
import { question } from '../core/dead-turn.ts';
import { turnBench } from '../core/turn-bench.ts';
import { outlineOf, textsOf, watch } from '../core/watch-events.ts';
import { localTools } from './local-tools.ts';

const bench = turnBench();

it('S2-18 shows all reasoning of an iteration before its text, and none where there is none', async () => {
  const loop = bench.loop(
    [{ reasoning: 'Trees are green.', text: ['I ', 'look.'], toolCalls: [{ name: 'look' }] }, { text: 'Green.' }],
    { toolProviders: [localTools({ look: () => 'a tree' })] },
  );
  const watcher = watch(loop.startTurn(question));
  await watcher.ended;
  const reasoning = watcher.of('internal:reasoning-delta');
  expect(reasoning.map(({ iteration, text }) => [iteration, text])).toEqual([[1, 'Trees are green.']]);
  const kinds = watcher.events.map(({ kind }) => kind);
  expect(kinds.lastIndexOf('internal:reasoning-delta')).toBeLessThan(kinds.indexOf('artifact-update'));
});

it('S2-19 shows the text that precedes calls before the first of them starts', async () => {
  const loop = bench.loop([{ text: ['I ', 'look.'], toolCalls: [{ name: 'look' }] }, { text: 'Green.' }], {
    toolProviders: [localTools({ look: () => 'a tree' })],
  });
  const watcher = watch(loop.startTurn(question));
  await watcher.ended;
  const started = watcher.events.findIndex(({ kind }) => kind === 'internal:tool-start');
  expect(started).toBeGreaterThan(0);
  expect(textsOf(watcher.events.slice(0, started))).toEqual({ 'answer-1': 'I look.' });
  expect(textsOf(watcher.events.slice(started))).toEqual({ 'answer-2': 'Green.' });
});

describe('the events of calls', () => {
  it('S2-22 begin with one tool-start each, their ids the iteration and the index', async () => {
    const names = ['look', 'listen', 'look'];
    const loop = bench.loop(
      [{ toolCalls: names.map((name, at) => ({ name, id: 'same', arguments: { at } })) }, { text: 'Green.' }],
      {
        toolProviders: [localTools({ look: () => 'a tree', listen: () => 'a bird' })],
      },
    );
    const watcher = watch(loop.startTurn(question));
    await watcher.ended;
    const starts = watcher.of('internal:tool-start').map(({ callId, toolName }) => [callId, toolName]);
    expect(starts).toEqual(names.map((name, index) => [`1:${index}`, name]));
  });

  it('S2-23 tell the tool, the call, and the arguments that the tool received', async () => {
    const received: unknown[] = [];
    const given = { at: { tree: [1, null, 'ü'] }, deep: { flag: false } };
    const loop = bench.loop([{ toolCalls: [{ name: 'look', arguments: given }] }, { text: 'Green.' }], {
      toolProviders: [localTools({ look: (args) => received.push(args) })],
    });
    const watcher = watch(loop.startTurn(question));
    await watcher.ended;
    expect(received).toEqual([given]);
    expect(watcher.of('internal:tool-start')).toMatchObject([{ toolName: 'look', callId: '1:0' }]);
    expect(watcher.of('internal:tool-start').map((event) => event.arguments)).toEqual(received);
  });

  it('S2-24 tell the content of a return, and the error of a throw', async () => {
    const loop = bench.loop([{ toolCalls: [{ name: 'look' }, { name: 'break' }] }, { text: 'Green.' }], {
      toolProviders: [
        localTools({
          look: () => ({ seen: 'a tree' }),
          break: () => {
            throw new RangeError('x must be positive');
          },
        }),
      ],
    });
    const watcher = watch(loop.startTurn(question));
    await watcher.ended;
    const [returned, thrown] = watcher.of('internal:tool-complete');
    expect(returned).toMatchObject({ callId: '1:0', success: true, content: '{"seen":"a tree"}' });
    expect(returned).not.toHaveProperty('error');
    expect(thrown).toMatchObject({
      callId: '1:1',
      success: false,
      content: 'Tool error: RangeError: x must be positive',
      error: { code: 'TOOL_FAILED', message: 'RangeError: x must be positive' },
    });
  });
});

it('S2-26 come in one order: reasoning, text, the calls of the iteration, the end', async () => {
  const slow = gate();
  const tools = localTools({
    look: async () => {
      await slow.pass();
      return 'a tree';
    },
    listen: () => 'a bird',
  });
  const steps = [
    { reasoning: 'Trees.', text: 'I look.', toolCalls: [{ name: 'look' }, { name: 'listen' }] },
    { reasoning: 'Leaves.', text: ['It is ', 'green.'] },
  ];
  const turn = bench.loop(steps, { toolProviders: [tools] }).startTurn(question);
  const watcher = watch(turn, (event) => {
    if (event.kind === 'internal:tool-complete') slow.open();
  });
  await watcher.ended;
  expect(outlineOf(watcher.events)).toEqual([
    'task submitted',
    'status working',
    'checkpoint before-iteration 0',
    'iteration-start 1',
    'llm-call 1.1',
    'reasoning-delta "Trees."',
    'answer-1 is: "I look."',
    'tool-call-delta 0 look{}',
    'tool-call-delta 1 listen{}',
    'answer-1 appends, last: ""',
    'llm-response 1 tool_calls',
    'checkpoint after-llm 1',
    'tool-start 1:0 look',
    'tool-start 1:1 listen',
    'tool-complete 1:1 ok',
    'tool-complete 1:0 ok',
    'checkpoint before-iteration 1',
    'iteration-complete 1',
    'iteration-start 2',
    'llm-call 2.1',
    'reasoning-delta "Leaves."',
    'answer-2 is: "It is "',
    'answer-2 appends: "green."',
    'answer-2 appends, last: ""',
    'llm-response 2 stop',
    'checkpoint after-llm 2',
    'checkpoint end 2',
    'iteration-complete 2',
    'status completed final (stop)',
  ]);
});

it('S2-27 gives the same end to who waits for the result as to who watches the events', async () => {
  const step = { text: 'I look.', toolCalls: [{ name: 'look' }] };
  const turnOf = (watched: boolean) => {
    const model = bench.model([step, { text: 'It is green.' }]);
    const config = bench.config(model, { toolProviders: [localTools({ look: () => 'a tree' })] });
    const turn = new AgentLoop(config).startTurn(question, { taskId: `watched-${watched}`, contextId: 'c' });
    return { turn, watcher: watched ? watch(turn) : undefined };
  };
  const { turn, watcher } = turnOf(true);
  await watcher?.ended;
  const last = watcher?.events.at(-1);
  const results = [await turn.result(), await turnOf(false).turn.result()];
  expect({ ...results[1], taskId: 'watched-true' }).toEqual(results[0]);
  expect(results[0]).toMatchObject({ status: 'completed', reason: 'stop', text: 'It is green.' });
  expect(last).toMatchObject({
    status: { state: 'completed', message: { parts: [{ kind: 'text', text: 'It is green.' }] } },
    reason: 'stop',
    final: true,
  });
});
