import { describe, expect, it } from '@jest/globals';
import type { AgentEvent, LLMChunk, LLMProvider } from 'millrace';
import { AgentLoop, eventKinds } from 'millrace/internals';
import { gate } from 'millrace/testing';
import { EMPTY, Observable } from 'rxjs';
import { question } from '../core/dead-turn.ts';
import { turnBench } from '../core/turn-bench.ts';
import { outlineOf, textOfParts, textsOf, watch } from '../core/watch-events.ts';
import { localTools } from './local-tools.ts';

const bench = turnBench();
const toolProviders = () => [localTools({ look: () => 'a tree' })];
const look = { toolCalls: [{ name: 'look' }] };

/** A provider whose only stream emits these chunks, then ends or fails. */
function streaming(chunks: readonly LLMChunk[], error?: Error): LLMProvider {
  return {
    call: () => Promise.reject(new Error('only streams')),
    stream: () =>
      new Observable((subscriber) => {
        for (const chunk of chunks) subscriber.next(chunk);
        if (error) subscriber.error(error);
        else subscriber.complete();
      }),
  };
}

const text = (piece: string): LLMChunk => ({ type: 'text', text: piece });
const done = (content: string): LLMChunk => ({
  type: 'done',
  response: { message: { role: 'assistant', content } },
});

async function eventsOf(loop: AgentLoop) {
  const watcher = watch(loop.startTurn(question));
  await watcher.ended;
  return watcher;
}

it('S0-42 tells that a turn runs, and how it ended or why it waits, each with task, time, and code or reason', async () => {
  const loop = (...steps: Parameters<typeof bench.loop>[0]) => bench.loop(steps, { toolProviders: toolProviders() });
  const completed = await eventsOf(loop({ text: 'Two.' }));
  const failed = await eventsOf(loop({ error: new Error('no route') }));
  const stopped = loop({ never: true }).startTurn(question);
  const canceled = watch(stopped);
  await canceled.until('internal:llm-call');
  await stopped.cancel('enough');
  const waiting = loop(look).startTurn(question, { taskId: 't' });
  const paused = watch(waiting);
  await paused.until('internal:llm-call');
  waiting.pause('lunch');
  await paused.ended;
  const again = AgentLoop.resume(
    't',
    bench.config(bench.model([{ text: 'Two.' }]), { toolProviders: toolProviders() }),
  );
  const resumed = watch(again);
  await resumed.ended;

  const told = { taskId: expect.any(String), timestamp: '2030-01-01T00:00:00.000Z' };
  for (const { events } of [completed, failed, canceled, paused, resumed]) {
    expect(events[1]).toMatchObject({ ...told, kind: 'status-update', status: { state: 'working' } });
  }
  const endings = [completed, failed, canceled, paused, resumed].map(({ events }) => events.at(-1));
  const state = (name: string) => ({ ...told, kind: 'status-update', status: { state: name }, final: true });
  expect(endings).toMatchObject([
    { ...state('completed'), reason: 'stop' },
    { ...state('failed'), reason: 'provider_failed', error: { code: 'PROVIDER_FAILED' } },
    { ...state('canceled'), reason: 'enough' },
    { ...state('input-required'), reason: 'lunch' },
    { ...state('completed'), reason: 'stop' },
  ]);
  expect(paused.of('internal:paused')).toMatchObject([{ ...told, taskId: 't', reason: 'lunch' }]);
  expect(resumed.of('internal:resumed')).toMatchObject([{ ...told, taskId: 't' }]);
});

describe('iterations', () => {
  it('S0-43 begin and complete in pairs, whether the turn ends with an answer, at the limit or for its finish reason', async () => {
    const cut = { text: 'It is', finishReason: 'length' as const };
    for (const steps of [
      [look, look, { text: 'Two.' }],
      [look, look, look],
      [look, look, cut],
    ]) {
      const loop = bench.loop(steps, { toolProviders: toolProviders(), maxIterations: 3 });
      const { events } = await eventsOf(loop);
      expect(outlineOf(events).filter((line) => line.startsWith('iteration'))).toEqual(
        [1, 2, 3].flatMap((number) => [`iteration-start ${number}`, `iteration-complete ${number}`]),
      );
    }
  });

  it('S0-54 complete as the last event of each, numbered from 1, also the one that answers', async () => {
    const { events } = await eventsOf(bench.loop([look, { text: 'Two.' }], { toolProviders: toolProviders() }));
    const lastOf = new Map<number, AgentEvent['kind']>();
    for (const event of events)
      if ('iteration' in event && event.iteration > 0) lastOf.set(event.iteration, event.kind);
    expect([...lastOf]).toEqual([
      [1, 'internal:iteration-complete'],
      [2, 'internal:iteration-complete'],
    ]);
    expect(outlineOf(events).filter((line) => line.startsWith('iteration-complete'))).toHaveLength(2);
  });
});

