import { describe, expect, it } from '@jest/globals';
import { ROOT_CONTEXT, trace } from '@opentelemetry/api';
import { AgentLoop } from 'millrace/internals';
import { endingOf, unset } from '../operators/recorded-spans.ts';
import { plainTools } from '../plain-tools.ts';
import { question } from '../tools/run-turn.ts';
import { answers, asks, tracingBench } from './tracing-bench.ts';

const { bench, named } = tracingBench();

describe('the spans of a turn that goes on', () => {
  it('S1-107 are a trace of their own, linked to the one before, below the parent that the resume is given', async () => {
    const pausing = plainTools({ pause: () => turn.pause('lunch') });
    const turn = bench.loop([asks('pause')], { toolProviders: [pausing] }).startTurn(question, { taskId: 't' });
    await turn.result();
    const before = named('agent.execute');
    expect(endingOf(before)).toEqual({ ...unset, outcome: 'input-required' });
    const caller = bench.spans.provider.getTracer('caller').startSpan('request');
    bench.spans.clear();
    const config = bench.config(bench.model([answers]), { toolProviders: [pausing] });
    await AgentLoop.resume('t', config, { parentContext: trace.setSpan(ROOT_CONTEXT, caller) }).result();
    caller.end();
    expect(bench.spans.tree()).toBe('agent.execute\n  iteration[2]\n    llm.call');
    const after = named('agent.execute');
    expect(after.attributes).toMatchObject({
      'millrace.resumed': true,
      'millrace.task.id': 't',
      'millrace.outcome': 'completed',
    });
    const { traceId, spanId } = before.spanContext();
    expect(after.links).toMatchObject([{ context: { traceId, spanId } }]);
    expect(after.parentSpanContext).toMatchObject({ spanId: caller.spanContext().spanId });
    expect(after.spanContext().traceId).not.toBe(traceId);
  });

  it('link to the resume before, where there is one', async () => {
    const pausing = plainTools({ pause: () => running.pause('lunch') });
    let running = bench.loop([asks('pause')], { toolProviders: [pausing] }).startTurn(question, { taskId: 't' });
    await running.result();
    running = AgentLoop.resume('t', bench.config(bench.model([asks('pause')]), { toolProviders: [pausing] }));
    await running.result();
    await AgentLoop.resume('t', bench.config(bench.model([answers]), { toolProviders: [pausing] })).result();
    const [first, second, third] = bench.spans.spans().filter(({ name }) => name === 'agent.execute');
    expect(first?.links).toEqual([]);
    expect(second?.links[0]?.context.spanId).toBe(first?.spanContext().spanId);
    expect(third?.links[0]?.context.spanId).toBe(second?.spanContext().spanId);
  });
});
