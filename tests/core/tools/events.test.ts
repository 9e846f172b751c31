import { describe, expect, it } from '@jest/globals';
import type { ToolContext } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { faultyStore, gate } from 'millrace/testing';
import { obedient, plainTools } from '../plain-tools.ts';
import { turnBench } from '../turn-bench.ts';
import { outlineOf, watch } from '../watch-events.ts';
import { question, runTurn, whilePassing } from './run-turn.ts';

const bench = turnBench();

const fruit = [
  { name: 'count', arguments: { of: 'apples' }, id: 'a' },
  { name: 'count', arguments: { of: 'pears', upTo: [1, 2] }, id: 'b' },
  { name: 'count', arguments: {}, id: 'c' },
];

/** A tool that fails for its first call only, and what each call got. */
function counting() {
  const got: unknown[] = [];
  const count = ({ callId, arguments: args }: ToolContext) => {
    got.push(args);
    if (callId === '1:0') throw new RangeError('no apples');
    return `fruit ${callId}`;
  };
  return { got, tools: plainTools({ count }) };
}

describe('the events of calls', () => {
  it('S2-22 S2-23 S4-32 one internal:tool-start each, with its own call id, its name and the arguments that the tool got', async () => {
    const { got, tools } = counting();
    const { seen } = await runTurn(bench.loop([{ toolCalls: fruit }, { text: 'Done.' }], { toolProviders: [tools] }));
    expect(
      seen.of('internal:tool-start').map(({ callId, toolName, arguments: args }) => [callId, toolName, args]),
    ).toEqual([
      ['1:0', 'count', { of: 'apples' }],
      ['1:1', 'count', { of: 'pears', upTo: [1, 2] }],
      ['1:2', 'count', {}],
    ]);
    expect(seen.of('internal:tool-start').map(({ arguments: args }) => args)).toEqual(got);
  });

  it('S2-24 S4-33 S1-48 S0-53 one internal:tool-complete each, with the content that the next request has', async () => {
    const { tools } = counting();
    const model = bench.model([{ toolCalls: fruit }, { text: 'Done.' }]);
    const { seen } = await runTurn(new AgentLoop(bench.config(model, { toolProviders: [tools] })));
    const completes = seen.of('internal:tool-complete');
    expect(completes.map(({ callId, success, content, error }) => [callId, success, content, error?.code])).toEqual([
      ['1:0', false, 'Tool error: RangeError: no apples', 'TOOL_FAILED'],
      ['1:1', true, 'fruit 1:1', undefined],
      ['1:2', true, 'fruit 1:2', undefined],
    ]);
    expect(model.calls[1]?.messages.slice(-3).map(({ content }) => content)).toEqual(
      completes.map(({ content }) => content),
    );
    const starts = seen.of('internal:tool-start');
    expect(starts.map(({ callId }) => callId)).toEqual(completes.map(({ callId }) => callId));
    for (const start of starts) {
      const end = completes.find(({ callId }) => callId === start.callId);
      expect(seen.events.indexOf(start)).toBeLessThan(end ? seen.events.indexOf(end) : -1);
    }
  });

  it('S4-32 wait until the intent of the call is durable; the tool too', async () => {
    const writing = gate();
    let runs = 0;
    const store = faultyStore(bench.store, [{ method: 'append', call: 2, fault: 'hold-after', gate: writing }]);
    const loop = bench.loop([{ toolCalls: [{ name: 'count' }] }, { text: 'Done.' }], {
      taskStateStore: store,
      toolProviders: [plainTools({ count: () => ++runs })],
    });
    const turn = loop.startTurn(question, { taskId: 't' });
    const seen = watch(turn);
    await writing.reached;
    await new Promise((resolve) => setImmediate(resolve));
    expect(bench.store.read('t').at(-1)).toMatchObject({ type: 'tool.intent' });
    expect(seen.of('internal:llm-response')).toEqual([]);
    expect(seen.of('internal:tool-start')).toEqual([]);
    expect(runs).toBe(0);
    writing.open();
    await seen.ended;
    expect(seen.of('internal:tool-start')).toHaveLength(1);
    expect(runs).toBe(1);
  });

  it('S0-46 have one end for each start, whatever becomes of the call', async () => {
    const running = gate();
    const deaf = gate();
    const tools = plainTools({
      fine: () => 1,
      broken: () => Promise.reject(new Error('no')),
      obedient: async (context) => {
        void running.pass();
        await obedient(context);
      },
      deaf: () => deaf.pass(),
    });
    const calls = ['fine', 'broken', 'obedient', 'deaf', 'unknown'];
    const loop = bench.loop([{ toolCalls: calls.map((name) => ({ name })) }], {
      toolProviders: [tools],
      abortGraceMs: 50,
    });
    const turn = loop.startTurn(question);
    const seen = watch(turn);
    await running.reached;
    await seen.until('internal:tool-complete', ({ callId }) => callId === '1:1');
    await whilePassing(bench.clock, turn.cancel('enough'));
    deaf.open();
    expect(outlineOf(seen.of('internal:tool-start'))).toEqual(
      calls.slice(0, 4).map((name, n) => `tool-start 1:${n} ${name}`),
    );
    expect(outlineOf(seen.of('internal:tool-complete')).toSorted()).toEqual([
      'tool-complete 1:0 ok',
      'tool-complete 1:1 TOOL_FAILED',
      'tool-complete 1:2 CANCELED',
      'tool-complete 1:3 TOOL_ABANDONED',
      'tool-complete 1:4 TOOL_NOT_FOUND',
    ]);
  });

  it('S0-46 of a refused call are its end alone: nothing ran', async () => {
    const loop = bench.loop([{ toolCalls: [{ name: 'unknown' }] }, { text: 'Done.' }]);
    const { seen } = await runTurn(loop);
    expect(outlineOf(seen.events.filter(({ kind }) => /tool-(start|complete)/.test(kind)))).toEqual([
      'tool-complete 1:0 TOOL_NOT_FOUND',
    ]);
  });

  it('are the same where the tools and the model answer at once and where they do not', async () => {
    const steps = [{ toolCalls: fruit }, { text: 'Done.' }];
    const outlines: (readonly string[])[] = [];
    for (const synchronous of [true, false]) {
      const { tools } = counting();
      const later = {
        ...tools,
        executeTool: async (...args: Parameters<typeof tools.executeTool>) => tools.executeTool(...args),
      };
      const model = bench.model(steps, { synchronous });
      const loop = new AgentLoop(bench.config(model, { toolProviders: [synchronous ? tools : later] }));
      outlines.push(outlineOf((await runTurn(loop)).seen.events));
    }
    expect(outlines[0]).toEqual(outlines[1]);
  });
});

