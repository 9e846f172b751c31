import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type Agent, agent, agentTools, type Extension, InMemoryStateStore, tool } from 'millrace';
import { restoreSpans, turnTracing } from 'millrace/internals';
import { fakeClock, gate, recordSpans, type SpanRecorder, scriptedLLM } from 'millrace/testing';
import type { AgentSettings, GivenTools } from 'millrace/types';
import { eventually } from '../eventually.ts';
import { ids } from './turn-spans.ts';

let recorder: SpanRecorder;
beforeEach(() => {
  recorder = recordSpans();
});
afterEach(async () => {
  try {
    await eventually(() => recorder.open().length === 0);
  } finally {
    await recorder.dispose();
  }
});

const nanoseconds = ([seconds, rest]: readonly [number, number]) => BigInt(seconds) * 1_000_000_000n + BigInt(rest);

/** The spans that are not within their parent, and the events that are not within their span. */
function misfits(): readonly string[] {
  const spans = recorder.spans();
  const byId = new Map(spans.map((span) => [span.spanContext().spanId, span]));
  return spans.flatMap((span) => {
    const [start, end] = [nanoseconds(span.startTime), nanoseconds(span.endTime)];
    const parent = byId.get(span.parentSpanContext?.spanId ?? '');
    return [
      ...(parent && start < nanoseconds(parent.startTime) ? [`${span.name} starts before ${parent.name}`] : []),
      ...(parent && end > nanoseconds(parent.endTime) ? [`${span.name} ends after ${parent.name}`] : []),
      ...span.events
        .filter(({ time }) => nanoseconds(time) < start || nanoseconds(time) > end)
        .map(({ name }) => `${name} is outside of ${span.name}`),
    ];
  });
}

const soon = () => new Promise<void>((resolve) => setImmediate(resolve));
const parameters = { type: 'object', properties: {} } as const;
const slow = tool({
  name: 'slow',
  description: 'Takes its time.',
  parameters,
  execute: async () => {
    await soon();
    return 'done';
  },
});
const broken = tool({
  name: 'broken',
  description: 'Fails.',
  parameters,
  execute: async () => {
    await soon();
    throw new Error('broken');
  },
});
const everyHook: Extension = {
  name: 'every',
  beforeTurn: soon,
  prepareIteration: soon,
  beforeLLMCall: soon,
  afterLLMCall: soon,
  beforeToolCall: soon,
  approveToolCall: soon,
  afterToolCall: soon,
  beforeFinish: soon,
  afterIteration: soon,
  afterTurn: soon,
  afterEnd: soon,
};
const twoTools = () => scriptedLLM([{ toolCalls: [{ name: 'slow' }, { name: 'broken' }] }, { text: 'Done.' }]);

function ada(settings: Partial<AgentSettings> & Pick<AgentSettings, 'provider'> & GivenTools): Agent {
  return agent({ id: 'ada', ...settings });
}

describe('the times of spans', () => {
  it('R-36 put each span and event of 20 turns with parallel tools, hooks and a sub-agent within its parent', async () => {
    for (let turn = 0; turn < 20; turn++) {
      const bo = agent({ id: 'bo', description: 'Helps.', provider: twoTools(), tools: [slow, broken] });
      const askBo = { name: 'bo', arguments: { message: 'Help.' } };
      const provider = scriptedLLM([{ toolCalls: [{ name: 'slow' }, askBo, { name: 'broken' }] }, { text: 'Done.' }]);
      const asking = ada({
        provider,
        tools: [slow, broken],
        toolProviders: [agentTools([bo])],
        extensions: [everyHook],
      });
      expect(await asking.run('Hi.')).toMatchObject({ text: 'Done.' });
    }
    expect(recorder.spans().length).toBeGreaterThan(20 * 20);
    expect(misfits()).toEqual([]);
  });

  it.each(['slow', 'everyHook'])('R-36 put them there too if a turn is cancelled or left during %s', async (during) => {
    for (let turn = 0; turn < 10; turn++) {
      const reached = gate();
      const stuck = tool({
        name: 'stuck',
        description: 'Waits.',
        parameters,
        execute: async (_, { signal }) => {
          void reached.pass();
          await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
          return 'left';
        },
      });
      const running = ada({
        provider: scriptedLLM([{ toolCalls: [{ name: 'slow' }, { name: 'stuck' }] }]),
        tools: [slow, stuck],
        extensions: during === 'slow' ? [] : [everyHook],
      }).startTurn('Hi.');
      const subscription = running.subscribe({ error: () => {} });
      await reached.reached;
      if (turn % 2 === 0) await running.cancel();
      else subscription.unsubscribe();
      reached.open();
      await eventually(() => recorder.open().length === 0);
    }
    expect(misfits()).toEqual([]);
  });

  it('R-36 agree after a turn was suspended and resumed', async () => {
    const store = new InMemoryStateStore();
    const asking = ada({
      provider: scriptedLLM([{ toolCalls: [{ name: 'pay' }] }, { text: 'Paid.' }]),
      tools: [tool({ name: 'pay', description: 'Pays.', parameters, needsApproval: true, execute: soon })],
      taskStateStore: store,
      extensions: [everyHook],
    });
    const { status } = await asking.run('Pay.', { taskId: 't' });
    expect(status).toBe('input-required');
    expect(await asking.resume('t', { answers: { '1:0': { approved: true } } }).result()).toMatchObject({
      text: 'Paid.',
    });
    expect(misfits()).toEqual([]);
  });
});

