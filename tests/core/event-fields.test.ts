import { describe, expect, it } from '@jest/globals';
import type { AgentEvent, ToolContext } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { question } from './dead-turn.ts';
import { plainTools } from './plain-tools.ts';
import { type BenchOptions, turnBench } from './turn-bench.ts';
import { ofKind, watch } from './watch-events.ts';

const bench = turnBench();

const twoTools = [
  {
    text: 'Let me see.',
    toolCalls: [
      { name: 'count', arguments: { of: 'apples' } },
      { name: 'fail', arguments: { because: 'of that' } },
      { name: 'count', arguments: { of: 'pears' } },
    ],
  },
  { text: 'Two apples.' },
];

/** A turn of two iterations and three calls, one of which fails; the tools keep what they were called with. */
async function busyTurn(options: BenchOptions = {}) {
  const calls: ToolContext[] = [];
  const toolProviders = [
    plainTools({
      count: (context) => {
        calls.push(context);
        return 2;
      },
      fail: (context) => {
        calls.push(context);
        throw new RangeError('no such thing');
      },
    }),
  ];
  const model = bench.model(twoTools);
  const turn = new AgentLoop(bench.config(model, { toolProviders, ...options })).startTurn(question, { taskId: 't' });
  const watcher = watch(turn);
  const result = await turn.result();
  await watcher.ended;
  return { events: watcher.events, of: watcher.of, calls, requests: model.calls, result };
}

describe('every event', () => {
  it('S0-47 S4-36 carries taskId, contextId and an ISO timestamp; those of records a cursor, different for each', async () => {
    const { events } = await busyTurn();
    for (const event of events) {
      expect(event).toMatchObject({ taskId: 't', contextId: expect.any(String) });
      expect(new Date(event.timestamp).toISOString()).toBe(event.timestamp);
    }
    expect(new Set(events.map(({ contextId }) => contextId)).size).toBe(1);
    const cursors = events.flatMap(({ cursor }) => cursor ?? []);
    expect(new Set(cursors).size).toBe(cursors.length);
    const deltas = events.filter(({ cursor }) => cursor === undefined).map(({ kind }) => kind);
    expect(new Set(deltas)).toEqual(new Set(['artifact-update', 'internal:tool-call-delta']));
  });

  it('has a cursor of seq, epoch and a number from 1, in the order of the stream', async () => {
    const { events } = await busyTurn();
    const places = events.flatMap(({ cursor }) => (cursor === undefined ? [] : [cursor.split(/[-.]/).map(Number)]));
    for (const [index, [seq = 0, epoch, n]] of places.entries()) {
      const [lastSeq = 0, , lastN = 0] = places[index - 1] ?? [];
      expect([seq, n]).toEqual(seq === lastSeq ? [lastSeq, lastN + 1] : [lastSeq + 1, 1]);
      expect(epoch).toBe(seq === 1 ? 0 : 1);
    }
  });

  it('is plain JSON', async () => {
    const { events } = await busyTurn();
    expect(JSON.parse(JSON.stringify(events))).toEqual(events);
  });
});

