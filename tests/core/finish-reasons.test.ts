import { describe, expect, it } from '@jest/globals';
import type { FinishReason } from 'millrace';
import type { LLMStep } from 'millrace/testing';
import { question } from './dead-turn.ts';
import { plainTools } from './plain-tools.ts';
import { turnBench } from './turn-bench.ts';
import { textsOf, watch } from './watch-events.ts';

const bench = turnBench();

/** How a turn goes whose model answers so, and which tools ran. */
async function outcomeOf(...steps: readonly LLMStep[]) {
  const runs: string[] = [];
  const toolProviders = [plainTools({ count: () => runs.push('count') })];
  const turn = bench.loop(steps, { toolProviders }).startTurn(question);
  const watcher = watch(turn);
  const [outcome] = await Promise.allSettled([turn.result()]);
  await watcher.ended;
  return { outcome, runs, watcher, last: watcher.events.at(-1) };
}

describe('a model that ends with', () => {
  it.each([['stop'], [undefined]] as const)(
    'S1-33 S0-57 the reason %s and no call completes the turn, without a further call',
    async (reason) => {
      const { outcome, last, watcher } = await outcomeOf({ text: 'Two.', ...(reason ? { finishReason: reason } : {}) });
      expect(outcome).toMatchObject({ value: { status: 'completed', reason: 'stop', text: 'Two.', iterations: 1 } });
      expect(watcher.of('internal:iteration-complete')).toMatchObject([{ iteration: 1 }]);
      expect(last).toMatchObject({ status: { state: 'completed' }, final: true });
      expect(watcher.end).toBe('complete');
    },
  );

  const cut: readonly [string, FinishReason, string][] = [
    ['S1-37', 'length', 'LENGTH'],
    ['S1-38', 'content_filter', 'CONTENT_FILTER'],
  ];

  it.each(cut)(
    'U-17 S1-37 S1-38 (%s) the reason %s fails the turn with %s, and keeps the text so far',
    async (_, finishReason, code) => {
      const { outcome, last, watcher } = await outcomeOf({ text: 'So fa', finishReason });
      expect(outcome).toMatchObject({ reason: { code, reason: finishReason, result: { text: 'So fa' } } });
      expect(last).toMatchObject({ status: { state: 'failed' }, reason: finishReason, error: { code } });
      expect(textsOf(watcher.events)).toEqual({ 'answer-1': 'So fa' });
    },
  );

  it.each(cut)('S1-37 S1-38 (%s) the reason %s never runs a call that was cut short', async (_, finishReason, code) => {
    const step = { text: 'So fa', toolCalls: [{ name: 'count', arguments: '{"of":"ap' }], finishReason };
    const { outcome, runs } = await outcomeOf(step);
    expect(outcome).toMatchObject({ reason: { code, result: { text: 'So fa', toolCalls: 0 } } });
    expect(runs).toEqual([]);
  });

  it('S1-39 the reason stop and a call runs the call', async () => {
    const { outcome, runs } = await outcomeOf(
      { toolCalls: [{ name: 'count' }], finishReason: 'stop' },
      { text: 'Two.' },
    );
    expect(outcome).toMatchObject({ value: { status: 'completed', text: 'Two.' } });
    expect(runs).toEqual(['count']);
  });

  it('S1-39 the reason tool_calls, no call and a text completes the turn', async () => {
    const { outcome } = await outcomeOf({ text: 'Two.', finishReason: 'tool_calls' });
    expect(outcome).toMatchObject({ value: { status: 'completed', text: 'Two.' } });
  });

  it('S1-39 the reason tool_calls and nothing else fails the turn with empty_response', async () => {
    const { outcome } = await outcomeOf({ finishReason: 'tool_calls' });
    expect(outcome).toMatchObject({ reason: { code: 'EMPTY_RESPONSE', reason: 'empty_response' } });
  });

  it('the reason stop and an empty text completes the turn', async () => {
    const { outcome, watcher } = await outcomeOf({ finishReason: 'stop' });
    expect(outcome).toMatchObject({ value: { status: 'completed', text: '' } });
    expect(watcher.of('artifact-update')).toEqual([]);
  });
});
