import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import {
  AgentLoopError,
  type ForkOptions,
  foldRecords,
  type JournalRecord,
  type ToolContext,
  toPersisted,
} from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { faultyStore, type LLMStep } from 'millrace/testing';
import { answerOf, deadTurn, firstCall, intentOf, question, resultOf, startedRecord } from './dead-turn.ts';
import { plainTools } from './plain-tools.ts';
import { configOf, randomScript } from './random-turns.ts';
import { turnBench } from './turn-bench.ts';
import { watch } from './watch-events.ts';

const bench = turnBench();
const asks: LLMStep = { text: 'Let me count.', toolCalls: [{ name: 'count', arguments: { of: 'apples' }, id: 'a' }] };
const keys: string[] = [];
const toolProviders = [
  plainTools({
    count: ({ idempotencyKey }: ToolContext) => {
      keys.push(idempotencyKey);
      return 'two';
    },
  }),
];

/** Runs task `t` to its end: two rounds of counting, then an answer. */
async function ranTurn(steps: readonly LLMStep[] = [asks, asks, { text: 'Two.' }]) {
  const turn = bench.loop(steps, { toolProviders }).startTurn(question, { taskId: 't', contextId: 'c' });
  turn.result().catch(() => {});
  await turn.settled;
  return bench.store.read('t');
}

function fork(options: Omit<ForkOptions, 'store'>) {
  return AgentLoop.fork('t', { store: bench.store, clock: bench.clock, ...options });
}

function resume(taskId: string, steps: readonly LLMStep[]) {
  const model = bench.model(steps);
  return { model, result: AgentLoop.resume(taskId, bench.config(model, { toolProviders })).result() };
}

/** Records without what a copy has of its own. */
function contents(records: readonly JournalRecord[]) {
  return records.map(({ seq: _, epoch: _epoch, at: _at, ...record }) => record);
}

describe('AgentLoop.fork', () => {
  it('copies the first iterations into a task of its own, runs nothing, and leaves the old one as it is', async () => {
    const old = await ranTurn();
    const { taskId, contextId } = await fork({ at: 1 });
    expect([contextId, taskId]).toEqual(['c', expect.not.stringMatching(/^t$/)]);
    const records = bench.store.read(taskId);
    expect(records[0]).toMatchObject({ schema: 3, agentId: 'tester', messages: question, settings: {} });
    expect(records[0]).toMatchObject({ taskId, contextId: 'c' });
    expect(records[0]).toMatchObject({ forkedFrom: { taskId: 't', at: 1, records: 5 } });
    expect(contents(records.slice(1))).toEqual(contents(old.slice(1, 5)));
    expect(records.map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 5]);
    expect(records.at(-1)?.type).toBe('tool.result');
    expect(bench.store.read('t')).toEqual(old);
    expect(bench.store.list({ state: 'working' })).toMatchObject([{ taskId, held: false }]);
  });

  it('keeps the change of agent that ended the iteration it is cut at', async () => {
    const change = { type: 'agent.changed', from: 'tester', to: 'b', reason: 'hand_off', note: 'Take it.' } as const;
    deadTurn(bench, [firstCall, answerOf(['count']), intentOf(0), resultOf(0, 'two'), change]);
    const { taskId } = await fork({ at: 1 });
    expect(bench.store.read(taskId).at(-1)).toMatchObject({ type: 'agent.changed', to: 'b' });
    expect(foldRecords(bench.store.read(taskId)).agentId).toBe('b');
  });

  it('goes on from there when it is resumed, with idempotency keys of its own', async () => {
    await ranTurn();
    await fork({ at: 1, taskId: 'u' });
    keys.length = 0;
    const { model, result } = resume('u', [asks, { text: 'Three.' }]);
    expect(await result).toMatchObject({ status: 'completed', text: 'Three.', iterations: 3, toolCalls: 2 });
    expect(model.calls[0]?.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool']);
    expect(keys).toEqual(['u:2:0']);
  });

  it('keeps only the start at 0, and all of an answered turn at its last iteration', async () => {
    await ranTurn();
    await fork({ at: 0, taskId: 'u', contextId: 'd' });
    expect(bench.store.read('u')).toMatchObject([{ type: 'turn.started', taskId: 'u', contextId: 'd' }]);
    expect(await resume('u', [{ text: 'Two!' }]).result).toMatchObject({ text: 'Two!', iterations: 1 });
    await fork({ at: 3, taskId: 'v' });
    expect(await resume('v', []).result).toMatchObject({ text: 'Two.', iterations: 3 });
  });

  it('forks a turn that runs elsewhere, and one that has failed', async () => {
    const stuck = bench.loop([asks, { never: true }], { toolProviders }).startTurn(question, { taskId: 't' });
    await watch(stuck).until('internal:llm-call', ({ iteration }) => iteration === 2);
    await fork({ at: 1, taskId: 'u' });
    expect(await resume('u', [{ text: 'Two.' }]).result).toMatchObject({ text: 'Two.' });
    await stuck.cancel();
    bench.store.delete('t');
    await ranTurn([asks, { error: new Error('cable cut') }]);
    await fork({ at: 1, taskId: 'v' });
    expect(await resume('v', [{ text: 'Two.' }]).result).toMatchObject({ text: 'Two.' });
  });

  it('moves the times so that the kept part ends now', async () => {
    await ranTurn();
    bench.clock.advance(60_000);
    await fork({ at: 1, taskId: 'u' });
    expect(bench.store.read('u').at(-1)?.at).toBe(bench.clock.now());
  });

  it('writes long turns in several appends', async () => {
    const long = bench.loop(
      Array.from({ length: 80 }, () => asks),
      { toolProviders, maxIterations: 80, onLimit: 'stop' },
    );
    await long.startTurn(question, { taskId: 'long' }).result();
    await AgentLoop.fork('long', { store: bench.store, at: 79, taskId: 'u' });
    expect(bench.store.load('u')).toMatchObject({ iteration: 79, seq: 1 + 79 * 4 });
  });

  it('keeps of any turn, at any cut, the history that it had there', async () => {
    let count = 0;
    const property = fc.asyncProperty(randomScript, async (script) => {
      const taskId = `r${count++}`;
      const turn = new AgentLoop(configOf(script, bench)).startTurn(question, { taskId, detached: true });
      await turn.settled;
      const records = bench.store.read(taskId);
      const cuts = [0, ...records.flatMap((record) => (record.type === 'llm.done' ? [record.iteration] : []))];
      for (const at of cuts) {
        const forked = await AgentLoop.fork(taskId, { store: bench.store, at });
        const copy = bench.store.read(forked.taskId);
        const prefix = foldRecords(records.slice(0, copy.length));
        const { messages, usage, iteration } = toPersisted(prefix);
        expect(toPersisted(foldRecords(copy))).toMatchObject({ messages, usage, iteration, pendingToolCalls: [] });
        expect(iteration).toBe(at);
      }
    });
    await fc.assert(property, { numRuns: 20 });
  });
});

