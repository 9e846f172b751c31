import { describe, expect, it } from '@jest/globals';
import { AgentLoopError, type JournalRecord } from 'millrace';
import { AgentLoop, earlierRuns, idBelow, type LostSpan, replayOf } from 'millrace/internals';
import type { TurnRecord } from 'millrace/types';
import { deadTurn } from '../dead-turn.ts';
import { endingOf } from '../operators/recorded-spans.ts';
import { plainTools } from '../plain-tools.ts';
import { answers, asks, fruit, tracingBench } from './tracing-bench.ts';

const { bench, traced } = tracingBench();

const ofDead = { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16) };
const away = new AgentLoopError('PROVIDER_RATE_LIMIT', 'slow down', { retryable: true });
const start: TurnRecord = { type: 'llm.start', iteration: 1, attempt: 1 };

/** Goes on with the turn of a process that died in its second model call. */
async function resumed(trace: object = ofDead, records: readonly TurnRecord[] = []): Promise<void> {
  deadTurn(bench, [start, ...records], { trace: { ...ofDead, ...trace } });
  await AgentLoop.resume('t', bench.config(bench.model([answers]), { toolProviders: [fruit] })).result();
}

const outlines = () =>
  bench.spans.spans().map((span) => ({
    name: span.name,
    lost: span.attributes['millrace.outcome'] === 'lost',
    id: span.spanContext().spanId,
    traceId: span.spanContext().traceId,
    parent: span.parentSpanContext?.spanId,
  }));

describe('a run whose process was lost', () => {
  it('H-31 is written with its ids and times before the run that resumes it, which links to it', async () => {
    await resumed();
    const { traceId, spanId } = ofDead;
    const iteration = idBelow(spanId, 'iteration[1]', 1);
    expect(outlines().slice(0, 3)).toEqual([
      { name: 'agent.execute', lost: true, id: spanId, traceId, parent: undefined },
      { name: 'iteration[1]', lost: true, id: iteration, traceId, parent: spanId },
      { name: 'llm.call', lost: true, id: idBelow(iteration, 'llm', 1), traceId, parent: iteration },
    ]);
    const [lost, own] = bench.spans.spans().filter(({ name }) => name === 'agent.execute');
    expect(lost?.startTime[0]).toBe(Date.UTC(2030, 0, 1) / 1_000);
    expect(own?.links).toMatchObject([{ context: ofDead }]);
    expect(await bench.store.read('t')).toContainEqual(
      expect.objectContaining({ type: 'turn.resumed', lostAt: Date.UTC(2030, 0, 1) }),
    );
  });

  it('H-31 is written once: what resumed it, and was suspended or left in order, was not lost', async () => {
    deadTurn(bench, [start], { trace: ofDead });
    const approved = plainTools({ count: { needsApproval: true, execute: () => 2 } });
    const config = bench.config(bench.model([asks('count'), answers]), { toolProviders: [approved] });
    const { questions } = await AgentLoop.resume('t', config).result();
    const ended = bench.spans.spans().map((span) => span.spanContext().spanId);
    await AgentLoop.resume('t', config, { answers: { [questions[0]?.id ?? '']: { approved: true } } }).result();
    const all = bench.spans.spans().map((span) => span.spanContext().spanId);
    expect(all.filter((id, index) => all.indexOf(id) !== index)).toEqual([]);
    expect(all.length).toBeGreaterThan(ended.length);
    const resumptions = (await bench.store.read('t')).filter(({ type }) => type === 'turn.resumed');
    expect(resumptions.map((record) => 'lostAt' in record && record.lostAt !== undefined)).toEqual([true, false]);
  });

  it('H-31 is written by who cancels the turn from outside, with what the journal tells, and once', async () => {
    deadTurn(bench, [start], { trace: ofDead });
    await AgentLoop.cancel('t', { store: bench.store, clock: bench.clock });
    await AgentLoop.cancel('t', { store: bench.store, clock: bench.clock });
    const { spanId } = ofDead;
    expect(outlines().map(({ name, lost, parent }) => [name, lost, parent])).toEqual([
      ['agent.execute', true, undefined],
      ['iteration[1]', true, spanId],
      ['llm.call', true, idBelow(spanId, 'iteration[1]', 1)],
    ]);
  });

  it('H-31 is neither written nor linked to where its trace was not sampled', async () => {
    await resumed({ sampled: false });
    const [own, ...others] = bench.spans.spans().filter(({ name }) => name === 'agent.execute');
    expect(others).toEqual([]);
    expect(own?.links).toEqual([]);
  });

  it('H-31 keeps a parent of another process, and its agent.turn', async () => {
    const agentTurn = { spanId: 'c'.repeat(16), agentName: 'Ada' };
    await resumed({ parentSpanId: 'd'.repeat(16), agentTurn });
    const [turn, execute] = outlines();
    expect(turn).toMatchObject({ name: 'agent.turn', id: agentTurn.spanId, parent: 'd'.repeat(16) });
    expect(execute).toMatchObject({ id: ofDead.spanId, parent: agentTurn.spanId });
  });

  it('H-31 is written by the first run with tracing behind it, as if others had not been there', async () => {
    const lostAt = Date.UTC(2030, 0, 1);
    await resumed({}, [
      { type: 'turn.resumed', lostAt },
      { ...start, attempt: 2 },
    ]);
    expect(outlines()[0]).toMatchObject({ name: 'agent.execute', id: ofDead.spanId, lost: true });
    const [, own] = bench.spans.spans().filter(({ name }) => name === 'agent.execute');
    expect(own?.links).toEqual([]);
  });

  it('H-31 is written again where the run that wrote it was lost within 10 s, and not after that', async () => {
    const lostAt = Date.UTC(2030, 0, 1) - 11_000;
    const second = { traceId: 'e'.repeat(32), spanId: 'f'.repeat(16) };
    await resumed({}, [
      { type: 'turn.resumed', lostAt, trace: second },
      { ...start, attempt: 2 },
    ]);
    const executes = () => outlines().filter(({ name, lost }) => name === 'agent.execute' && lost);
    expect(executes().map(({ id }) => id)).toEqual([ofDead.spanId, second.spanId]);
    const records = await bench.store.read('t');
    const commit = replayOf(records.slice(0, 4));
    expect(earlierRuns(commit, commit.after.updatedAt + 9_000).lost).toHaveLength(2);
    expect(earlierRuns(commit, commit.after.updatedAt + 11_000).lost.map(({ trace }) => trace.spanId)).not.toContain(
      ofDead.spanId,
    );
  });

  it('H-31 is written without the spans that ended 10 s before the process was last seen: they were exported', async () => {
    await traced({ steps: [asks('count'), answers], taskId: 't' });
    // One second between two records; the turn is in its second model call.
    const records = (await bench.store.read('t')).slice(0, 6).map((record) => ({ ...record, at: record.seq * 1_000 }));
    expect(records.map(({ type }) => type).slice(1)).toEqual([
      'llm.start',
      'llm.done',
      'tool.intent',
      'tool.result',
      'llm.start',
    ]);
    const kinds = (lostAt: number) =>
      earlierRuns(replayOf(records), lostAt).lost.flatMap(({ spans }) => spans.map(({ kind }) => kind));
    const second = ['iteration', 'llm'];
    expect(kinds(12_999)).toEqual(['execute', 'iteration', 'llm', 'tools', 'tool', ...second]);
    expect(kinds(13_000)).toEqual(['execute', 'iteration', 'tools', 'tool', ...second]);
    expect(kinds(15_000)).toEqual(['execute', ...second]);
  });

  it('H-31 says of a model call that waits for its next attempt what it failed by', async () => {
    const error = { code: 'PROVIDER_RATE_LIMIT', message: 'slow down' } as const;
    const hold = { until: Date.UTC(2030, 0, 1), attempt: 1, error };
    await resumed({}, [{ type: 'turn.suspended', state: 'working', reason: 'backoff', questions: [], hold }]);
    const [lost] = bench.spans.spans().filter(({ name }) => name === 'llm.call');
    expect(lost && endingOf(lost)).toMatchObject({ status: 'ERROR', errorType: error.code });
  });

  it('H-31 is not linked to where the SDK does not let ids be chosen', async () => {
    const generators = Reflect.get(globalThis, Symbol.for('millrace.spans.chosen-ids'));
    const { generators: count } = generators;
    generators.generators = 0;
    try {
      await resumed();
    } finally {
      generators.generators = count;
    }
    const [own, ...others] = bench.spans.spans().filter(({ name }) => name === 'agent.execute');
    expect([own?.links, others]).toEqual([[], []]);
  });

  it('H-31 does not count a run that gave its lease back, nor what a fork has of another turn', async () => {
    await traced({ steps: [asks('count'), answers], taskId: 't' });
    const steps = replayOf(await bench.store.read('t'));
    expect(earlierRuns(steps, null)).toEqual({ lost: [] });
    const [first, ...rest] = steps.steps;
    const forkedFrom = { taskId: 'o', at: 1, records: steps.steps.length };
    const record = { ...first?.record, forkedFrom } as JournalRecord;
    const forked = { ...steps, steps: [{ before: undefined, record }, ...rest] };
    expect(earlierRuns(forked, 1)).toEqual({ lost: [] });
  });
});

