import { getEventListeners } from 'node:events';
import { describe, expect, it } from '@jest/globals';
import type { ToolContext } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { question } from './dead-turn.ts';
import { obedient, plainTools } from './plain-tools.ts';
import { turnBench } from './turn-bench.ts';
import { watch } from './watch-events.ts';

const bench = turnBench();

function typesOf(taskId = 't') {
  return bench.store.read(taskId).map(({ type }) => type);
}

function lastRecord() {
  return bench.store.read('t').at(-1);
}

describe('a signal given with the turn', () => {
  it('S2-29 acts as cancel when it aborts', async () => {
    const controller = new AbortController();
    const { signal } = controller;
    const turn = bench.loop([{ never: true }]).startTurn(question, { taskId: 't', signal });
    const watcher = watch(turn);
    await watcher.until('internal:llm-call');
    controller.abort(new Error('user closed the tab'));
    await turn.settled;
    expect(lastRecord()).toMatchObject({ type: 'turn.canceled', reason: 'user closed the tab' });
    expect(watcher.events.at(-1)).toMatchObject({ status: { state: 'canceled' }, final: true });
  });

  it('S2-29 S2-30 that is aborted beforehand lets no model call happen', async () => {
    const signal = AbortSignal.abort(new Error('never mind'));
    const turn = bench.loop([]).startTurn(question, { taskId: 't', signal });
    await expect(turn.result()).rejects.toMatchObject({ code: 'CANCELED', reason: 'never mind' });
    expect(typesOf()).toEqual(['turn.started', 'turn.canceled']);
  });

  it('S1-65 is let go of when the turn is over', async () => {
    const { signal } = new AbortController();
    const turn = bench.loop([{ text: 'Two.' }]).startTurn(question, { signal });
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
    const watcher = watch(turn);
    expect(getEventListeners(signal, 'abort')).toHaveLength(1);
    await watcher.ended;
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
  });

  it('S2-31 reaches the model and the tools as the signals that they are given', async () => {
    const controller = new AbortController();
    const seen: AbortSignal[] = [];
    const model = bench.model([
      (params) => {
        if (params.signal) seen.push(params.signal);
        return { toolCalls: [{ name: 'look' }] };
      },
    ]);
    const look = (context: ToolContext) => {
      seen.push(context.signal);
      return obedient(context);
    };
    const loop = new AgentLoop(bench.config(model, { toolProviders: [plainTools({ look })] }));
    const turn = loop.startTurn(question, { signal: controller.signal });
    await watch(turn).until('internal:tool-start');
    controller.abort();
    expect(seen.map(({ aborted }) => aborted)).toEqual([false, true]);
    await turn.settled;
  });
});
