import { describe, expect, it } from '@jest/globals';
import { context, createContextKey, ROOT_CONTEXT, SpanKind, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import type { ToolContext } from 'millrace';
import { AgentLoop, finishTurnSpan, startTurnSpan, turnTracing } from 'millrace/internals';
import { gate } from 'millrace/testing';
import { plainTools } from '../plain-tools.ts';
import { question, runTurn } from '../tools/run-turn.ts';
import { answers, asks, tracingBench } from './tracing-bench.ts';

const { bench, traced, named } = tracingBench();

describe('the spans of a turn', () => {
  it('S1-15 S1-82 are one tree, below the turn of the agent, though no context manager is registered', async () => {
    const key = createContextKey('probe');
    expect(context.with(ROOT_CONTEXT.setValue(key, 1), () => context.active().getValue(key))).toBeUndefined();
    const tracing = turnTracing({}, { taskId: 't', contextId: 'c', agentId: 'tester' });
    const turn = startTurnSpan(tracing, { agentName: 'tester', messages: question }, ROOT_CONTEXT);
    const { result } = await traced({
      steps: [asks('count', 'weigh'), asks('count'), answers],
      parentContext: turn.traceContext,
      taskId: 't',
    });
    if (!('usage' in result)) throw result;
    finishTurnSpan(tracing, turn.span, { outcome: result.status, ...result });
    turn.span.end();
    expect(bench.spans.tree()).toBe(
      [
        'agent.turn',
        '  agent.execute',
        '    iteration[1]',
        '      llm.call',
        '      tools.execute',
        '        tool[count]',
        '        tool[weigh]',
        '    iteration[2]',
        '      llm.call',
        '      tools.execute',
        '        tool[count]',
        '    iteration[3]',
        '      llm.call',
      ].join('\n'),
    );
    expect(new Set(bench.spans.spans().map((span) => span.spanContext().traceId)).size).toBe(1);
    for (const span of bench.spans.spans()) {
      expect(span.kind).toBe(span.name === 'llm.call' ? SpanKind.CLIENT : SpanKind.INTERNAL);
      expect(span.instrumentationScope.name).toBe('millrace');
    }
  });

  it('S1-83 have one tools.execute for calls that run together, which holds them all', async () => {
    const [ready, goOn] = [gate(), gate()];
    let started = 0;
    const slow = async () => {
      if (++started === 3) void ready.pass();
      await goOn.pass();
    };
    const turn = traced({ steps: [asks('slow', 'slow', 'slow'), answers], tools: plainTools({ slow }) });
    await ready.reached;
    expect(bench.spans.open()).toEqual([
      'agent.execute',
      'iteration[1]',
      'tools.execute',
      'tool[slow]',
      'tool[slow]',
      'tool[slow]',
    ]);
    goOn.open();
    await turn;
    const batch = named('tools.execute').spanContext().spanId;
    const calls = bench.spans.spans().filter(({ name }) => name === 'tool[slow]');
    expect(calls.map((span) => span.parentSpanContext?.spanId)).toEqual([batch, batch, batch]);
    const ended = bench.spans.inOrderOfEnd().map(({ name }) => name);
    expect(ended.slice(1, 5)).toEqual(['tool[slow]', 'tool[slow]', 'tool[slow]', 'tools.execute']);
  });

  it('S1-84 go on with the trace of the caller', async () => {
    const caller = bench.spans.provider.getTracer('caller').startSpan('request');
    await traced({ steps: [answers], parentContext: trace.setSpan(ROOT_CONTEXT, caller) });
    caller.end();
    expect(named('agent.execute').parentSpanContext).toMatchObject(caller.spanContext());
    expect(bench.spans.tree()).toBe('request\n  agent.execute\n    iteration[1]\n      llm.call');
  });

  it('are the active ones where user code is called, so that what it traces nests below', async () => {
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
    try {
      const tracer = bench.spans.provider.getTracer('http');
      const fetching = async () => {
        tracer.startSpan('GET early').end();
        await new Promise((resolve) => setImmediate(resolve));
        tracer.startSpan('GET late').end();
      };
      await traced({
        steps: [
          () => {
            tracer.startSpan('POST model').end();
            return asks('fetch');
          },
          answers,
        ],
        tools: plainTools({ fetch: fetching }),
      });
    } finally {
      context.disable();
    }
    expect(bench.spans.tree()).toBe(
      [
        'agent.execute',
        '  iteration[1]',
        '    llm.call',
        '      POST model',
        '    tools.execute',
        '      tool[fetch]',
        '        GET early',
        '        GET late',
        '  iteration[2]',
        '    llm.call',
      ].join('\n'),
    );
  });
  it('S1-27 are none with enableTracing false, and the caller’s context reaches model and tools as it is', async () => {
    const contexts: unknown[] = [];
    const look = ({ traceContext }: ToolContext) => contexts.push(traceContext);
    const model = bench.model([asks('look'), answers]);
    const parentContext = ROOT_CONTEXT.setValue(createContextKey('theirs'), 1);
    const config = bench.config(model, { toolProviders: [plainTools({ look })], enableTracing: false });
    await runTurn(new AgentLoop(config), { parentContext });
    expect(bench.spans.started).toBe(0);
    expect([...contexts, ...model.calls.map(({ traceContext }) => traceContext)]).toEqual([
      parentContext,
      parentContext,
      parentContext,
    ]);
  });

  it('are none where no SDK is registered', async () => {
    await bench.spans.dispose();
    expect((await traced({ steps: [asks('count'), answers] })).result).toMatchObject({ status: 'completed' });
    expect(bench.spans.started).toBe(0);
  });
});
