import { describe, expect, it } from '@jest/globals';
import type { AgentLoopConfig, Message } from 'millrace';
import { AgentLoop, attribute } from 'millrace/internals';
import { gate, type LLMStep } from 'millrace/testing';
import { question } from '../core/dead-turn.ts';
import { turnBench } from '../core/turn-bench.ts';
import { outlineOf, watch } from '../core/watch-events.ts';
import { localTools } from './local-tools.ts';

const bench = turnBench();

const broken = () =>
  localTools({
    break: () => {
      throw new RangeError('x must be positive');
    },
    look: () => 'a tree',
  });

async function failingTurn(step: LLMStep, options: Partial<AgentLoopConfig>, after: readonly LLMStep[]) {
  const model = bench.model([step, ...after]);
  const config = bench.config(model, { toolProviders: [broken()], ...options });
  const turn = new AgentLoop(config).startTurn(question);
  const watcher = watch(turn);
  await watcher.ended;
  return { model, turn, watcher };
}

it('S0-18 names a turn by one new id in all its events, records and spans', async () => {
  const toolProviders = [broken()];
  const loop = bench.loop([{ toolCalls: [{ name: 'look' }] }, { text: 'Green.' }, { text: 'Blue.' }], {
    toolProviders,
  });
  const turns = [loop.startTurn(question), loop.startTurn(question)] as const;
  expect(turns[0].taskId).not.toBe(turns[1].taskId);
  for (const turn of turns) {
    const { taskId } = turn;
    expect(taskId).toMatch(/^[A-Za-z0-9_.:-]{1,128}$/);
    bench.spans.clear();
    const watcher = watch(turn);
    await watcher.ended;
    expect(new Set(watcher.events.map((event) => event.taskId))).toEqual(new Set([taskId]));
    expect(bench.store.read(taskId)[0]).toMatchObject({ type: 'turn.started', taskId });
    const ids = bench.spans.spans().map(({ attributes }) => attributes[attribute.taskId]);
    expect(ids.length).toBeGreaterThan(0);
    expect(new Set(ids)).toEqual(new Set([taskId]));
  }
});

it('S0-19 runs the calls of the model’s answer only, not those of the history that it was given', async () => {
  const call = (id: string): Message => ({
    role: 'assistant',
    content: null,
    toolCalls: [{ id, type: 'function', function: { name: 'look', arguments: '{"at":"history"}' } }],
  });
  const runs: unknown[] = [];
  const toolProviders = [localTools({ look: ({ at }) => runs.push(at) })];
  const loop = bench.loop([{ toolCalls: [{ name: 'look', arguments: { at: 'answer' } }] }, { text: 'Green.' }], {
    toolProviders,
  });
  const answered: Message = { role: 'tool', toolCallId: 'old', content: 'a pond' };
  const watcher = watch(loop.startTurn([...question, call('old'), answered, ...question, call('left open')]));
  await watcher.ended;
  expect(runs).toEqual(['answer']);
  expect(watcher.of('internal:tool-start')).toMatchObject([{ callId: '1:0', arguments: { at: 'answer' } }]);
});

it('S0-20 shows a call as running, then as done or failed, and calls the model again behind the last of them', async () => {
  const [first, second] = [gate(), gate()];
  const toolProviders = [
    localTools({
      fine: () => first.pass(),
      broken: async () => {
        await second.pass();
        throw new Error('no light');
      },
    }),
  ];
  const model = bench.model([{ toolCalls: [{ name: 'fine' }, { name: 'broken' }] }, { text: 'Dark.' }]);
  const turn = new AgentLoop(bench.config(model, { toolProviders })).startTurn(question, { taskId: 't' });
  const watcher = watch(turn);
  const calls = () =>
    bench.store.read('t').flatMap((record) => {
      if (record.type === 'tool.intent') return [`${record.callId} runs`];
      return record.type === 'tool.result' ? [`${record.callId} ${record.success ? 'ok' : 'failed'}`] : [];
    });
  await Promise.all([first.reached, second.reached]);
  expect(calls()).toEqual(['1:0 runs', '1:1 runs']);
  first.open();
  await watcher.until('internal:tool-complete');
  expect(calls()).toEqual(['1:0 runs', '1:1 runs', '1:0 ok']);
  expect(model.calls).toHaveLength(1);
  second.open();
  await watcher.ended;
  expect(calls()).toEqual(['1:0 runs', '1:1 runs', '1:0 ok', '1:1 failed']);
  expect(outlineOf(watcher.events).filter((line) => /^(tool|llm-call)/.test(line))).toEqual([
    'llm-call 1.1',
    'tool-call-delta 0 fine{}',
    'tool-call-delta 1 broken{}',
    'tool-start 1:0 fine',
    'tool-start 1:1 broken',
    'tool-complete 1:0 ok',
    'tool-complete 1:1 TOOL_FAILED',
    'llm-call 2.1',
  ]);
});