describe('the edits of a fork', () => {
  it('replace what the turn was started with, and its settings', async () => {
    await ranTurn();
    const messages = [{ role: 'user', content: 'How many pears?' }] as const;
    await fork({ at: 1, taskId: 'u', edits: { messages, settings: { systemPrompt: 'Be brief.' } } });
    const { model, result } = resume('u', [{ text: 'None.' }]);
    await result;
    expect(model.calls[0]?.messages.slice(0, 2)).toEqual([{ role: 'system', content: 'Be brief.' }, ...messages]);
  });

  it('let a turn that came to its limit go on', async () => {
    const loop = bench.loop([asks, asks], { toolProviders });
    const turn = loop.startTurn(question, { taskId: 't', maxIterations: 2 });
    await expect(turn.result()).rejects.toMatchObject({ code: 'MAX_ITERATIONS' });
    await fork({ at: 2, taskId: 'u', edits: { settings: { maxIterations: 3 } } });
    expect(await resume('u', [{ text: 'Two.' }]).result).toMatchObject({ text: 'Two.', iterations: 3 });
  });

  it('append messages, with which an answered turn goes on', async () => {
    await ranTurn();
    const pears = { role: 'user', content: 'And pears?' } as const;
    await fork({ at: 3, taskId: 'u', edits: { append: [pears] } });
    const { model, result } = resume('u', [{ text: 'None.' }]);
    expect(await result).toMatchObject({ text: 'None.', iterations: 4 });
    expect(model.calls[0]?.messages.slice(-2)).toEqual([{ role: 'assistant', content: 'Two.' }, pears]);
  });

  it('change what tools gave, what they were asked and what the model said', async () => {
    await ranTurn();
    const edits = {
      answers: { 1: 'Counting.' },
      arguments: { '1:0': { of: 'pears' } },
      results: { '1:0': { content: 'nine' }, '2:0': { content: 'no pears', success: false } },
    };
    await fork({ at: 2, taskId: 'u', edits });
    const { model, result } = resume('u', [{ text: 'Nine.' }]);
    await result;
    const [, first, nine, , failed] = model.calls[0]?.messages ?? [];
    const call = { id: 'a', type: 'function', function: { name: 'count', arguments: '{"of":"pears"}' } };
    expect(first).toEqual({ role: 'assistant', content: 'Counting.', toolCalls: [call] });
    expect(nine).toEqual({ role: 'tool', toolCallId: 'a', content: 'nine' });
    expect(failed).toEqual({ role: 'tool', toolCallId: '2:0', content: 'no pears', status: 'error' });
    const events = watch(AgentLoop.observe('u', { store: bench.store }));
    expect(events.of('internal:tool-complete')).toMatchObject([
      { arguments: { of: 'pears' }, content: 'nine', success: true },
      { content: 'no pears', success: false, error: { code: 'TOOL_FAILED', message: 'no pears' } },
    ]);
  });

  it('change the arguments of a call that was refused before it ran, with and without its result', async () => {
    const extensions = [{ name: 'policy', approveToolCall: () => ({ decision: 'reject', reason: 'no' }) as const }];
    const loop = bench.loop([asks, asks, { text: 'Two.' }], { toolProviders, extensions });
    await loop.startTurn(question, { taskId: 't' }).result();
    const pears = { of: 'pears' };
    const edits = { arguments: { '1:0': pears, '2:0': pears }, results: { '2:0': { content: 'nine' } } };
    await fork({ at: 2, taskId: 'u', edits });
    const results = bench.store.read('u').filter(({ type }) => type === 'tool.result');
    expect(results).toMatchObject([
      { callId: '1:0', arguments: pears, success: false, error: { code: 'TOOL_REJECTED' } },
      { callId: '2:0', arguments: pears, success: true, content: 'nine' },
    ]);
    await fork({ at: 2, taskId: 'v', edits: { results: edits.results } });
    const kept = bench.store.read('v').filter(({ type }) => type === 'tool.result');
    expect(kept).toMatchObject([{ arguments: { of: 'apples' } }, { arguments: { of: 'apples' }, content: 'nine' }]);
  });

  it('leave the arguments as they are that somebody approved; the result of the call can be edited', async () => {
    const guarded = [plainTools({ count: { needsApproval: true, execute: () => 'two' } })];
    await bench.loop([asks], { toolProviders: guarded }).startTurn(question, { taskId: 't' }).result();
    const config = bench.config(bench.model([{ text: 'Two.' }]), { toolProviders: guarded });
    await AgentLoop.resume('t', config, { answers: { '1:0': { approved: true } } }).result();
    await expect(fork({ at: 1, edits: { arguments: { '1:0': { of: 'pears' } } } })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringMatching(/^edits\.arguments names the call "1:0", .*\(approval\).*; fork at 0 /),
    });
    await fork({ at: 1, taskId: 'u', edits: { results: { '1:0': { content: 'nine' } } } });
    expect(bench.store.read('u').at(-1)).toMatchObject({ type: 'tool.result', content: 'nine' });
  });

  it.each(['client-tool', 'in-doubt'] as const)(
    'leave the arguments as they are that a question of kind %s showed',
    async (kind) => {
      const asked = { id: '1:0', callId: '1:0', kind, toolName: 'count', data: {} };
      const records = [firstCall, answerOf(['count']), intentOf(0), { type: 'turn.asked', question: asked }] as const;
      const answered = { type: 'turn.answered', callId: '1:0', questionId: '1:0', answer: 'two' } as const;
      const result = { type: 'tool.result', callId: '1:0', content: 'two', success: true, durationMs: 1 } as const;
      deadTurn(bench, [...records, answered, result]);
      await expect(fork({ at: 1, edits: { arguments: { '1:0': { of: 'pears' } } } })).rejects.toMatchObject({
        code: 'INVALID_INPUT',
        message: expect.stringContaining(`which somebody was asked about (${kind})`),
      });
    },
  );

  const itself: { self?: object } = {};
  itself.self = itself;
  it.each([
    ['a bigint', { arguments: { '1:0': { cents: 1n } } }, 'edits.arguments.1:0.cents is a bigint'],
    ['a map', { arguments: { '1:0': { of: new Map() } } }, 'edits.arguments.1:0.of is a Map'],
    ['a function', { arguments: { '1:0': { of: [() => 1] } } }, 'edits.arguments.1:0.of[0] is a function'],
    ['a number that is none', { arguments: { '1:0': { cents: Number.NaN } } }, 'edits.arguments.1:0.cents is NaN'],
    ['itself', { arguments: { '1:0': itself } }, 'edits.arguments.1:0.self contains itself'],
    [
      'a date in a message',
      { append: [{ role: 'user', content: [{ type: 'text', text: 'x', at: new Date(0) }] }] },
      'edits.append[0].content[0].at is a Date',
    ],
  ])('are refused where they hold %s, which is not JSON', async (_what, edits, message) => {
    await ranTurn();
    await expect(fork({ at: 1, edits: edits as object })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: `${message}, which a journal cannot hold; pass strings, numbers, arrays or plain objects.`,
    });
  });

  it('may hold members that are undefined', async () => {
    await ranTurn();
    await fork({ at: 1, taskId: 'u', edits: { arguments: { '1:0': { of: 'pears', from: undefined } } } });
    expect(JSON.stringify(bench.store.read('u'))).toContain('{\\"of\\":\\"pears\\"}');
  });

  it('are refused where they are of no form, or of what is not kept', async () => {
    await ranTurn();
    const refused = (edits: object) => expect(fork({ at: 1, edits })).rejects;
    await refused({ history: [] }).toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringMatching(/edits\.history is not an edit.*append/),
    });
    await refused({ messages: [{ role: 'boss' }] }).toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringMatching(/messages\[0\]/),
    });
    await refused({ answers: { 2: 'Two.' } }).toMatchObject({
      message: expect.stringMatching(/iteration "2".*kept: 1\.$/),
    });
    await refused({ results: { '2:0': { content: 'x' } } }).toMatchObject({
      message: expect.stringMatching(/call "2:0".*1:0/),
    });
    await refused({ results: { '1:0': 'x' } }).toMatchObject({ message: expect.stringMatching(/content, success/) });
    await refused({ results: { '1:0': { content: 'x', success: 1 } } }).toMatchObject({
      message: expect.stringMatching(/success/),
    });
    await refused({ results: { '1:0': { content: 'x', sucess: false } } }).toMatchObject({
      code: 'INVALID_INPUT',
      message: 'edits.results["1:0"].sucess is no member of a result; those are: content, success.',
    });
    await refused({ answers: { 1: [{ type: 'smell' }] } }).toMatchObject({
      message: expect.stringMatching(/^edits\.answers\[1\]\[0\] needs a type/),
    });
    await refused({ arguments: { '1:0': 'x' } }).toMatchObject({
      message: expect.stringMatching(/an object, not "x"/),
    });
    await refused({ settings: { maxIterations: 0 } }).toMatchObject({
      message: expect.stringMatching(/maxIterations/),
    });
    await refused({ settings: { metadata: {} } }).toMatchObject({ message: expect.stringMatching(/systemPrompt/) });
    await refused({ settings: { temperature: -1 } }).toMatchObject({ message: expect.stringMatching(/temperature/) });
    await refused({ append: 'x' }).toMatchObject({ code: 'INVALID_INPUT' });
    expect(bench.store.list()).toHaveLength(1);
  });
});

