import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { InMemoryStateStore, type ToolContext, type ToolMessage } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { gate, type LLMStepCall, type ScriptedLLM, scriptedLLM } from 'millrace/testing';
import { plainTools } from '../plain-tools.ts';
import { StackDepths } from '../stack-depth.ts';
import { turnBench } from '../turn-bench.ts';
import { question, runTurn, wait, whilePassing } from './run-turn.ts';

const bench = turnBench();

/** Calls of one tool, told apart by their argument `n`, from 0. */
function callsOf(name: string, count: number): readonly LLMStepCall[] {
  return Array.from({ length: count }, (_, n) => ({ name, arguments: { n } }));
}

function argumentOf({ arguments: args }: ToolContext): number {
  return typeof args === 'object' && args !== null && 'n' in args ? Number(args.n) : Number.NaN;
}

/** The contents of the tool messages that a model call was given. */
function toolContents(model: ScriptedLLM, call: number): readonly unknown[] {
  const messages = model.calls[call]?.messages ?? [];
  return messages.filter((message): message is ToolMessage => message.role === 'tool').map(({ content }) => content);
}

/** A tool of 100 ms that notes how many of it ran at a time, and in which order they started. */
function slowTool() {
  const started: number[] = [];
  let running = 0;
  let most = 0;
  const execute = async (context: ToolContext) => {
    started.push(argumentOf(context));
    running++;
    most = Math.max(most, running);
    await wait(bench.clock, 100);
    running--;
    return `number ${argumentOf(context)}`;
  };
  return {
    execute,
    started,
    get most() {
      return most;
    },
  };
}