describe('model calls', () => {
  it('S0-44 give one llm-call and one llm-response each', async () => {
    const { events } = await eventsOf(bench.loop([look, look, { text: 'Two.' }], { toolProviders: toolProviders() }));
    expect(outlineOf(events).filter((line) => /^llm/.test(line))).toEqual([
      'llm-call 1.1',
      'llm-response 1 tool_calls',
      'llm-call 2.1',
      'llm-response 2 tool_calls',
      'llm-call 3.1',
      'llm-response 3 stop',
    ]);
  });

  it('S0-44 show an attempt that is void after text, and end the turn where the last one fails', async () => {
    const chunks: readonly LLMChunk[] = [
      text('It i'),
      { type: 'attempt', state: 'void', reason: 'PROVIDER_STREAM_CLOSED' },
      { type: 'attempt', state: 'begin' },
      text('Green.'),
    ];
    const fine = await eventsOf(new AgentLoop(bench.config(streaming([...chunks, done('Green.')]))));
    expect(fine.of('internal:llm-attempt-discarded')).toMatchObject([
      { iteration: 1, attempt: 1, reason: 'PROVIDER_STREAM_CLOSED' },
    ]);
    expect(outlineOf(fine.events).filter((line) => /^(answer|llm-attempt)/.test(line))).toEqual([
      'answer-1 is: "It i"',
      'llm-attempt-discarded 1.1',
      'answer-1 is: "Green."',
      'answer-1 appends, last: ""',
    ]);
    expect([fine.of('internal:llm-call').length, fine.of('internal:llm-response').length]).toEqual([1, 1]);

    const lost = await eventsOf(new AgentLoop(bench.config(streaming(chunks, new Error('no route')))));
    expect(lost.of('internal:llm-attempt-discarded')).toHaveLength(1);
    expect(lost.of('internal:llm-response')).toEqual([]);
    expect(lost.events.at(-1)).toMatchObject({ status: { state: 'failed' }, error: { code: 'PROVIDER_FAILED' } });
  });

  it('S0-45 tell the calls of an answer, and none where there are none', async () => {
    const calls = {
      toolCalls: [
        { name: 'look', id: 'a' },
        { name: 'look', arguments: { at: 'pond' } },
      ],
    };
    const { of } = await eventsOf(bench.loop([calls, { text: 'Two.' }], { toolProviders: toolProviders() }));
    const [asking, answering] = of('internal:llm-response');
    const call = (id: string, text: string) => ({ id, type: 'function', function: { name: 'look', arguments: text } });
    expect(asking?.toolCalls).toEqual([
      { callId: '1:0', call: call('a', '{}') },
      { callId: '1:1', call: call('call_1_1', '{"at":"pond"}') },
    ]);
    expect(answering).not.toHaveProperty('toolCalls');
  });

  it('S0-51 stream their text: the deltas of each answer make its text, those of the last one the result’s', async () => {
    const steps = [{ text: ['I ', 'look.'], ...look }, { text: ['It ', 'is ', 'green.'] }];
    const turn = bench.loop(steps, { toolProviders: toolProviders() }).startTurn(question);
    const watcher = watch(turn);
    const result = await turn.result();
    expect(textsOf(watcher.events)).toEqual({ 'answer-1': 'I look.', 'answer-2': 'It is green.' });
    expect(watcher.of('internal:llm-response').map((event) => event.text)).toEqual(['I look.', 'It is green.']);
    expect(result.text).toBe('It is green.');
    const pieces = watcher.of('artifact-update').filter(({ lastChunk }) => !lastChunk);
    expect(pieces.map(textOfParts)).toEqual(['I ', 'look.', 'It ', 'is ', 'green.']);
  });

  it('S0-52 S3-34 stream the arguments of each call, by its index and with its name, before it starts', async () => {
    const toolCalls = [
      { name: 'look', arguments: ['{"a', 't":"po', 'nd"}'] },
      { name: 'look', arguments: ['{', '}'] },
    ];
    const watcher = await eventsOf(bench.loop([{ toolCalls }, { text: 'Two.' }], { toolProviders: toolProviders() }));
    const deltas = watcher.of('internal:tool-call-delta');
    const joined = (index: number) =>
      deltas
        .filter((delta) => delta.index === index)
        .map((delta) => delta.arguments)
        .join('');
    expect([joined(0), joined(1)]).toEqual(['{"at":"pond"}', '{}']);
    expect(deltas.map(({ index, toolName }) => [index, toolName])).toEqual([
      [0, 'look'],
      [0, undefined],
      [0, undefined],
      [1, 'look'],
      [1, undefined],
    ]);
    const kinds = watcher.events.map(({ kind }) => kind);
    expect(kinds.lastIndexOf('internal:tool-call-delta')).toBeLessThan(kinds.indexOf('internal:tool-start'));
  });
});

