import { afterEach, describe, expect, it } from '@jest/globals';
import { context, propagation, ROOT_CONTEXT, trace } from '@opentelemetry/api';
import { recordSpans, type SpanRecorder } from 'millrace/testing';

describe('recordSpans', () => {
  let recorder: SpanRecorder | undefined;

  afterEach(() => recorder?.dispose());

  it('draws the tree of the spans, children in the order in which they were started', () => {
    recorder = recordSpans();
    const tracer = trace.getTracer('test');
    const root = tracer.startSpan('agent.execute', {}, ROOT_CONTEXT);
    const inRoot = trace.setSpan(ROOT_CONTEXT, root);
    const iteration = tracer.startSpan('iteration[1]', {}, inRoot);
    const inIteration = trace.setSpan(inRoot, iteration);
    const first = tracer.startSpan('llm.call', {}, inIteration);
    const second = tracer.startSpan('tools.execute', {}, inIteration);
    const sibling = tracer.startSpan('iteration[2]', {}, inRoot);
    for (const span of [second, first, iteration, sibling]) span.end();
    expect(recorder.tree()).toBe(
      ['agent.execute (open)', '  iteration[1]', '    llm.call', '    tools.execute', '  iteration[2]'].join('\n'),
    );
    expect(recorder.open()).toEqual(['agent.execute']);
    expect([recorder.started, recorder.ended]).toEqual([5, 4]);
    root.end();
    expect(recorder.open()).toEqual([]);
    expect(recorder.spans().map(({ name }) => name)).toEqual([
      'agent.execute',
      'iteration[1]',
      'llm.call',
      'tools.execute',
      'iteration[2]',
    ]);
  });

  it('registers no context manager: a span without an explicit parent is a root', () => {
    recorder = recordSpans();
    const tracer = trace.getTracer('test');
    const outer = tracer.startSpan('outer', {}, ROOT_CONTEXT);
    context.with(trace.setSpan(ROOT_CONTEXT, outer), () => tracer.startSpan('inner').end());
    outer.end();
    expect(recorder.tree()).toBe('outer\ninner');
  });

  it('sets no propagator', () => {
    recorder = recordSpans();
    expect(propagation.fields()).toEqual([]);
  });

  it('puts a span whose parent was not recorded at the top', () => {
    recorder = recordSpans();
    const remote = { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331', traceFlags: 1 };
    trace.getTracer('test').startSpan('child', {}, trace.setSpanContext(ROOT_CONTEXT, remote)).end();
    expect(recorder.tree()).toBe('child');
    expect(recorder.spans()[0]?.parentSpanContext?.spanId).toBe(remote.spanId);
  });

  it('records what a caller would not sample', () => {
    recorder = recordSpans();
    const remote = { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331', traceFlags: 0 };
    trace.getTracer('test').startSpan('child', {}, trace.setSpanContext(ROOT_CONTEXT, remote)).end();
    expect(recorder.ended).toBe(1);
  });

  it('gives the spans that have ended by their start and by their end', () => {
    recorder = recordSpans();
    const [one, two] = ['one', 'two', 'open'].map((name) => trace.getTracer('test').startSpan(name));
    for (const span of [two, one]) span?.end();
    expect(recorder.spans().map(({ name }) => name)).toEqual(['one', 'two']);
    expect(recorder.inOrderOfEnd().map(({ name }) => name)).toEqual(['two', 'one']);
    recorder.clear();
    expect(recorder.inOrderOfEnd()).toEqual([]);
  });

  it('forgets on request, and leaves nothing registered behind', async () => {
    recorder = recordSpans();
    trace.getTracer('test').startSpan('one').end();
    recorder.clear();
    expect([recorder.started, recorder.tree()]).toEqual([0, '']);
    await recorder.dispose();
    expect(trace.getTracer('test').startSpan('late').isRecording()).toBe(false);
    expect(recorder.started).toBe(0);
    const next = recordSpans();
    trace.getTracer('test').startSpan('two').end();
    expect(next.tree()).toBe('two');
    await recorder.dispose();
    expect(trace.getTracer('test').startSpan('three').isRecording()).toBe(true);
    await next.dispose();
  });

  it('refuses to record beside another provider', () => {
    recorder = recordSpans();
    expect(() => recordSpans()).toThrow(expect.objectContaining({ code: 'CONFLICT' }));
  });
});
