import { describe, expect, it } from '@jest/globals';
import { foldRecords, ModelRegistry, trackUsage, type UsageByModel, usageByModel } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { question } from '../../core/dead-turn.ts';
import { plainTools } from '../../core/plain-tools.ts';
import { turnBench } from '../../core/turn-bench.ts';
import { watch } from '../../core/watch-events.ts';

const bench = turnBench();
const usage = { promptTokens: 60, completionTokens: 40, totalTokens: 100 };
const prices = new ModelRegistry([{ name: 'big', prices: { input: 10, output: 50 } }]);

function tracked() {
  const told: UsageByModel[] = [];
  return { told, usage: trackUsage({ prices, onUsage: (sum) => told.push(sum) }) };
}

describe('trackUsage', () => {
  it('S2-17 sums up by model, behind each answer and at the end', async () => {
    const { told, usage: tracking } = tracked();
    const model = bench.model(
      [
        { toolCalls: [{ name: 'count' }], usage },
        { toolCalls: [{ name: 'count' }], usage },
        { text: 'Two.', usage },
      ],
      { info: { model: 'big' } },
    );
    const cheaper = {
      name: 'cheaper',
      afterIteration: ({ iteration }: { readonly iteration: number }) =>
        iteration === 2 ? { settings: { model: 'small' } } : undefined,
    };
    const toolProviders = [plainTools({ count: () => 2 })];
    const config = bench.config(model, { toolProviders, extensions: [tracking, cheaper] });
    await new AgentLoop(config).startTurn(question, { taskId: 't' }).result();
    const big = { promptTokens: 120, completionTokens: 80, totalTokens: 200, cost: 0.0052, calls: 2 };
    const sum = { big, small: { ...usage, calls: 1 } };
    expect(told.map((each) => Object.values(each).reduce((calls, { calls: more }) => calls + more, 0))).toEqual([
      1, 2, 3, 3,
    ]);
    expect(told.at(-1)).toEqual(sum);
    expect(usageByModel(foldRecords(bench.store.read('t')))).toEqual(sum);
  });

  it('leaves no sums where it is not there', async () => {
    await bench
      .loop([{ text: 'Two.', usage }])
      .startTurn(question, { taskId: 't' })
      .result();
    expect(usageByModel(foldRecords(bench.store.read('t')))).toEqual({});
  });

  it.each([
    ['cancelled', { text: 'Half an answer', never: true }],
    ['failed', { text: 'Half an answer', error: new Error('broke off') }],
  ])('H-40 counts a %s call, and no tokens that its provider did not report', async (_, step) => {
    const { told, usage: tracking } = tracked();
    const model = bench.model([step], { info: { model: 'small' } });
    const turn = new AgentLoop(bench.config(model, { extensions: [tracking] })).startTurn(question);
    const watcher = watch(turn);
    await watcher.until('artifact-update');
    await turn.cancel('enough');
    await watcher.ended;
    await turn.settled;
    expect(told).toMatchObject([{ small: { calls: 1, totalTokens: 0 } }]);
  });
});