describe('a cancelled turn', () => {
  it('S4-39 aborts the call that runs, never starts the one that is queued, and journals how the first one ended', async () => {
    const running = gate();
    const signals: AbortSignal[] = [];
    let queued = 0;
    const tools = plainTools({
      first: async (context) => {
        signals.push(context.signal);
        void running.pass();
        await obedient(context);
      },
      second: () => ++queued,
    });
    const loop = bench.loop([{ toolCalls: [{ name: 'first' }, { name: 'second' }] }], {
      toolProviders: [tools],
      toolConcurrency: 1,
    });
    const turn = loop.startTurn(question, { taskId: 't' });
    const result = turn.result().catch((error) => error);
    await running.reached;
    const settled = turn.cancel('enough');
    expect(signals).toMatchObject([{ aborted: true, reason: { code: 'CANCELED', message: 'enough' } }]);
    await settled;
    expect(queued).toBe(0);
    expect(bench.store.read('t').slice(-3)).toMatchObject([
      { type: 'tool.intent', callId: '1:0' },
      { type: 'tool.result', callId: '1:0', error: { code: 'CANCELED' } },
      { type: 'turn.canceled', reason: 'enough' },
    ]);
    const { result: there } = await result;
    expect(there.messages.slice(-2)).toMatchObject([
      { role: 'tool', toolCallId: 'call_1_0', status: 'error' },
      {
        role: 'tool',
        toolCallId: 'call_1_1',
        status: 'error',
        content: 'No result: the turn ended before this call finished.',
      },
    ]);
  });

  it('keeps the true result of a call that ends in the time it has to stop', async () => {
    const running = gate();
    const tools = plainTools({
      careful: async ({ signal }) => {
        void running.pass();
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
        return 'rolled back';
      },
    });
    const turn = bench
      .loop([{ toolCalls: [{ name: 'careful' }] }], { toolProviders: [tools] })
      .startTurn(question, { taskId: 't' });
    const result = turn.result().catch((error) => error);
    await running.reached;
    await turn.cancel();
    expect(await result).toMatchObject({ code: 'CANCELED', result: { toolCalls: 1 } });
    expect(bench.store.read('t').at(-2)).toMatchObject({ type: 'tool.result', success: true, content: 'rolled back' });
  });

  it('takes no time where abortGraceMs is 0', async () => {
    const running = gate();
    const never = gate();
    const tools = plainTools({
      deaf: async () => {
        void running.pass();
        await never.pass();
      },
    });
    const turn = bench
      .loop([{ toolCalls: [{ name: 'deaf' }] }], { toolProviders: [tools], abortGraceMs: 0 })
      .startTurn(question, { taskId: 't' });
    const result = turn.result().catch((error) => error);
    await running.reached;
    const startedAt = bench.clock.now();
    await whilePassing(bench.clock, turn.cancel());
    await result;
    never.open();
    expect(bench.store.read('t').at(-2)).toMatchObject({ error: { code: 'TOOL_ABANDONED' } });
    expect(bench.store.read('t').at(-1)?.at).toBeLessThanOrEqual(startedAt + 10);
  });
});
