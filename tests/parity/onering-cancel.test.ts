import { describe, expect, it } from '@jest/globals';
import { AgentLoop } from 'millrace/internals';
import { gate } from 'millrace/testing';
import { question } from '../core/dead-turn.ts';
import { turnBench } from '../core/turn-bench.ts';
import { outlineOf, watch } from '../core/watch-events.ts';
import { localTools } from './local-tools.ts';

const bench = turnBench();
const look = { toolCalls: [{ name: 'look' }] };

function ending() {
  return bench.store.read('t').at(-1);
}

const canceled = { type: 'turn.canceled', reason: 'enough' };

describe('cancel(reason) is the end of the journal', () => {
  it('S0-29 during the model call, which is left at once', async () => {
    const model = bench.model([{ text: ['It', ' is'], never: true }]);
    const turn = new AgentLoop(bench.config(model)).startTurn(question, { taskId: 't' });
    const watcher = watch(turn);
    await watcher.until('artifact-update');
    await turn.cancel('enough');
    expect(ending()).toMatchObject(canceled);
    expect(model.unsubscribed).toBe(1);
  });

  it('S0-29 during a tool, behind its result', async () => {
    const aborted = gate();
    const tools = localTools({
      look: (_args, { signal }) =>
        new Promise((resolve) => {
          signal.addEventListener('abort', () => resolve('half a tree'));
          void aborted.pass();
        }),
    });
    const turn = bench.loop([look], { toolProviders: [tools] }).startTurn(question, { taskId: 't' });
    const watcher = watch(turn);
    await aborted.reached;
    await turn.cancel('enough');
    expect(bench.store.read('t').slice(-2)).toMatchObject([{ type: 'tool.result', content: 'half a tree' }, canceled]);
    expect(watcher.events.at(-1)).toMatchObject({ status: { state: 'canceled' }, reason: 'enough', final: true });
  });

  it('S0-29 S2-30 between two iterations: no model call follows', async () => {
    const model = bench.model([look]);
    const toolProviders = [localTools({ look: () => 'a tree' })];
    const turn = new AgentLoop(bench.config(model, { toolProviders })).startTurn(question, { taskId: 't' });
    const watcher = watch(turn, (event) => {
      if (event.kind === 'internal:iteration-complete') void turn.cancel('enough');
    });
    await watcher.ended;
    await turn.settled;
    expect(ending()).toMatchObject(canceled);
    expect(model.calls).toHaveLength(1);
    const lines = outlineOf(watcher.events);
    expect(lines.slice(lines.indexOf('iteration-complete 1'))).toEqual([
      'iteration-complete 1',
      'checkpoint end 1',
      'status canceled final (enough)',
    ]);
  });

  it('S0-29 while the turn is suspended', async () => {
    const toolProviders = [localTools({ look: () => 'a tree' })];
    const turn = bench.loop([look], { toolProviders }).startTurn(question, { taskId: 't' });
    const watcher = watch(turn);
    await watcher.until('internal:llm-call');
    turn.pause('lunch');
    await watcher.ended;
    expect(ending()).toMatchObject({ type: 'turn.suspended' });
    await AgentLoop.cancel('t', { store: bench.store, reason: 'enough', clock: bench.clock });
    expect(ending()).toMatchObject(canceled);
    expect(bench.store.load('t')).toMatchObject({ status: 'canceled', isComplete: true });
  });

  it('S2-30 before the loop: the model is never called', async () => {
    const model = bench.model([]);
    const turn = new AgentLoop(bench.config(model)).startTurn(question, { taskId: 't' });
    await turn.cancel('enough');
    await expect(turn.result()).rejects.toMatchObject({ code: 'CANCELED', reason: 'enough' });
    expect(model.calls).toEqual([]);
    expect(ending()).toMatchObject(canceled);
  });

  it('S2-30 S4-39 with a tool that runs and one that waits: the signal of the first is aborted, the other never starts', async () => {
    const signals: AbortSignal[] = [];
    const runs: string[] = [];
    const started = gate();
    const tools = localTools({
      first: (_args, { signal }) =>
        new Promise((resolve) => {
          signals.push(signal);
          signal.addEventListener('abort', () => resolve('stopped'));
          void started.pass();
        }),
      second: () => runs.push('second'),
    });
    const model = bench.model([{ toolCalls: [{ name: 'first' }, { name: 'second' }] }]);
    const config = bench.config(model, { toolProviders: [tools], toolConcurrency: 1 });
    const turn = new AgentLoop(config).startTurn(question, { taskId: 't' });
    const watcher = watch(turn);
    await started.reached;
    expect(signals.map(({ aborted }) => aborted)).toEqual([false]);
    const settled = turn.cancel('enough');
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
    await settled;
    expect(runs).toEqual([]);
    expect(watcher.of('internal:tool-start').map(({ callId }) => callId)).toEqual(['1:0']);
    expect(model.calls).toHaveLength(1);
    expect(ending()).toMatchObject(canceled);
  });

  it('leaves no mark on the loop: its next turn starts afresh and completes', async () => {
    const loop = bench.loop([{ never: true }, { text: 'Green.' }]);
    const turn = loop.startTurn(question);
    const watcher = watch(turn);
    await watcher.until('internal:llm-call');
    await turn.cancel();
    expect(await loop.startTurn(question).result()).toMatchObject({ status: 'completed', text: 'Green.' });
  });
});

it('S2-32 S4-40 tells every subscriber, also one who comes later, once and last that the turn was cancelled', async () => {
  const turn = bench.loop([{ text: 'It', never: true }]).startTurn(question, { taskId: 't' });
  const before = [watch(turn), watch(turn)];
  await before[1]?.until('artifact-update');
  const settled = turn.cancel('enough');
  await settled;
  const watchers = [...before, watch(turn)];
  for (const watcher of watchers) {
    await watcher.ended;
    expect(watcher.end).toBe('complete');
    const canceledEvents = watcher.of('status-update').filter(({ status }) => status.state === 'canceled');
    expect(canceledEvents).toEqual([watcher.events.at(-1)]);
    expect(canceledEvents).toMatchObject([{ final: true, reason: 'enough' }]);
  }
  await expect(turn.settled).resolves.toBeUndefined();
});