describe('the ids of spans', () => {
  it('H-31 follow from any part of the journal as they were', async () => {
    await traced({
      steps: [asks('count', 'weigh', 'broken'), { error: away }, { error: away }, asks('count'), answers],
      config: { retryPlan: { attempts: 3, delayMs: 10 } },
      clock: bench.clock,
      taskId: 't',
    });
    const records = await bench.store.read('t');
    const live = new Map(
      bench.spans.spans().map((span) => [span.spanContext().spanId, [span.name, span.parentSpanContext?.spanId]]),
    );
    const seen = new Set<string>();
    for (let length = 1; length < records.length; length++) {
      const { lost } = earlierRuns(replayOf(records.slice(0, length)), 0);
      for (const span of lost.flatMap(({ spans }) => spans)) {
        expect([nameOf(span), span.parentSpanId]).toEqual(live.get(span.spanId));
        seen.add(span.spanId);
      }
    }
    expect(seen.size).toBe(live.size);
  });

  it('H-31 are as good as random: 200,000 below few parents are all different', () => {
    const ids = new Set<string>();
    for (let parent = 0; parent < 20; parent++) {
      const above = idBelow('0123456789abcdef', `iteration[${parent}]`, 1);
      for (let count = 1; count <= 10_000; count++) ids.add(idBelow(above, `tool ${parent}:${count % 7} 1`, count));
    }
    expect(ids.size).toBe(200_000);
  });
});

function nameOf(span: LostSpan): string {
  switch (span.kind) {
    case 'execute':
      return 'agent.execute';
    case 'iteration':
      return `iteration[${span.iteration}]`;
    case 'llm':
      return 'llm.call';
    case 'tools':
      return 'tools.execute';
    case 'tool':
      return `tool[${span.call.function.name}]`;
    default:
      return span.kind;
  }
}