describe('a call that goes wrong', () => {
  it('S0-23 is told to the model by default: it is called once more, and the turn completes', async () => {
    const { model, turn, watcher } = await failingTurn({ toolCalls: [{ name: 'break' }] }, {}, [{ text: 'Sorry.' }]);
    expect(model.calls).toHaveLength(2);
    expect(model.calls[1]?.messages.at(-1)).toMatchObject({
      role: 'tool',
      content: 'Tool error: RangeError: x must be positive',
    });
    expect(watcher.events.at(-1)).toMatchObject({ status: { state: 'completed' } });
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'Sorry.' });
  });

  it("S0-24 fails the turn with toolFailureMode 'fail': no further model call, failed last, the tool's code", async () => {
    const { model, turn, watcher } = await failingTurn(
      { toolCalls: [{ name: 'break' }] },
      { toolFailureMode: 'fail' },
      [],
    );
    expect(model.calls).toHaveLength(1);
    expect(watcher.events.at(-1)).toMatchObject({
      kind: 'status-update',
      status: { state: 'failed' },
      final: true,
      error: { code: 'TOOL_FAILED', message: 'RangeError: x must be positive' },
    });
    await expect(turn.result()).rejects.toMatchObject({ code: 'TOOL_FAILED' });
  });

  it('S0-21 S2-33 of an unknown tool tells the model the tools there are; nothing runs, the loop goes on', async () => {
    const { model, turn, watcher } = await failingTurn({ toolCalls: [{ name: 'lok' }] }, {}, [{ text: 'Sorry.' }]);
    expect(model.calls[1]?.messages.at(-1)).toEqual({
      role: 'tool',
      toolCallId: 'call_1_0',
      status: 'error',
      content: 'Tool error: tool "lok" is not known; known tools: break, look',
    });
    expect(watcher.of('internal:tool-start')).toEqual([]);
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'Sorry.' });
  });

  it("S0-21 of an unknown tool fails the turn with toolFailureMode 'fail'", async () => {
    const { turn, watcher } = await failingTurn({ toolCalls: [{ name: 'lok' }] }, { toolFailureMode: 'fail' }, []);
    expect(watcher.events.at(-1)).toMatchObject({ status: { state: 'failed' }, error: { code: 'TOOL_NOT_FOUND' } });
    await expect(turn.result()).rejects.toMatchObject({ code: 'TOOL_NOT_FOUND' });
  });

  it('S2-34 with arguments that are not JSON shows them raw, is told to the model, and does not run', async () => {
    const runs: unknown[] = [];
    const toolProviders = [
      localTools({
        strict: (args) => runs.push(args),
        loose: { acceptsRaw: true, execute: (args) => runs.push(args) },
      }),
    ];
    const names = ['strict', 'loose'].map((name) => ({ name, arguments: '{"at": tree' }));
    const { model, watcher } = await failingTurn({ toolCalls: names }, { toolProviders }, [{ text: 'Sorry.' }]);
    const raw = { _raw: '{"at": tree' };
    expect(runs).toEqual([raw]);
    const byCall = Object.fromEntries(watcher.of('internal:tool-complete').map((event) => [event.callId, event]));
    expect(byCall).toMatchObject({
      '1:0': { arguments: raw, success: false, error: { code: 'TOOL_ARGUMENTS' } },
      '1:1': { arguments: raw, success: true },
    });
    expect(watcher.of('internal:tool-start')).toMatchObject([{ callId: '1:1', arguments: raw }]);
    expect(model.calls[1]?.messages.slice(-2)).toMatchObject([{ status: 'error' }, { content: '1' }]);
  });
});
