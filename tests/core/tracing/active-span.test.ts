import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { context, ROOT_CONTEXT, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { agent } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { question } from '../tools/run-turn.ts';
import { answers, tracingBench } from './tracing-bench.ts';

const { bench, named } = tracingBench();
const manager = new AsyncLocalStorageContextManager();
beforeAll(() => {
  context.setGlobalContextManager(manager.enable());
});
afterAll(() => {
  context.disable();
});

const caller = () => bench.spans.provider.getTracer('caller');

describe('a turn without a parentContext', () => {
  it('U-16 continues the span that is active when startTurn is called, whatever is active when it runs', async () => {
    const loop = bench.loop([answers]);
    const { turn, span } = caller().startActiveSpan('request', (span) => ({ turn: loop.startTurn(question), span }));
    await caller().startActiveSpan('reader', async (reader) => {
      await turn.result();
      reader.end();
    });
    span.end();
    const request = named('request').spanContext();
    expect(named('agent.execute').parentSpanContext?.spanId).toBe(request.spanId);
    expect(named('llm.call').spanContext().traceId).toBe(request.traceId);
  });

  it('U-16 does so where it is the turn of an agent, and where it is resumed', async () => {
    const ada = agent({ id: 'ada', provider: bench.model([answers]), clock: bench.clock, taskStateStore: bench.store });
    await caller().startActiveSpan('request', async (span) => {
      await ada.run('How many?', { taskId: 't' });
      span.end();
    });
    expect(named('agent.turn').parentSpanContext?.spanId).toBe(named('request').spanContext().spanId);
    const paused = bench.loop([]).startTurn(question, { taskId: 'p' });
    paused.pause();
    await paused.result();
    bench.spans.clear();
    await caller().startActiveSpan('again', async (span) => {
      await AgentLoop.resume('p', bench.config(bench.model([answers]))).result();
      span.end();
    });
    expect(named('agent.execute').parentSpanContext?.spanId).toBe(named('again').spanContext().spanId);
    await ada.close();
  });

  it('U-16 leaves explicit contexts as they are', async () => {
    const given = caller().startSpan('given');
    const parentContext = trace.setSpan(ROOT_CONTEXT, given);
    await caller().startActiveSpan('request', async (span) => {
      await bench.loop([answers]).startTurn(question, { parentContext }).result();
      span.end();
    });
    given.end();
    expect(named('agent.execute').parentSpanContext?.spanId).toBe(given.spanContext().spanId);
    bench.spans.clear();
    await caller().startActiveSpan('request', async (span) => {
      await bench.loop([answers]).startTurn(question, { parentContext: ROOT_CONTEXT }).result();
      span.end();
    });
    expect(named('agent.execute').parentSpanContext).toBeUndefined();
  });
});
