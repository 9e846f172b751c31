import { describe, expect, it } from '@jest/globals';
import type { AgentLoopConfig, ToolContext } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { faultyStore, gate } from 'millrace/testing';
import { question } from './dead-turn.ts';
import { obedient, type PlainTool, plainTools } from './plain-tools.ts';
import { turnBench } from './turn-bench.ts';
import { outlineOf, watch } from './watch-events.ts';

const bench = turnBench();

function typesOf(taskId = 't') {
  return bench.store.read(taskId).map(({ type }) => type);
}

function lastRecord() {
  return bench.store.read('t').at(-1);
}

/** A turn in the middle of its first batch: a call of each tool, in order. */
async function inBatch(tools: Readonly<Record<string, PlainTool>>, options: Partial<AgentLoopConfig> = {}) {
  const toolCalls = Object.keys(tools).map((name) => ({ name }));
  const turn = bench
    .loop([{ text: 'Let me see.', toolCalls }], { toolProviders: [plainTools(tools)], ...options })
    .startTurn(question, { taskId: 't' });
  const watcher = watch(turn);
  await watcher.until('internal:tool-start');
  return { turn, watcher };
}

describe('cancel', () => {
  it('aborts synchronously: when it returns, the model call is left and the tools’ signals are aborted', async () => {
    const model = bench.model([{ never: true }]);
    const calling = new AgentLoop(bench.config(model)).startTurn(question);
    await watch(calling).until('internal:llm-call');
    const signal = model.calls[0]?.signal;
    expect(signal?.aborted).toBe(false);
    void calling.cancel();
    expect([model.unsubscribed, signal?.aborted]).toEqual([1, true]);

    const signals: AbortSignal[] = [];
    const tool = (context: ToolContext) => {
      signals.push(context.signal);
      return obedient(context);
    };
    const { turn } = await inBatch({ one: tool, two: tool });
    void turn.cancel('enough');
    expect(signals).toMatchObject([
      { aborted: true, reason: { code: 'CANCELED', message: 'enough' } },
      { aborted: true, reason: { code: 'CANCELED' } },
    ]);
    await Promise.all([turn.settled, calling.settled]);
  });

  it('waits for tools that stop, and appends their results and turn.canceled', async () => {
    const { turn, watcher } = await inBatch({ obedient });
    await turn.cancel('enough');
    expect(bench.store.read('t').slice(-2)).toMatchObject([
      { type: 'tool.result', callId: '1:0', success: false, error: { code: 'CANCELED' } },
      { type: 'turn.canceled', reason: 'enough' },
    ]);
    expect(outlineOf(watcher.events).slice(-5)).toEqual([
      'tool-complete 1:0 CANCELED',
      'checkpoint before-iteration 1',
      'iteration-complete 1',
      'checkpoint end 1',
      'status canceled final (enough)',
    ]);
  });

  it('gives its reason, which may be a sentence, in the message of the error', async () => {
    const turn = new AgentLoop(bench.config(bench.model([{ never: true }]))).startTurn(question);
    await watch(turn).until('internal:llm-call');
    void turn.cancel('That is enough.');
    await expect(turn.result()).rejects.toMatchObject({ message: 'The turn was cancelled: That is enough.' });
  });

  it('keeps the true result of a tool that finishes all the same', async () => {
    const finish = gate();
    const { turn } = await inBatch({
      stubborn: async () => {
        await finish.pass();
        return 'paid';
      },
    });
    const settled = turn.cancel();
    finish.open();
    await settled;
    expect(bench.store.read('t').at(-2)).toMatchObject({ type: 'tool.result', content: 'paid', success: true });
    await expect(turn.result()).rejects.toMatchObject({
      result: { messages: [{ role: 'assistant' }, { role: 'tool', content: 'paid' }] },
    });
  });

  it('waits no longer than abortGraceMs for a tool that ignores its signal, and journals it as abandoned', async () => {
    const { turn } = await inBatch({ deaf: () => new Promise(() => {}) }, { abortGraceMs: 300 });
    let settled = false;
    void turn.cancel().then(() => {
      settled = true;
    });
    bench.clock.advance(299);
    await new Promise((resolve) => setImmediate(resolve));
    expect(settled).toBe(false);
    bench.clock.advance(1);
    await turn.settled;
    expect(bench.store.read('t').at(-2)).toMatchObject({ type: 'tool.result', error: { code: 'TOOL_ABANDONED' } });
    expect(lastRecord()).toMatchObject({ type: 'turn.canceled' });
  });

  it('S1-87 S1-65 releases the lease, ends the spans as cancelled, and leaves no timer or reader', async () => {
    const { turn } = await inBatch({ obedient });
    await turn.cancel();
    expect(bench.store.list()).toMatchObject([{ state: 'canceled', held: false }]);
    expect([bench.clock.pending, bench.spans.open()]).toEqual([0, []]);
    const outcomes = bench.spans.spans().map(({ name, attributes }) => [name, attributes['millrace.outcome']]);
    expect(outcomes).toEqual([
      ['agent.execute', 'canceled'],
      ['iteration[1]', 'canceled'],
      ['llm.call', undefined],
      ['tools.execute', 'canceled'],
      ['tool[obedient]', 'canceled'],
    ]);
  });

  it('S4-39 S2-30 never starts a call that was queued', async () => {
    const runs: string[] = [];
    const { turn, watcher } = await inBatch({ obedient, queued: () => runs.push('queued') }, { toolConcurrency: 1 });
    await turn.cancel();
    expect(runs).toEqual([]);
    expect(watcher.of('internal:tool-start')).toHaveLength(1);
    await expect(turn.result()).rejects.toMatchObject({
      result: {
        messages: [{ role: 'assistant' }, { role: 'tool' }, { content: expect.stringContaining('No result') }],
      },
    });
  });

  it('never starts a call whose intent is not durable yet', async () => {
    const held = gate();
    const runs: string[] = [];
    const toolProviders = [plainTools({ pay: () => runs.push('pay') })];
    const taskStateStore = faultyStore(bench.store, [{ method: 'append', call: 2, fault: 'hold-after', gate: held }]);
    const loop = bench.loop([{ toolCalls: [{ name: 'pay' }] }], { toolProviders, taskStateStore });
    const turn = loop.startTurn(question, { taskId: 't' });
    const watcher = watch(turn);
    await held.reached;
    const settled = turn.cancel();
    held.open();
    await settled;
    expect(runs).toEqual([]);
    expect(bench.store.read('t').slice(-2)).toMatchObject([
      { type: 'tool.result', error: { code: 'CANCELED' } },
      { type: 'turn.canceled' },
    ]);
    expect(watcher.events.at(-1)).toMatchObject({ status: { state: 'canceled' } });
  });

  it('S4-40 S2-32 gives every subscriber, also a late one, status-update canceled as its last event', async () => {
    const { turn, watcher } = await inBatch({ obedient });
    const second = watch(turn);
    await turn.cancel('enough');
    const late = watch(turn);
    for (const { events, end } of [watcher, second, late]) {
      expect(events.filter((event) => event.kind === 'status-update' && event.final)).toHaveLength(1);
      expect(events.at(-1)).toMatchObject({ status: { state: 'canceled' }, final: true, reason: 'enough' });
      expect(end).toBe('complete');
    }
  });

  it('counts once: the first reason stands', async () => {
    const { turn } = await inBatch({ obedient });
    await Promise.all([turn.cancel('first'), turn.cancel('second')]);
    expect(lastRecord()).toMatchObject({ reason: 'first' });
  });

  it('does nothing to a turn that has ended', async () => {
    const turn = bench.loop([{ text: 'Two.' }]).startTurn(question, { taskId: 't' });
    await turn.result();
    await turn.cancel();
    expect(await turn.result()).toMatchObject({ status: 'completed' });
    expect(lastRecord()).toMatchObject({ type: 'turn.done' });
  });

  it('before the start lets no model call happen, whenever the turn is started', async () => {
    const turn = bench.loop([]).startTurn(question, { taskId: 't' });
    await turn.cancel('changed my mind');
    expect(bench.store.list()).toEqual([]);
    await expect(turn.result()).rejects.toMatchObject({ code: 'CANCELED', reason: 'changed my mind' });
    expect(typesOf()).toEqual(['turn.started', 'turn.canceled']);
  });

  it('does not wait for tool providers that do not tell their tools', async () => {
    const asked = gate();
    const silent = {
      getTools: async () => {
        await asked.pass();
        return [];
      },
      executeTool: () => ({ toolCallId: '', content: '', success: true }),
    };
    const turn = bench.loop([], { toolProviders: [silent] }).startTurn(question, { taskId: 't' });
    const watcher = watch(turn);
    await asked.reached;
    await turn.cancel();
    expect(outlineOf(watcher.events).at(-1)).toBe('status canceled final (canceled)');
    asked.open();
  });

  it('while the journal is being opened takes effect once it is, without a model call', async () => {
    const opening = gate();
    const taskStateStore = faultyStore(bench.store, [
      { method: 'create', call: 1, fault: 'hold-before', gate: opening },
    ]);
    const turn = bench.loop([], { taskStateStore }).startTurn(question, { taskId: 't' });
    const watcher = watch(turn);
    await opening.reached;
    const settled = turn.cancel();
    opening.open();
    await settled;
    expect(outlineOf(watcher.events)).toEqual([
      'task submitted',
      'status working',
      'checkpoint before-iteration 0',
      'checkpoint end 0',
      'status canceled final (canceled)',
    ]);
  });

  it('S0-26 does not reach the next turn of the same loop', async () => {
    const loop = bench.loop([{ never: true }, { text: 'Two.' }]);
    const first = loop.startTurn(question);
    await watch(first).until('internal:llm-call');
    await first.cancel();
    expect(await loop.startTurn(question).result()).toMatchObject({ status: 'completed', text: 'Two.' });
  });
});
