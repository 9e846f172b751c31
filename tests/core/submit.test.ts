import { describe, expect, it } from '@jest/globals';
import { ROOT_CONTEXT, type SpanContext, TraceFlags, trace } from '@opentelemetry/api';
import { AgentLoop, foldRecords } from 'millrace';
import type { TurnRecord } from 'millrace/types';
import { question } from './dead-turn.ts';
import { turnBench } from './turn-bench.ts';

const bench = turnBench();
const typesOf = () => bench.store.read('t').map(({ type }: TurnRecord) => type);

/** A loop that only submits: its model is never called. */
const producer = () => bench.loop([]);
const submit = (options = {}) => producer().submit(question, { taskId: 't', contextId: 'c', ...options });

describe('AgentLoop.submit', () => {
  it('F-01 creates the journal and runs nothing; the first run is no resume, and continues the trace by a link', async () => {
    const caller: SpanContext = { traceId: '1'.repeat(32), spanId: '2'.repeat(16), traceFlags: TraceFlags.SAMPLED };
    const parentContext = trace.setSpanContext(ROOT_CONTEXT, caller);
    const retryPlan = { attempts: 2, delayMs: 5 };
    const given = { metadata: { order: 17 }, systemPrompt: 'Be brief.', maxIterations: 3, retryPlan };
    expect(await submit({ ...given, tenant: 'acme', priority: 7, parentContext })).toEqual({
      taskId: 't',
      contextId: 'c',
      created: true,
    });
    expect(bench.store.read('t')).toMatchObject([
      {
        type: 'turn.started',
        messages: question,
        metadata: { order: 17 },
        settings: { systemPrompt: 'Be brief.', maxIterations: 3, retryPlan, tenant: 'acme', priority: 7 },
        submitted: { trace: { traceId: caller.traceId, spanId: caller.spanId } },
      },
    ]);
    const model = bench.model([{ text: 'Two.' }]);
    expect(await AgentLoop.resume('t', bench.config(model)).result()).toMatchObject({ text: 'Two.' });
    expect(typesOf()).toEqual(['turn.started', 'llm.start', 'llm.done', 'turn.done']);
    expect(foldRecords(bench.store.read('t')).resumes).toBe(0);
    const run = bench.spans.spans().find(({ name }) => name === 'agent.execute');
    expect(run?.links.map(({ context }) => context.spanId)).toEqual([caller.spanId]);
    expect(model.calls[0]?.messages[0]).toMatchObject({ role: 'system', content: 'Be brief.' });
  });

  it('is idempotent by its taskId, also after the turn has ended', async () => {
    await submit();
    expect(await submit()).toMatchObject({ created: false });
    await AgentLoop.resume('t', bench.config(bench.model([{ text: 'Two.' }]))).result();
    expect(await submit()).toMatchObject({ created: false });
    expect(typesOf().filter((type) => type === 'turn.started')).toHaveLength(1);
  });

  it('with other messages, or another context, the task is a conflict', async () => {
    await submit();
    await expect(producer().submit([{ role: 'user', content: 'Else?' }], { taskId: 't' })).rejects.toMatchObject({
      code: 'CONFLICT',
    });
    await expect(submit({ contextId: 'other' })).rejects.toMatchObject({ code: 'CONFLICT' });
  });

  it('a submitted turn whose first run was killed before its first record is resumed, and counts', async () => {
    await submit();
    bench.store.acquire('t', 'the dead', 1_000);
    bench.leases.advance(1_000);
    await AgentLoop.resume('t', bench.config(bench.model([{ text: 'Two.' }]))).result();
    expect(typesOf()).toEqual(['turn.started', 'turn.resumed', 'llm.start', 'llm.done', 'turn.done']);
  });

  it('a turn that its process started, and nobody submitted, is resumed', async () => {
    await submit();
    const { submitted: _, ...started } = bench.store.read('t')[0] as Extract<TurnRecord, { type: 'turn.started' }>;
    bench.store.create('u', { ...started, taskId: 'u', seq: 1, epoch: 0, at: 1 });
    await AgentLoop.resume('u', bench.config(bench.model([{ text: 'Two.' }]))).result();
    expect(bench.store.read('u')[1]).toMatchObject({ type: 'turn.resumed' });
  });

  it('needs a store, and refuses what only a run has', async () => {
    await expect(bench.loop([], { store: false }).submit(question)).rejects.toMatchObject({ code: 'INVALID_CONFIG' });
    await expect(submit({ signal: new AbortController().signal })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringContaining('signal is not an option here'),
    });
    await expect(submit({ priority: 0 })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    expect(bench.store.list()).toEqual([]);
  });

  it('a retry and a fork of a submitted turn are resumed as any other', async () => {
    await submit();
    const model = bench.model([{ error: new Error('gone') }]);
    await AgentLoop.resume('t', bench.config(model))
      .result()
      .catch(() => {});
    const again = AgentLoop.retry('t', bench.config(bench.model([{ text: 'Two.' }])), { taskId: 'again' });
    expect(await again.result()).toMatchObject({ text: 'Two.' });
    expect(bench.store.read('again')[0]).not.toHaveProperty('submitted');
  });
});

describe('AgentLoop.resume with shutdown', () => {
  it('leaves that turn alone, which another process resumes at once', async () => {
    await submit();
    const leave = new AbortController();
    const turn = AgentLoop.resume('t', bench.config(bench.model([{ never: true }])), { shutdown: leave.signal });
    const lost = expect(turn.result()).rejects.toMatchObject({ code: 'SHUTDOWN' });
    leave.abort();
    await lost;
    const other = AgentLoop.resume('t', bench.config(bench.model([{ text: 'Two.' }])));
    expect(await other.result()).toMatchObject({ text: 'Two.' });
  });
});