describe('the first and the last events', () => {
  it('S1-58 S4-30 are task, with the ids and the metadata, and status-update working, once each', async () => {
    const turn = bench.loop([{ text: 'Two.' }]).startTurn(question, {
      taskId: 't',
      contextId: 'c',
      agentId: 'scout',
      metadata: { tenant: 'north' },
    });
    const watcher = watch(turn);
    await watcher.ended;
    expect(watcher.events[0]).toMatchObject({
      kind: 'task',
      id: 't',
      taskId: 't',
      contextId: 'c',
      agentId: 'scout',
      status: { state: 'submitted' },
      metadata: { tenant: 'north' },
    });
    expect(watcher.events[1]).toMatchObject({ kind: 'status-update', status: { state: 'working' }, final: false });
    expect(watcher.of('task')).toHaveLength(1);
  });

  it('S0-50 are seen before the model is called', async () => {
    const model = bench.model([{ text: 'Two.' }]);
    const turn = new AgentLoop(bench.config(model)).startTurn(question);
    const callsBy: [string, number][] = [];
    turn.subscribe(({ kind }) => callsBy.push([kind, model.calls.length]));
    await turn.settled;
    expect(callsBy.slice(0, 2)).toEqual([
      ['task', 0],
      ['status-update', 0],
    ]);
    expect(callsBy.filter(([kind]) => kind === 'task')).toHaveLength(1);
  });

  it('S4-34 S1-60 are one status-update with final: true, last, with the final message', async () => {
    const { events, of } = await busyTurn();
    expect(of('status-update').filter(({ final }) => final)).toEqual([events.at(-1)]);
    expect(events.at(-1)).toMatchObject({
      status: {
        state: 'completed',
        message: { kind: 'message', role: 'agent', taskId: 't', parts: [{ kind: 'text', text: 'Two apples.' }] },
      },
      reason: 'stop',
    });
  });
});

describe('the events of iterations and model calls', () => {
  it('S0-43 S0-54 S0-62 are numbered from 1, a start and a complete each, the complete as its last event', async () => {
    const { events } = await busyTurn();
    const numbers = (kind: 'internal:iteration-start' | 'internal:iteration-complete') =>
      ofKind<typeof kind>(events, kind).map(({ iteration }) => iteration);
    expect([numbers('internal:iteration-start'), numbers('internal:iteration-complete')]).toEqual([
      [1, 2],
      [1, 2],
    ]);
    const start = events.findIndex((event) => event.kind === 'internal:iteration-start' && event.iteration === 2);
    expect(events[start - 1]).toMatchObject({ kind: 'internal:iteration-complete', iteration: 1 });
    expect(events.at(-2)).toMatchObject({ kind: 'internal:iteration-complete', iteration: 2 });
  });

  it('S0-62 number the first iteration 1 in events, state, records and spans, with stream and with only call', async () => {
    for (const streaming of [true, false]) {
      const llmProvider = bench.model([{ text: 'Two.' }], { streaming });
      const taskId = `streaming-${streaming}`;
      const turn = new AgentLoop(bench.config(llmProvider)).startTurn(question, { taskId });
      const watcher = watch(turn);
      await watcher.ended;
      expect(watcher.of('internal:iteration-start').map(({ iteration }) => iteration)).toEqual([1]);
      expect(bench.store.load(taskId)).toMatchObject({ iteration: 1 });
      expect(bench.store.read(taskId)[1]).toMatchObject({ type: 'llm.start', iteration: 1 });
    }
    const names = bench.spans.spans().map(({ name }) => name);
    expect(names.filter((name) => name.startsWith('iteration'))).toEqual(['iteration[1]', 'iteration[1]']);
  });

  it('S0-44 S0-45 are one llm-call and one llm-response a call; the response carries the calls, or none', async () => {
    const { of } = await busyTurn();
    expect(of('internal:llm-call').map(({ iteration, attempt }) => [iteration, attempt])).toEqual([
      [1, 1],
      [2, 1],
    ]);
    const [first, second] = of('internal:llm-response');
    expect(first).toMatchObject({
      text: 'Let me see.',
      finishReason: 'tool_calls',
      toolCalls: [
        { callId: '1:0', call: { id: 'call_1_0', function: { name: 'count', arguments: '{"of":"apples"}' } } },
        { callId: '1:1', call: { function: { name: 'fail' } } },
        { callId: '1:2' },
      ],
    });
    expect(second).toMatchObject({ text: 'Two apples.', finishReason: 'stop' });
    expect(second).not.toHaveProperty('toolCalls');
  });

  it('S0-59 have the times at which things happened; the result has the usage of all calls', async () => {
    const start = bench.clock.now();
    const usage = { promptTokens: 5, completionTokens: 2, totalTokens: 7 };
    const slow = (ms: number) => {
      bench.clock.advance(ms);
    };
    const steps = [
      () => {
        slow(200);
        return { toolCalls: [{ name: 'work' }], usage };
      },
      () => {
        slow(70);
        return { text: 'Done.', usage };
      },
    ];
    const model = bench.model(steps, { synchronous: true });
    const toolProviders = [plainTools({ work: () => slow(1_000) })];
    const turn = new AgentLoop(bench.config(model, { toolProviders })).startTurn(question);
    const watcher = watch(turn);
    expect((await turn.result()).usage).toEqual({ promptTokens: 10, completionTokens: 4, totalTokens: 14 });
    const at = (event: AgentEvent | undefined) => Date.parse(event?.timestamp ?? '') - start;
    expect(watcher.of('internal:iteration-start').map(at)).toEqual([0, 1_200]);
    expect(watcher.of('internal:iteration-complete').map(at)).toEqual([1_200, 1_270]);
    expect(watcher.of('internal:tool-complete')).toMatchObject([{ durationMs: 1_000 }]);
    expect(at(watcher.events.at(-1))).toBe(1_270);
  });
});