it('R-36 no further hook decides about a call whose turn was cancelled while one was pending', async () => {
  const pending = gate();
  const asked: string[] = [];
  const first: Extension = { name: 'first', beforeToolCall: () => pending.pass() };
  const second: Extension = {
    name: 'second',
    beforeToolCall: () => void asked.push('beforeToolCall'),
    approveToolCall: () => void asked.push('approveToolCall'),
  };
  const running = ada({
    provider: scriptedLLM([{ toolCalls: [{ name: 'slow' }] }]),
    tools: [slow],
    extensions: [first, second],
  }).startTurn('Hi.');
  running.subscribe({ error: () => {} });
  await pending.reached;
  await running.cancel();
  pending.open();
  await soon();
  expect(asked).toEqual([]);
  expect(misfits()).toEqual([]);
});

it('R-36 an approval that times out ends before the iteration that goes on without it', async () => {
  const clock = fakeClock();
  const pending = gate();
  const running = ada({
    clock,
    provider: scriptedLLM([{ toolCalls: [{ name: 'limited' }] }, { text: 'Done.' }]),
    tools: [tool({ name: 'limited', description: 'Has a limit.', parameters, timeoutMs: 50, execute: soon })],
    extensions: [{ name: 'late', approveToolCall: () => pending.pass() as Promise<never> }],
  }).startTurn('Hi.');
  running.subscribe();
  await pending.reached;
  clock.advance(60);
  expect(await running.result()).toMatchObject({ text: 'Done.' });
  pending.open();
  const hook = recorder.inOrderOfEnd().findIndex(({ name }) => name === 'hook[late.approveToolCall]');
  const iteration = recorder.inOrderOfEnd().findIndex(({ name }) => name === 'iteration[1]');
  expect(hook).toBeGreaterThanOrEqual(0);
  expect(hook).toBeLessThan(iteration);
  expect(misfits()).toEqual([]);
});

it('R-36 restored spans fit into each other, also with records of processes whose clocks differ', () => {
  const place = { agentId: 'agent-1' };
  const lost = {
    trace: { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331' },
    lostAt: 2_000,
    spans: [
      { kind: 'execute', spanId: 'b7ad6b7169203331', resumed: false, startedAt: 1_000, ...place },
      {
        kind: 'iteration',
        spanId: 'c7ad6b7169203331',
        parentSpanId: 'b7ad6b7169203331',
        iteration: 1,
        startedAt: 1_200,
        ...place,
      },
      {
        kind: 'llm',
        spanId: 'd7ad6b7169203331',
        parentSpanId: 'c7ad6b7169203331',
        iteration: 1,
        startedAt: 1_100,
        endedAt: 2_500,
        failure: { code: 'INTERNAL', message: 'It failed.' },
        ...place,
      },
    ],
  } as const;
  const options = {
    tracingOf: () => turnTracing({}, ids),
    maxIterations: 1,
    infoOf: () => undefined,
    agentNameOf: () => 'Ada',
    enableTracing: true,
  };
  restoreSpans(lost, options);
  expect(recorder.spans()).toHaveLength(3);
  expect(misfits()).toEqual([]);
  expect(recorder.spans().map(({ startTime, endTime }) => [startTime, endTime])).toEqual([
    [
      [1, 0],
      [2, 500_999_000],
    ],
    [
      [1, 200_000_000],
      [2, 500_999_000],
    ],
    [
      [1, 200_000_000],
      [2, 500_999_000],
    ],
  ]);
});
