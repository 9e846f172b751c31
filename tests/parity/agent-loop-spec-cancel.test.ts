import { describe, expect, it } from '@jest/globals';
import { AgentLoop } from 'millrace/internals';
import { LiteLLMProvider } from 'millrace/litellm';
import { gate, startModelServer } from 'millrace/testing';
import { question } from '../core/dead-turn.ts';
import { turnBench } from '../core/turn-bench.ts';
import { watch } from '../core/watch-events.ts';
import { localTools } from './local-tools.ts';

const bench = turnBench();

describe('a signal that is given with the turn', () => {
  it('S2-29 cancels it when it is aborted', async () => {
    const controller = new AbortController();
    const model = bench.model([{ text: 'It', never: true }]);
    const turn = new AgentLoop(bench.config(model)).startTurn(question, { taskId: 't', signal: controller.signal });
    const watcher = watch(turn);
    await watcher.until('artifact-update');
    controller.abort(new Error('enough'));
    await watcher.ended;
    expect(watcher.events.at(-1)).toMatchObject({ status: { state: 'canceled' }, reason: 'enough', final: true });
    expect(bench.store.read('t').at(-1)).toMatchObject({ type: 'turn.canceled', reason: 'enough' });
    expect(model.unsubscribed).toBe(1);
    await expect(turn.result()).rejects.toMatchObject({ code: 'CANCELED' });
  });

  it('S2-29 keeps the model from being called where it is aborted beforehand', async () => {
    const model = bench.model([]);
    const signal = AbortSignal.abort(new Error('too late'));
    const turn = new AgentLoop(bench.config(model)).startTurn(question, { taskId: 't', signal });
    await expect(turn.result()).rejects.toMatchObject({ code: 'CANCELED', reason: 'too late' });
    expect(model.calls).toEqual([]);
    expect(bench.store.read('t').map(({ type }) => type)).toEqual(['turn.started', 'turn.canceled']);
  });
});

describe('the signal of a turn', () => {
  it('S2-31 reaches the fetch of the provider: cancelling aborts the request', async () => {
    const server = await startModelServer({ script: [{ text: 'It is green.', stallAfter: 1 }] });
    const signals: AbortSignal[] = [];
    const spied: typeof fetch = (input, init) => {
      if (init?.signal) signals.push(init.signal);
      return fetch(input, init);
    };
    const provider = new LiteLLMProvider({ baseUrl: server.baseUrl, model: 'demo', fetch: spied });
    const turn = new AgentLoop(bench.config(provider)).startTurn(question);
    const watcher = watch(turn);
    await watcher.until('artifact-update');
    expect(signals.map(({ aborted }) => aborted)).toEqual([false]);
    await turn.cancel();
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
    await server.whenIdle();
    expect(server.aborted).toBe(1);
    await server.close();
  });

  it('S2-31 reaches the context of a tool', async () => {
    const started = gate();
    const signals: AbortSignal[] = [];
    const tools = localTools({
      look: (_args, { signal }) =>
        new Promise((resolve) => {
          signals.push(signal);
          signal.addEventListener('abort', resolve);
          void started.pass();
        }),
    });
    const loop = bench.loop([{ toolCalls: [{ name: 'look' }] }], { toolProviders: [tools] });
    const turn = loop.startTurn(question);
    const watcher = watch(turn);
    await started.reached;
    expect(signals.map(({ aborted }) => aborted)).toEqual([false]);
    await turn.cancel();
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
    await watcher.ended;
  });
});
