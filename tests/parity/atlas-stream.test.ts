import { describe, expect, it } from '@jest/globals';
import { asyncStore, faultyStore, gate, type LLMStep } from 'millrace/testing';
import { question } from '../core/dead-turn.ts';
import { turnBench } from '../core/turn-bench.ts';
import { watch } from '../core/watch-events.ts';
import { localTools } from './local-tools.ts';

const bench = turnBench();
const ask: LLMStep = { toolCalls: ['tree', 'pond'].map((at) => ({ name: 'look', arguments: { at } })) };

it('S4-32 tells each call that runs once, with tool, arguments and id, when its intent is durable and not before', async () => {
  const runs: unknown[] = [];
  const held = gate();
  // The first append is that of llm.start, the second that of llm.done and the intents.
  const store = faultyStore(asyncStore(bench.store), [{ method: 'append', call: 2, fault: 'hold-before', gate: held }]);
  const loop = bench.loop([ask, { text: 'Green.' }], {
    toolProviders: [localTools({ look: ({ at }) => runs.push(at) })],
    taskStateStore: store,
  });
  const watcher = watch(loop.startTurn(question, { taskId: 't' }));
  await held.reached;
  await new Promise((resolve) => setImmediate(resolve));
  expect([watcher.of('internal:tool-start'), runs]).toEqual([[], []]);
  held.open();
  await watcher.ended;
  expect(runs).toEqual(['tree', 'pond']);
  expect(watcher.of('internal:tool-start')).toMatchObject([
    { toolName: 'look', callId: '1:0', arguments: { at: 'tree' } },
    { toolName: 'look', callId: '1:1', arguments: { at: 'pond' } },
  ]);
});

describe('the stream', () => {
  const endings: readonly (readonly [string, string, readonly LLMStep[]])[] = [
    ['an answer', 'completed', [ask, { text: 'Green.' }]],
    ['a failure', 'failed', [ask, { error: new Error('no route') }]],
    ['a cancel', 'canceled', [ask, { never: true }]],
  ];
  it.each(endings)('S4-34 has exactly one final event, its last, and completes: %s', async (_, state, steps) => {
    const loop = bench.loop(steps, { toolProviders: [localTools({ look: () => 'a tree' })] });
    const turn = loop.startTurn(question);
    const watcher = watch(turn);
    await watcher.until('internal:llm-call', ({ iteration }) => iteration === 2);
    if (state === 'canceled') void turn.cancel();
    await watcher.ended;
    const finals = watcher.events.filter((event) => 'final' in event && event.final);
    expect(finals).toEqual([watcher.events.at(-1)]);
    expect(finals).toMatchObject([{ kind: 'status-update', status: { state } }]);
    expect(watcher.end).toBe('complete');
  });
});

it('S4-42 ends with the failure of the provider: our code last, and its error as the cause', async () => {
  class VendorError extends Error {}
  const error = new VendorError('quota exceeded');
  const turn = bench.loop([{ text: 'It', error }]).startTurn(question);
  const watcher = watch(turn);
  await watcher.ended;
  expect(watcher.events.at(-1)).toMatchObject({
    kind: 'status-update',
    status: { state: 'failed' },
    error: { code: 'PROVIDER_FAILED', message: 'The model provider failed: quota exceeded' },
  });
  const thrown: unknown = await turn.result().catch((reason: unknown) => reason);
  expect(thrown).toMatchObject({ code: 'PROVIDER_FAILED' });
  expect(thrown).toHaveProperty('cause', error);
});
