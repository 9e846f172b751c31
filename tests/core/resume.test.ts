import { describe, expect, it } from '@jest/globals';
import { ROOT_CONTEXT, trace } from '@opentelemetry/api';
import { type AgentLoopConfig, InMemoryStateStore, type ToolContext, type ToolListContext } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { asyncStore } from 'millrace/testing';
import type { TurnRecord } from 'millrace/types';
import { answerOf, deadTurn, firstCall, intentOf, question, resultOf } from './dead-turn.ts';
import { plainTools } from './plain-tools.ts';
import { turnBench } from './turn-bench.ts';
import { ofRecords, outlineOf, watch } from './watch-events.ts';

const bench = turnBench();

/** A tool that pauses its turn: what `AgentLoop.resume` then finds is a suspended turn with one result. */
async function pausedTurn(options: Partial<AgentLoopConfig> = {}) {
  const runs: string[] = [];
  const tools = plainTools({
    count: () => {
      runs.push('count');
      turn.pause('lunch');
      return 'two';
    },
  });
  const loop = bench.loop([{ text: 'Let me count.', toolCalls: [{ name: 'count' }] }], {
    toolProviders: [tools],
    ...options,
  });
  const turn = loop.startTurn(question, { taskId: 't', contextId: 'c' });
  const watcher = watch(turn);
  await turn.settled;
  return { turn, watcher, tools, runs };
}

const dead = (records: readonly TurnRecord[], started = {}) => deadTurn(bench, records, started);

function resume(
  steps: Parameters<typeof bench.model>[0],
  options: Partial<AgentLoopConfig> = {},
  resumeOptions: Parameters<typeof AgentLoop.resume>[2] = {},
) {
  const model = bench.model(steps);
  return { model, turn: AgentLoop.resume('t', bench.config(model, options), resumeOptions) };
}

/** Gives a record more than its head knows: an append that was torn. */
class TornStore extends InMemoryStateStore {
  override read(...given: Parameters<InMemoryStateStore['read']>) {
    const records = super.read(...given);
    const last = records.at(-1);
    if (last?.type !== 'llm.start') return records;
    return [
      ...records,
      { type: 'x.torn' as const, effects: { messages: [torn] }, seq: last.seq + 1, epoch: 1, at: last.at },
    ];
  }
}

const torn = { role: 'user', content: 'Never acknowledged.' } as const;

describe('AgentLoop.resume', () => {
  it('does not count what is behind the end that the store vouches for', async () => {
    const { clock, leases } = bench;
    const store = new TornStore({ clock: leases });
    deadTurn({ store, clock, leases }, [firstCall]);
    const model = bench.model([{ text: 'Two.' }]);
    const turn = AgentLoop.resume('t', bench.config(model, { taskStateStore: store }));
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'Two.' });
    expect(model.calls[0]?.messages).toEqual(question);
    expect(store.read('t').map(({ type }) => type)).not.toContain('x.torn');
  });
});