describe('the events of tools', () => {
  it('S4-32 S2-22 S2-23 start once for each call, with its name, its own id, and the arguments that the tool got', async () => {
    const { of, calls } = await busyTurn();
    expect(of('internal:tool-start')).toMatchObject([
      { callId: '1:0', toolName: 'count', iteration: 1, attempt: 1, arguments: { of: 'apples' } },
      { callId: '1:1', toolName: 'fail', arguments: { because: 'of that' } },
      { callId: '1:2', toolName: 'count', arguments: { of: 'pears' } },
    ]);
    expect(of('internal:tool-start').map((event) => event.arguments)).toEqual(calls.map((call) => call.arguments));
  });

  it('S4-33 S0-46 S0-53 S2-24 complete once for each start, with the content that the next request holds', async () => {
    const { of, requests } = await busyTurn();
    const completes = of('internal:tool-complete');
    expect(completes.map(({ callId, success }) => [callId, success])).toEqual([
      ['1:0', true],
      ['1:1', false],
      ['1:2', true],
    ]);
    const told = requests[1]?.messages.filter(({ role }) => role === 'tool').map(({ content }) => content);
    expect(completes.map(({ content }) => content)).toEqual(told);
    expect(told).toEqual(['2', 'Tool error: RangeError: no such thing', '2']);
  });
});

describe('the status of a turn', () => {
  it('S0-42 says working, completed, failed, canceled, paused and resumed, with reason or code', async () => {
    const failing = watch(bench.loop([{ error: new Error('cut') }]).startTurn(question));
    await failing.ended;
    expect(failing.events.at(-1)).toMatchObject({
      status: { state: 'failed', timestamp: expect.any(String) },
      reason: 'provider_failed',
      error: { code: 'PROVIDER_FAILED', message: expect.stringContaining('cut') },
    });

    const canceled = bench.loop([{ never: true }]).startTurn(question);
    const canceling = watch(canceled);
    await canceling.until('internal:llm-call');
    await canceled.cancel('enough');
    expect(canceling.events.at(-1)).toMatchObject({ status: { state: 'canceled' }, reason: 'enough' });

    const paused = bench.loop([]).startTurn(question, { taskId: 'p' });
    paused.pause('lunch');
    const pausing = watch(paused);
    await pausing.ended;
    expect(pausing.of('internal:paused')).toMatchObject([{ reason: 'lunch', taskId: 'p' }]);
    const again = watch(AgentLoop.resume('p', bench.config(bench.model([{ text: 'Two.' }]))));
    await again.ended;
    expect(again.of('internal:resumed')).toMatchObject([{ taskId: 'p', timestamp: expect.any(String) }]);
    expect(again.events.at(-1)).toMatchObject({ status: { state: 'completed' }, reason: 'stop' });
  });
});