it('S0-46 S0-53 S2-25 S4-33 ends each call that starts exactly once: a return, a throw, a timeout', async () => {
  const silent = gate();
  const model = bench.model([
    { toolCalls: [{ name: 'returns' }, { name: 'throws' }, { name: 'silent' }] },
    { text: 'Two.' },
  ]);
  const tools = localTools({
    returns: () => ({ seen: 0 }),
    throws: async () => {
      throw new TypeError('no light');
    },
    silent: { timeoutMs: 700, execute: () => silent.pass() },
  });
  const watcher = watch(new AgentLoop(bench.config(model, { toolProviders: [tools] })).startTurn(question));
  await silent.reached;
  await watcher.until('internal:tool-complete', ({ callId }) => callId === '1:1');
  bench.clock.advance(700);
  await watcher.ended;
  silent.open();
  const lines = outlineOf(watcher.events).filter((line) => /^tool-(start|complete)/.test(line));
  expect(lines).toEqual([
    'tool-start 1:0 returns',
    'tool-start 1:1 throws',
    'tool-start 1:2 silent',
    'tool-complete 1:0 ok',
    'tool-complete 1:1 TOOL_FAILED',
    'tool-complete 1:2 TOOL_TIMEOUT',
  ]);
  const ends = watcher.of('internal:tool-complete');
  expect(ends.map(({ success }) => success)).toEqual([true, false, false]);
  const results = model.calls[1]?.messages.filter(({ role }) => role === 'tool');
  expect(ends.map(({ content }) => content)).toEqual(results?.map(({ content }) => content));
});

it('S0-47 carries task, context and time in every kind of event', async () => {
  // Those of child turns are wrapped.
  const { 'internal:sub-agent': _, ...kinds } = { ...eventKinds, 'internal:x.shows': true };
  const tools = localTools({
    look: (_args, { progress }) => {
      progress('half');
      turn.pause();
      return 'a tree';
    },
  });
  const broken = () => {
    throw new Error('broken');
  };
  const shows = { name: 'shows', beforeTurn: () => ({ events: [{}] }) };
  const fails = { name: 'fails', onError: 'continue' as const, beforeTurn: broken };
  const options = { toolProviders: [tools], extensions: [shows, fails] };
  const turn = bench
    .loop([{ reasoning: 'Look.', ...look }], options)
    .startTurn(question, { taskId: 't', contextId: 'c' });
  const first = watch(turn);
  await first.ended;
  const voided = streaming([text('I'), { type: 'attempt', state: 'void' }, text('Green.'), done('Green.')]);
  const noting: LLMProvider = {
    ...voided,
    stream(params) {
      params.note?.({ kind: 'warning', message: 'The text may be cut.' });
      params.note?.({ kind: 'request-fitted', changes: [{ kind: 'name', at: 'messages[0]', what: 'renamed' }] });
      return voided.stream?.(params) ?? EMPTY;
    },
  };
  bench.clock.advance(90_061_001);
  const second = watch(AgentLoop.resume('t', bench.config(noting, options)));
  await second.ended;
  const events = [...first.events, ...second.events];
  expect(new Set(events.map(({ kind }) => kind))).toEqual(new Set(Object.keys(kinds)));
  const times = ['2030-01-01T00:00:00.000Z', '2030-01-02T01:01:01.001Z'];
  for (const event of events) {
    expect(event).toMatchObject({ taskId: 't', contextId: 'c', timestamp: expect.any(String) });
    expect(times).toContain(event.timestamp);
  }
  expect(second.events.at(-1)?.timestamp).toBe(times[1]);
});

it('S0-50 S4-30 tells of the task first and that it works second, once each, before the provider is called', async () => {
  const model = bench.model([{ text: ['It is ', 'green.'] }]);
  const turn = new AgentLoop(bench.config(model)).startTurn(question, { taskId: 't', contextId: 'c' });
  const calls: number[] = [];
  const watcher = watch(turn, () => calls.push(model.calls.length));
  await watcher.ended;
  const told = { taskId: 't', contextId: 'c', timestamp: '2030-01-01T00:00:00.000Z' };
  expect(watcher.events.slice(0, 2)).toMatchObject([
    { ...told, kind: 'task' },
    { ...told, kind: 'status-update', status: { state: 'working' }, final: false },
  ]);
  expect(calls.slice(0, 2)).toEqual([0, 0]);
  expect(watcher.of('task')).toHaveLength(1);
  expect(watcher.of('status-update').filter(({ status }) => status.state === 'working')).toHaveLength(1);
  expect(watcher.of('artifact-update').length).toBeGreaterThan(0);
});
