import { describe, expect, it } from '@jest/globals';
import { type AgentLoopConfig, foldRecords, InMemoryStateStore, type Message, TurnError } from 'millrace';
import { AgentLoop, attribute } from 'millrace/internals';
import type { LLMStep, ScriptedLLMOptions } from 'millrace/testing';
import { question } from '../core/dead-turn.ts';
import { turnBench } from '../core/turn-bench.ts';
import { ofRecords, textsOf, watch } from '../core/watch-events.ts';
import { localTools } from './local-tools.ts';
import { providerWays } from './provider-ways.ts';

const bench = turnBench();

const usage = { promptTokens: 10, completionTokens: 2, totalTokens: 12 };
const look: LLMStep = { toolCalls: [{ name: 'look', arguments: { at: 'tree' } }], usage };
const answer: LLMStep = { text: ['It is ', 'green.'], usage };

function tools() {
  return [
    localTools({
      look: ({ at }) => `a ${String(at)}`,
      break: () => {
        throw new RangeError('x must be positive');
      },
    }),
  ];
}

/** A turn on a store of its own: all that can be told of it, but for the ids of its spans. */
async function run(steps: readonly LLMStep[], way: ScriptedLLMOptions, options: Partial<AgentLoopConfig> = {}) {
  const model = bench.model(steps, way);
  const store = new InMemoryStateStore({ clock: bench.leases });
  const config = bench.config(model, { toolProviders: tools(), taskStateStore: store, ...options });
  const turn = new AgentLoop(config).startTurn(question, { taskId: 't', contextId: 'c' });
  const watcher = watch(turn);
  await watcher.ended;
  const outcome = await turn.result().catch((error: unknown) => {
    if (!(error instanceof TurnError)) throw error;
    const { code, message, reason, result } = error;
    return { code, message, reason, result };
  });
  const records = store.read('t');
  return {
    outcome,
    records: records.map((record) => ({ ...record, trace: undefined })),
    iterations: records.map((_record, index) => foldRecords(records.slice(0, index + 1)).iteration),
    events: ofRecords(watcher.events),
    texts: textsOf(watcher.events),
    requests: model.calls.map(({ messages, tools: offered }) => ({ messages, offered })),
  };
}

function alikeInAllWays(steps: readonly LLMStep[], options?: Partial<AgentLoopConfig>) {
  return Promise.all(providerWays.map(([, way]) => run(steps, way, options)));
}