describe('a fork that cannot be made', () => {
  it('names an option that there is not', async () => {
    await ranTurn();
    await expect(fork({ at: 1, ...{ edit: { append: [] } } })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: 'edit is not an option of a fork; the options are: store, at, edits, taskId, contextId, clock.',
    });
  });

  it('is one behind the closing summary of a turn that came to its limit', async () => {
    const loop = bench.loop([asks, { text: 'So far two.' }], { toolProviders, onLimit: 'summarize', maxIterations: 1 });
    expect(await loop.startTurn(question, { taskId: 't' }).result()).toMatchObject({ text: 'So far two.' });
    await expect(fork({ at: 2 })).rejects.toMatchObject({ message: expect.stringMatching(/after: 0, 1\.$/) });
    await fork({ at: 1, taskId: 'u' });
    expect(bench.store.load('u')).toMatchObject({ iteration: 1, status: 'working' });
  });

  it('says what there is to cut, and writes nothing', async () => {
    await ranTurn([asks, { error: new Error('cable cut') }]);
    await expect(fork({ at: 2 })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: 'Task "t" has no end of iteration 2; it can be cut after: 0, 1.',
    });
    for (const at of [-1, 1.5, Number.NaN]) await expect(fork({ at })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    await expect(fork({ at: 1, taskId: 'no blanks' })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    await expect(fork({ at: 1, contextId: '' })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    await expect(AgentLoop.fork('nobody', { store: bench.store, at: 0 })).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await expect(fork({ at: 1, taskId: 't' })).rejects.toMatchObject({ code: 'CONFLICT' });
    expect(bench.store.list()).toHaveLength(1);
  });

  it('is deleted again where the store fails in the middle of it', async () => {
    await ranTurn();
    const error = new AgentLoopError('FULL', 'no room');
    const store = faultyStore(bench.store, [{ method: 'append', call: 1, fault: 'fail-before', error }]);
    await expect(AgentLoop.fork('t', { store, at: 1, taskId: 'u' })).rejects.toMatchObject({ code: 'FULL' });
    expect(bench.store.load('u')).toBeNull();
  });

  it('is not run where a process died in the middle of it', async () => {
    const forkedFrom = { taskId: 'old', at: 1, records: 5 };
    bench.store.create('t', startedRecord(bench.clock, { forkedFrom }));
    const { result } = resume('t', []);
    await expect(result).rejects.toMatchObject({
      code: 'CONFLICT',
      message: expect.stringMatching(/not written to its end/),
    });
    expect(bench.store.read('t')).toHaveLength(1);
  });
});
