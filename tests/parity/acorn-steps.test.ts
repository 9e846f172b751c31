import { describe, expect, it } from '@jest/globals';
import type { AgentLoopConfig } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { question } from '../core/dead-turn.ts';
import { turnBench } from '../core/turn-bench.ts';
import { watch } from '../core/watch-events.ts';
import { localTools } from './local-tools.ts';

const bench = turnBench();

/** A turn of a model that asks for two tools as often as it is called, at most `calls` times. */
async function endless(calls: number, options: Partial<AgentLoopConfig>) {
  const runs: unknown[] = [];
  const toolProviders = [localTools({ look: ({ at }) => runs.push(at) })];
  const ask = {
    text: 'I look.',
    toolCalls: ['tree', 'pond'].map((at) => ({ name: 'look', arguments: { at } })),
  };
  const model = bench.model(Array.from({ length: calls }, () => ask));
  const turn = new AgentLoop(bench.config(model, { toolProviders, ...options })).startTurn(question);
  const watcher = watch(turn);
  await watcher.ended;
  return { model, turn, watcher, runs };
}

describe('the limit of model calls', () => {
  it('S3-08 S3-09 of 1 makes one request, runs its tools, and ends as unfinished', async () => {
    const { model, turn, watcher, runs } = await endless(1, { maxIterations: 1, onLimit: 'stop' });
    expect(model.calls).toHaveLength(1);
    expect(model.calls[0]).not.toHaveProperty('toolChoice');
    expect(runs).toEqual(['tree', 'pond']);
    expect(watcher.events.at(-1)).toMatchObject({ reason: 'unfinished', final: true });
    expect(await turn.result()).toMatchObject({ status: 'completed', reason: 'unfinished', toolCalls: 2 });
  });

  it('S3-09 of 1 ends with the same reason where reaching it fails the turn', async () => {
    const { turn, runs } = await endless(1, { maxIterations: 1 });
    expect(runs).toEqual(['tree', 'pond']);
    await expect(turn.result()).rejects.toMatchObject({ code: 'MAX_ITERATIONS', reason: 'unfinished' });
  });

  it('S3-08 is 10 where none is given', async () => {
    const { model, runs, turn } = await endless(10, {});
    expect([model.calls.length, runs.length]).toEqual([10, 20]);
    await expect(turn.result()).rejects.toMatchObject({ code: 'MAX_ITERATIONS', result: { iterations: 10 } });
  });

  it.each([2, 7])('S4-26 ends a loop of tools at %i', async (maxIterations) => {
    const { model, watcher } = await endless(maxIterations, { maxIterations });
    expect(model.calls).toHaveLength(maxIterations);
    expect(watcher.of('internal:iteration-start')).toHaveLength(maxIterations);
    expect(watcher.events.at(-1)).toMatchObject({ reason: 'max_iterations', final: true });
  });
});