describe('AgentLoop.resume of a paused turn', () => {
  it('S0-28 S1-76 emits internal:resumed, repeats no recorded call, and completes', async () => {
    const { tools, runs, watcher: before } = await pausedTurn();
    const { model, turn } = resume([{ text: 'There are two.' }], { toolProviders: [tools] });
    const watcher = watch(turn);
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'There are two.', iterations: 2 });
    expect([runs, model.calls.length]).toEqual([['count'], 1]);
    expect(watcher.of('internal:resumed')).toHaveLength(1);
    const lines = outlineOf(watcher.events);
    expect(outlineOf(ofRecords(watcher.events)).slice(0, ofRecords(before.events).length - 1)).toEqual(
      outlineOf(ofRecords(before.events)).slice(0, -1),
    );
    expect(lines.slice(lines.indexOf('paused (lunch)'), lines.indexOf('iteration-start 2'))).toEqual([
      'paused (lunch)',
      'status input-required (lunch)',
      'resumed',
      'status working',
    ]);
  });

  it('has final: true on its last event only', async () => {
    const { tools } = await pausedTurn();
    const { turn } = resume([{ text: 'There are two.' }], { toolProviders: [tools] });
    const watcher = watch(turn);
    await watcher.ended;
    expect(watcher.of('status-update').filter(({ final }) => final)).toEqual([watcher.events.at(-1)]);
  });

  it('does not tell a reader of the old pause as the end who comes before the resume is durable', async () => {
    const { tools } = await pausedTurn();
    const taskStateStore = asyncStore(bench.store);
    const { turn } = resume([{ text: 'There are two.' }], { toolProviders: [tools], taskStateStore });
    const late: ReturnType<typeof watch>[] = [];
    const watcher = watch(turn, ({ kind }) => {
      if (kind === 'internal:paused') late.push(watch(turn));
    });
    await watcher.ended;
    expect(outlineOf(late[0]?.events ?? [])).toEqual(outlineOf(watcher.events));
    expect(late[0]?.end).toBe('complete');
  });

  it('S4-36 has the same taskId and contextId in all events, also of three model calls, the last after a kill', async () => {
    const toolProviders = [plainTools({ count: () => 2 })];
    const killed = bench
      .loop([{ toolCalls: [{ name: 'count' }] }, { never: true }], { toolProviders })
      .startTurn(question, { taskId: 't', contextId: 'c' });
    const before = watch(killed);
    await before.until('internal:llm-call', ({ iteration }) => iteration === 2);
    bench.leases.advance(30_000);
    const { turn } = resume([{ text: 'There are two.' }], { toolProviders });
    const watcher = watch(turn);
    await watcher.ended;
    bench.clock.advance(10_000);
    await before.ended;
    expect(turn.contextId).toBe('c');
    for (const { taskId, contextId } of [...before.events, ...watcher.events]) {
      expect([taskId, contextId]).toEqual(['t', 'c']);
    }
    expect(watcher.of('internal:llm-call').map(({ iteration, attempt }) => [iteration, attempt])).toEqual([
      [1, 1],
      [2, 1],
      [2, 2],
    ]);
  });

  it('S1-107 links its span to the trace it goes on from, below the caller’s parent', async () => {
    const { tools } = await pausedTurn();
    const parent = bench.spans.provider.getTracer('caller').startSpan('caller');
    const parentContext = trace.setSpan(ROOT_CONTEXT, parent);
    const { turn } = resume([{ text: 'Two.' }], { toolProviders: [tools] }, { parentContext });
    await turn.result();
    parent.end();
    const [first, second] = bench.spans.spans().filter(({ name }) => name === 'agent.execute');
    expect(second?.links.map(({ context }) => context.spanId)).toEqual([first?.spanContext().spanId]);
    expect(second?.parentSpanContext?.spanId).toBe(parent.spanContext().spanId);
    expect(second?.attributes['millrace.resumed']).toBe(true);
  });
});

describe('what a resumed turn uses', () => {
  it('S1-107 is the authContext of the resume, which no record has', async () => {
    const seen: (ToolContext | ToolListContext)[] = [];
    const provider = plainTools({
      pay: (context) => {
        seen.push(context);
        return 'paid';
      },
    });
    const toolProviders = [
      {
        ...provider,
        getTools: (context: ToolListContext) => {
          seen.push(context);
          return provider.getTools(context);
        },
      },
    ];
    dead([firstCall, answerOf(['pay'])], { metadata: { tenant: 'north' } });
    const authContext = { token: 'sesame' };
    const { turn } = resume([{ text: 'Done.' }], { toolProviders }, { authContext, contextId: 'c' });
    await turn.result();
    const ids = { taskId: 't', contextId: 'c', agentId: 'tester', metadata: { tenant: 'north' } };
    expect(seen).toMatchObject([
      { ...ids, authContext },
      { ...ids, authContext },
    ]);
    expect(JSON.stringify(bench.store.read('t'))).not.toContain('sesame');
  });

  it('S1-24 are the systemPrompt and maxIterations that the turn was started with', async () => {
    dead([firstCall, answerOf(['pay']), intentOf(0), resultOf(0, 'paid')], {
      settings: { systemPrompt: 'Be brief.', maxIterations: 2 },
    });
    const { model, turn } = resume([{ toolCalls: [{ name: 'pay' }] }], {
      systemPrompt: 'Be long.',
      maxIterations: 50,
      toolProviders: [plainTools({ pay: () => 'paid' })],
    });
    await expect(turn.result()).rejects.toMatchObject({ code: 'MAX_ITERATIONS', reason: 'max_iterations' });
    expect(model.calls.map(({ messages }) => messages[0])).toEqual([{ role: 'system', content: 'Be brief.' }]);
  });

  it('is the usage of both runs together', async () => {
    const usage = { promptTokens: 10, completionTokens: 2, totalTokens: 12 };
    dead([firstCall, { ...answerOf(['pay']), usage }]);
    const { turn } = resume([{ text: 'Done.', usage }], { toolProviders: [plainTools({ pay: () => 'paid' })] });
    expect((await turn.result()).usage).toEqual({ promptTokens: 20, completionTokens: 4, totalTokens: 24 });
  });
});