describe('a batch of calls', () => {
  it.each([
    [undefined, 5, 200],
    [2, 2, 400],
    [8, 8, 100],
    [100, 8, 100],
  ])('S1-52 with toolConcurrency %s has at most %i of eight calls in flight', async (toolConcurrency, most, took) => {
    const slow = slowTool();
    const loop = bench.loop([{ toolCalls: callsOf('slow', 8) }, { text: 'Done.' }], {
      toolProviders: [plainTools({ slow: slow.execute })],
      ...(toolConcurrency === undefined ? {} : { toolConcurrency }),
    });
    const startedAt = bench.clock.now();
    const { seen } = await runTurn(loop, { clock: bench.clock });
    expect(slow.most).toBe(most);
    const [last] = seen.of('internal:tool-complete').slice(-1);
    expect(Date.parse(last?.timestamp ?? '') - startedAt).toBe(took);
  });

  it('S0-65 S2-49 with toolConcurrency 1 runs the calls in call order, without overlap', async () => {
    const slow = slowTool();
    const loop = bench.loop([{ toolCalls: callsOf('slow', 6) }, { text: 'Done.' }], {
      toolProviders: [plainTools({ slow: slow.execute })],
      toolConcurrency: 1,
    });
    const { seen } = await runTurn(loop, { clock: bench.clock });
    expect(slow.most).toBe(1);
    expect(slow.started).toEqual([0, 1, 2, 3, 4, 5]);
    expect(seen.of('internal:tool-complete').map(({ callId }) => callId)).toEqual(slow.started.map((n) => `1:${n}`));
  });

  it('S1-53 S4-27 is followed by one model call, with a result for each call', async () => {
    const model = bench.model([{ toolCalls: callsOf('count', 3) }, { text: 'Done.' }]);
    const loop = new AgentLoop(
      bench.config(model, {
        toolProviders: [plainTools({ count: async (context) => `number ${argumentOf(context)}` })],
      }),
    );
    await runTurn(loop);
    expect(model.calls).toHaveLength(2);
    expect(model.calls[1]?.messages.slice(-4)).toMatchObject([
      { role: 'assistant', content: null, toolCalls: [{}, {}, {}] },
      ...[0, 1, 2].map((n) => ({ role: 'tool', toolCallId: `call_1_${n}`, content: `number ${n}` })),
    ]);
  });

  it('S1-54 enters the history in call order, whatever the order in which its calls end', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.shuffledSubarray([0, 1, 2, 3, 4, 5], { minLength: 6 }),
        fc.integer({ min: 1, max: 6 }),
        async (order, toolConcurrency) => {
          const ends = order.map(() => gate());
          const ended: number[] = [];
          const tools = plainTools({
            count: async (context) => {
              const n = argumentOf(context);
              await ends[n]?.pass();
              ended.push(n);
              return n;
            },
          });
          const model = scriptedLLM([{ toolCalls: callsOf('count', 6) }, { text: 'Done.' }]);
          const loop = new AgentLoop(
            bench.config(model, { toolProviders: [tools], toolConcurrency, taskStateStore: new InMemoryStateStore() }),
          );
          const result = loop.startTurn(question).result();
          for (const n of order) {
            ends[n]?.open();
            await new Promise((resolve) => setImmediate(resolve));
          }
          await result;
          expect(ended.toSorted()).toEqual([0, 1, 2, 3, 4, 5]);
          if (toolConcurrency === 6) expect(ended).toEqual(order);
          expect(toolContents(model, 1)).toEqual(['0', '1', '2', '3', '4', '5']);
        },
      ),
      { numRuns: 25 },
    );
  });

  it('runs a sequential tool alone, and the others around it together', async () => {
    const running = new Set<string>();
    const seenBeside: Record<string, number> = {};
    const execute = async ({ callId }: ToolContext) => {
      running.add(callId);
      await wait(bench.clock, 100);
      seenBeside[callId] = running.size - 1;
      await wait(bench.clock, 10);
      running.delete(callId);
    };
    const names = ['free', 'free', 'alone', 'free', 'free'];
    const loop = bench.loop([{ toolCalls: names.map((name) => ({ name })) }, { text: 'Done.' }], {
      toolProviders: [plainTools({ free: execute, alone: { execute, sequential: true } })],
    });
    await runTurn(loop, { clock: bench.clock });
    expect(seenBeside).toEqual({ '1:0': 1, '1:1': 1, '1:2': 0, '1:3': 1, '1:4': 1 });
  });

  it('S0-65 K-04 runs 5,000 calls that answer at once, one after the other, on a flat stack', async () => {
    const order: number[] = [];
    const depths = new StackDepths();
    const model = bench.model([{ toolCalls: callsOf('note', 5_000) }, { text: 'Done.' }]);
    const note = (context: ToolContext) => {
      depths.look();
      return order.push(argumentOf(context));
    };
    const tools = plainTools({ note });
    const loop = new AgentLoop(
      bench.config(model, { toolProviders: [tools], toolConcurrency: 1, enableTracing: false }),
    );
    const result = await loop.startTurn(question).result();
    expect(result).toMatchObject({ status: 'completed', toolCalls: 5_000 });
    expect(order).toEqual(Array.from({ length: 5_000 }, (_, n) => n));
    expect(toolContents(model, 1)).toEqual(order.map((n) => `${n + 1}`));
    expect(depths.spread).toBeLessThan(50);
  });

  it('S0-19 comes from the response alone: calls in the history that the caller gives start no tool', async () => {
    let runs = 0;
    const model = bench.model([{ text: 'Two.' }]);
    const loop = new AgentLoop(bench.config(model, { toolProviders: [plainTools({ count: () => ++runs })] }));
    const call = { id: 'old', type: 'function', function: { name: 'count', arguments: '{}' } } as const;
    const history = [
      question[0],
      { role: 'assistant', content: null, toolCalls: [call] },
      { role: 'tool', toolCallId: 'old', content: '2' },
      { role: 'assistant', content: null, toolCalls: [{ ...call, id: 'open' }] },
    ] as const;
    const seen = await loop.startTurn(history).result();
    expect(seen).toMatchObject({ status: 'completed', toolCalls: 0 });
    expect(runs).toBe(0);
  });

  it('S3-37 starts once the stream is complete and its response is durable', async () => {
    const stream = gate();
    const steps: string[] = [];
    const tools = plainTools({ count: () => steps.push('tool') });
    const loop = bench.loop(
      [
        { toolCalls: [{ name: 'count', arguments: ['{"n":', '1}'] }], text: ['Let me ', stream.pass(), 'count.'] },
        { text: 'One.' },
      ],
      { toolProviders: [tools] },
    );
    const turn = loop.startTurn(question);
    const finished = new Promise<void>((resolve) =>
      turn.subscribe({
        next: ({ kind }) => {
          if (kind === 'internal:llm-response' || kind === 'internal:tool-start') steps.push(kind);
        },
        complete: resolve,
      }),
    );
    await stream.reached;
    await new Promise((resolve) => setImmediate(resolve));
    expect(steps).toEqual([]);
    stream.open();
    await finished;
    expect(steps.slice(0, 3)).toEqual(['internal:llm-response', 'internal:tool-start', 'tool']);
  });

  it('S3-36 keeps the text beside the calls, in the events and in the history', async () => {
    const model = bench.model([{ text: 'Let me count.', toolCalls: callsOf('count', 1) }, { text: 'One.' }]);
    const loop = new AgentLoop(bench.config(model, { toolProviders: [plainTools({ count: () => 1 })] }));
    const { seen } = await runTurn(loop);
    expect(seen.of('artifact-update')[0]).toMatchObject({
      artifact: { artifactId: 'answer-1', parts: [{ text: 'Let me count.' }] },
    });
    expect(seen.of('internal:tool-complete')).toMatchObject([{ success: true, content: '1' }]);
    expect(model.calls[1]?.messages.at(-2)).toMatchObject({
      role: 'assistant',
      content: 'Let me count.',
      toolCalls: [{ id: 'call_1_0', function: { name: 'count', arguments: '{"n":0}' } }],
    });
  });

  it('S0-20 shows each call as running, then as ok or failed, and blocks the next model call until all have ended', async () => {
    const slow = gate();
    const tools = plainTools({
      slow: () => slow.pass(),
      broken: () => {
        throw new Error('no');
      },
    });
    const model = bench.model([{ toolCalls: [{ name: 'slow' }, { name: 'broken' }] }, { text: 'Done.' }]);
    const loop = new AgentLoop(bench.config(model, { toolProviders: [tools] }));
    const outcome = runTurn(loop, { taskId: 't' });
    await slow.reached;
    await new Promise((resolve) => setImmediate(resolve));
    expect(model.calls).toHaveLength(1);
    slow.open();
    const { seen } = await outcome;
    const journal = bench.store.read('t').filter(({ type }) => type.startsWith('tool.'));
    expect(journal).toMatchObject([
      { type: 'tool.intent', callId: '1:0' },
      { type: 'tool.intent', callId: '1:1' },
      { type: 'tool.result', callId: '1:1', success: false },
      { type: 'tool.result', callId: '1:0', success: true },
    ]);
    const events = seen.events.filter(
      ({ kind }) => kind === 'internal:tool-start' || kind === 'internal:tool-complete',
    );
    expect(events).toMatchObject([
      { kind: 'internal:tool-start', callId: '1:0' },
      { kind: 'internal:tool-start', callId: '1:1' },
      { kind: 'internal:tool-complete', callId: '1:1', success: false },
      { kind: 'internal:tool-complete', callId: '1:0', success: true },
    ]);
    expect(model.calls).toHaveLength(2);
  });

  it('leaves nothing behind that time could still run', async () => {
    const loop = bench.loop([{ toolCalls: callsOf('slow', 3) }, { text: 'Done.' }], {
      toolProviders: [plainTools({ slow: () => wait(bench.clock, 100) })],
    });
    await whilePassing(bench.clock, loop.startTurn(question).result());
    expect(bench.clock.pending).toBe(0);
  });
});