describe('a turn of a provider that streams, of one that only calls, and of one that answers at once', () => {
  const answers: readonly (readonly [string, readonly LLMStep[]])[] = [
    ['a text', [answer]],
    ['a tool, then a text', [look, answer]],
    ['a text beside two calls', [{ text: 'I look.', toolCalls: [{ name: 'look' }, { name: 'look' }] }, answer]],
    ['no usage and a reason', [{ text: 'Green.', finishReason: 'stop' }]],
  ];
  it.each(answers)('S0-64 has the same messages, usage, events of records and texts for %s', async (_, steps) => {
    const [first, ...others] = await alikeInAllWays(steps);
    expect(first?.outcome).toMatchObject({ status: 'completed' });
    expect(first?.events.at(-1)).toMatchObject({ kind: 'status-update', final: true, status: { state: 'completed' } });
    for (const other of others) expect(other).toEqual(first);
  });

  const failures: readonly (readonly [string, string, readonly LLMStep[], Partial<AgentLoopConfig>])[] = [
    ['a model that fails at once', 'PROVIDER_FAILED', [{ error: new Error('no route') }], {}],
    ['a model that fails after a batch', 'PROVIDER_FAILED', [look, { error: new Error('no route') }], {}],
    ['an answer that is cut short', 'LENGTH', [{ text: 'It is', finishReason: 'length' }], {}],
    ['an answer that was filtered', 'CONTENT_FILTER', [{ text: 'It is', finishReason: 'content_filter' }], {}],
    ['an empty answer', 'EMPTY_RESPONSE', [{ finishReason: 'tool_calls' }], {}],
    ['the limit', 'MAX_ITERATIONS', [look, look], { maxIterations: 2 }],
    ['a tool that throws', 'TOOL_FAILED', [{ toolCalls: [{ name: 'break' }] }], { toolFailureMode: 'fail' }],
    ['an unknown tool', 'TOOL_NOT_FOUND', [{ toolCalls: [{ name: 'lok' }] }], { toolFailureMode: 'fail' }],
    [
      'arguments that are not JSON',
      'TOOL_ARGUMENTS',
      [{ toolCalls: [{ name: 'look', arguments: '{"at"' }] }],
      { toolFailureMode: 'fail' },
    ],
  ];
  it.each(failures)('S0-25 fails alike for %s', async (_, code, steps, options) => {
    const [first, ...others] = await alikeInAllWays(steps, options);
    expect(first?.outcome).toMatchObject({ code });
    expect(first?.events.at(-1)).toMatchObject({ status: { state: 'failed' }, final: true, error: { code } });
    for (const other of others) expect(other).toEqual(first);
  });

  const told: readonly (readonly [string, LLMStep, string])[] = [
    ['throws', { toolCalls: [{ name: 'break' }] }, 'Tool error: RangeError: x must be positive'],
    ['is not known', { toolCalls: [{ name: 'lok' }] }, 'tool "lok" is not known; known tools: look, break'],
    ['gets no JSON', { toolCalls: [{ name: 'look', arguments: '{"at"' }] }, 'are not JSON'],
  ];
  it.each(told)('S0-25 tells the model alike of a tool that %s, and goes on', async (_, step, words) => {
    const [first, ...others] = await alikeInAllWays([step, answer]);
    expect(first?.requests[1]?.messages.at(-1)).toMatchObject({
      role: 'tool',
      status: 'error',
      content: expect.stringContaining(words),
    });
    expect(first?.outcome).toMatchObject({ status: 'completed', text: 'It is green.' });
    for (const other of others) expect(other).toEqual(first);
  });
});

describe.each(providerWays)('by %s', (_name, way) => {
  it('S0-11 sends the system prompt with every model call, once, as its first message', async () => {
    const { requests } = await run([look, look, answer], way, { systemPrompt: 'You are a gardener.' });
    expect(requests).toHaveLength(3);
    for (const { messages } of requests) {
      expect(messages[0]).toEqual({ role: 'system', content: 'You are a gardener.' });
      expect(messages.filter(({ role }) => role === 'system')).toHaveLength(1);
    }
  });

  it('S0-17 keeps the whole history from one iteration to the next', async () => {
    const second: LLMStep = { toolCalls: [{ name: 'look', arguments: { at: 'pond' } }] };
    const { requests } = await run([look, second, answer], way);
    const batch = (id: string, at: string): readonly Message[] => [
      {
        role: 'assistant',
        content: null,
        toolCalls: [{ id, type: 'function', function: { name: 'look', arguments: `{"at":"${at}"}` } }],
      },
      { role: 'tool', toolCallId: id, content: `a ${at}` },
    ];
    expect(requests[2]?.messages).toEqual([...question, ...batch('call_1_0', 'tree'), ...batch('call_2_0', 'pond')]);
  });

  it('S0-62 counts the first iteration as 1 in events, state, records and spans', async () => {
    const { events, records, iterations } = await run([look, answer], way);
    const numbersOf = (things: readonly object[]) =>
      new Set(things.flatMap((thing) => ('iteration' in thing ? [thing.iteration] : [])));
    const inIterations = events.filter(({ kind }) => kind !== 'internal:checkpoint');
    expect([...numbersOf(inIterations)]).toEqual([1, 2]);
    expect([...numbersOf(records)]).toEqual([1, 2]);
    expect([...new Set(iterations)]).toEqual([0, 1, 2]);
    const spans = bench.spans.spans().filter(({ name }) => name.startsWith('iteration'));
    expect(spans.map(({ name, attributes }) => [name, attributes[attribute.iteration]])).toEqual([
      ['iteration[1]', 1],
      ['iteration[2]', 2],
    ]);
  });
});
