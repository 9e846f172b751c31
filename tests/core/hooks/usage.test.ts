import { describe, expect, it } from '@jest/globals';
import { type Extension, foldRecords } from 'millrace';
import { question } from '../dead-turn.ts';
import { turnBench } from '../turn-bench.ts';

const bench = turnBench();
const usage = { promptTokens: 100, completionTokens: 7, totalTokens: 107, cost: 0.5 };
const steps = [{ text: 'Two.', usage: { promptTokens: 10, completionTokens: 1, totalTokens: 11 } }];

describe('the usage that an extension gives', () => {
  it.each<[string, Extension]>([
    ['between two steps', { name: 'asking', afterIteration: () => ({ usage }) }],
    ['with a view', { name: 'asking', prepareIteration: () => ({ usage }) }],
  ])('is added to the turn’s %s, also where the journal is read again', async (_, extension) => {
    const result = await bench
      .loop(steps, { extensions: [extension] })
      .startTurn(question, { taskId: 't' })
      .result();
    expect(result.usage).toEqual({ promptTokens: 110, completionTokens: 8, totalTokens: 118, cost: 0.5 });
    expect(foldRecords(bench.store.read('t')).usage).toEqual(result.usage);
  });

  it('is refused where it is none', async () => {
    const broken: Extension = {
      name: 'asking',
      afterIteration: () => ({ usage: { ...usage, totalTokens: Number.NaN } }),
    };
    const turn = bench.loop(steps, { extensions: [broken] }).startTurn(question);
    await expect(turn.result()).rejects.toMatchObject({
      code: 'EXTENSION_FAILED',
      message: 'Extension "asking" failed in afterIteration: usage.totalTokens must be a number from 0, not NaN',
    });
  });
});
