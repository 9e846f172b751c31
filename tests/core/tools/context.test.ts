import { describe, expect, it } from '@jest/globals';
import { ROOT_CONTEXT, trace } from '@opentelemetry/api';
import type { ToolContext } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { gate } from 'millrace/testing';
import { plainTools } from '../plain-tools.ts';
import { turnBench } from '../turn-bench.ts';
import { outlineOf } from '../watch-events.ts';
import { question, runTurn } from './run-turn.ts';

const bench = turnBench();

describe('the context of a call', () => {
  it('S1-28 S4-12 has the ids, metadata, auth and trace of the turn, and what is known of the call', async () => {
    const contexts: ToolContext[] = [];
    const look = (context: ToolContext) => contexts.push(context);
    const loop = bench.loop(
      [
        {
          toolCalls: [
            { name: 'look', arguments: { n: 1 }, id: 'a' },
            { name: 'look', arguments: { n: 2 }, id: 'b' },
          ],
        },
        { toolCalls: [{ name: 'look', arguments: { n: 3 }, id: 'c' }] },
        { text: 'Done.' },
      ],
      { toolProviders: [plainTools({ look })] },
    );
    const caller = bench.spans.provider.getTracer('caller').startSpan('request');
    const { turn } = await runTurn(loop, {
      taskId: 't',
      contextId: 'c',
      metadata: { tenant: 'one' },
      authContext: { user: 'ann' },
      parentContext: trace.setSpan(ROOT_CONTEXT, caller),
    });
    caller.end();
    const ofTurn = {
      taskId: 't',
      contextId: 'c',
      agentId: 'tester',
      metadata: { tenant: 'one' },
      authContext: { user: 'ann' },
      attempt: 1,
    };
    const call = (id: string, n: number) => ({
      arguments: { n },
      call: { id, type: 'function', function: { name: 'look', arguments: JSON.stringify({ n }) } },
    });
    expect(contexts).toMatchObject([
      { ...ofTurn, iteration: 1, callId: '1:0', idempotencyKey: 't:1:0', ...call('a', 1) },
      { ...ofTurn, iteration: 1, callId: '1:1', idempotencyKey: 't:1:1', ...call('b', 2) },
      { ...ofTurn, iteration: 2, callId: '2:0', idempotencyKey: 't:2:0', ...call('c', 3) },
    ]);
    expect(turn.taskId).toBe('t');
    const spans = bench.spans.spans().filter(({ name }) => name === 'tool[look]');
    expect(contexts.map(({ traceContext }) => trace.getSpanContext(traceContext))).toEqual(
      spans.map((span) => span.spanContext()),
    );
    expect(new Set(spans.map((span) => span.spanContext().traceId))).toEqual(new Set([caller.spanContext().traceId]));
  });

  it('S1-28 has no auth where the caller gave none, and never journals or traces what it gave', async () => {
    const seen: unknown[] = [];
    const tools = plainTools({ look: ({ authContext, metadata }) => seen.push(authContext, metadata) });
    const steps = [{ toolCalls: [{ name: 'look' }] }, { text: 'Done.' }];
    await runTurn(bench.loop(steps, { toolProviders: [tools] }));
    expect(seen).toEqual([undefined, {}]);
    const loop = bench.loop(steps, { toolProviders: [tools], captureContent: true });
    const { seen: watched } = await runTurn(loop, { taskId: 't', authContext: { token: 'sesame' } });
    expect(seen[2]).toEqual({ token: 'sesame' });
    const told = [
      bench.store.read('t'),
      watched.events,
      bench.spans.spans().map(({ attributes, events }) => [attributes, events]),
    ];
    expect(JSON.stringify(told)).not.toContain('sesame');
  });

  it('has a signal that is the call’s own, and the same at each read', async () => {
    const signals: AbortSignal[] = [];
    const look = async (context: ToolContext) => {
      signals.push(context.signal);
      expect(context.signal).toBe(context.signal);
    };
    const loop = bench.loop([{ toolCalls: [{ name: 'look' }, { name: 'look' }] }, { text: 'Done.' }], {
      toolProviders: [plainTools({ look })],
    });
    await runTurn(loop);
    expect(new Set(signals).size).toBe(2);
    expect(signals.map(({ aborted }) => aborted)).toEqual([false, false]);
  });

  it('shows signs of life as events of their call, between its start and its end, and journals none', async () => {
    const late: (() => void)[] = [];
    const goOn = gate();
    const work = async ({ progress }: ToolContext) => {
      progress({ percent: 0 });
      await goOn.pass();
      progress({ percent: 50 });
      late.push(() => progress({ percent: 100 }));
      return 'done';
    };
    const loop = bench.loop([{ toolCalls: [{ name: 'work' }, { name: 'work' }] }, { text: 'Done.' }], {
      toolProviders: [plainTools({ work })],
    });
    const outcome = runTurn(loop, { taskId: 't' });
    await goOn.reached;
    goOn.open();
    const { seen } = await outcome;
    for (const each of late) each();
    const events = seen.events.filter(({ kind }) => kind.startsWith('internal:tool-') && !kind.endsWith('delta'));
    expect(outlineOf(events)).toEqual([
      'tool-start 1:0 work',
      'tool-start 1:1 work',
      'tool-progress 1:0 {"percent":0}',
      'tool-progress 1:1 {"percent":0}',
      'tool-progress 1:0 {"percent":50}',
      'tool-progress 1:1 {"percent":50}',
      'tool-complete 1:0 ok',
      'tool-complete 1:1 ok',
    ]);
    expect(seen.of('internal:tool-progress')[0]).toMatchObject({ iteration: 1, toolName: 'work', taskId: 't' });
    expect(seen.of('internal:tool-progress').some(({ cursor }) => cursor !== undefined)).toBe(false);
    expect(JSON.stringify(bench.store.read('t'))).not.toContain('percent');
  });

  it('has the key and the attempt of a call that runs again after a crash', async () => {
    const contexts: ToolContext[] = [];
    const hanging = gate();
    const tools = plainTools({
      pay: {
        idempotent: true,
        onInDoubt: 'retry',
        execute: async (context) => {
          contexts.push(context);
          if (contexts.length === 1) await hanging.pass();
          return 'paid';
        },
      },
    });
    const first = bench.model([{ toolCalls: [{ name: 'pay' }] }, { never: true }]);
    const lost = new AgentLoop(bench.config(first, { toolProviders: [tools] })).startTurn(question, { taskId: 't' });
    const outcome = lost.result().catch((error) => error);
    await hanging.reached;
    bench.leases.advance(30_000);
    const config = bench.config(bench.model([{ text: 'Done.' }]), { toolProviders: [tools] });
    expect(await AgentLoop.resume('t', config).result()).toMatchObject({ status: 'completed' });
    hanging.open();
    expect(await outcome).toMatchObject({ code: 'FENCED' });
    expect(contexts.map(({ idempotencyKey, attempt }) => [idempotencyKey, attempt])).toEqual([
      ['t:1:0', 1],
      ['t:1:0', 2],
    ]);
  });
});
