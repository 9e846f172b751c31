import { describe, expect, it } from '@jest/globals';
import {
  AgentLoopError,
  compactHistory,
  type Extension,
  fallback,
  foldRecords,
  type LLMProvider,
  type Message,
  replay,
  retry,
  textOf,
} from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { gate, type ScriptedLLM, type ScriptedLLMStep } from 'millrace/testing';
import type { CompactionOptions, FailureChange } from 'millrace/types';
import { question } from '../core/dead-turn.ts';
import { plainTools } from '../core/plain-tools.ts';
import { type BenchOptions, turnBench } from '../core/turn-bench.ts';
import { watch } from '../core/watch-events.ts';
import { testLimitMs } from '../eventually.ts';

const bench = turnBench();
const output = 'o'.repeat(1_000);
const usage = { promptTokens: 100, completionTokens: 10, totalTokens: 110 };
const done: ScriptedLLMStep = { text: 'Done.', usage };
const sum: ScriptedLLMStep = { text: 'They talked.', usage };

const overflow = (details?: object) =>
  new AgentLoopError('CONTEXT_OVERFLOW', 'The server refuses the prompt: it is too long.', {
    status: 400,
    ...(details && { details: { ...details } }),
  });
const refused = (details?: object): ScriptedLLMStep => ({ error: overflow(details) });

/** Eleven messages of 250 tokens. */
const long: readonly Message[] = [
  ...Array.from({ length: 5 }, (): readonly Message[] => [
    { role: 'user', content: output },
    { role: 'assistant', content: output },
  ]).flat(),
  { role: 'user', content: 'And now?' },
];

interface Playing {
  readonly summaries?: readonly ScriptedLLMStep[];
  readonly compaction?: CompactionOptions | null;
  readonly messages?: readonly Message[];
  readonly config?: BenchOptions;
  readonly provider?: (model: ScriptedLLM) => LLMProvider;
}

async function play(steps: readonly ScriptedLLMStep[], playing: Playing = {}) {
  const { summaries = [], compaction = {}, messages = long, config, provider = (model) => model } = playing;
  const model = bench.model(steps);
  const summarizer = bench.model(summaries, { info: { model: 'gpt-4o' } });
  const options = { contextWindow: 100_000, keepLast: 2, provider: summarizer };
  const { extensions = [] } = config ?? {};
  const managed = compaction === null ? [] : [compactHistory({ ...options, ...compaction })];
  const loop = new AgentLoop(bench.config(provider(model), { ...config, extensions: [...managed, ...extensions] }));
  const turn = loop.startTurn(messages, { taskId: 't' });
  const watcher = watch(turn);
  const ended = await turn.result().catch((error: AgentLoopError) => error);
  await watcher.ended;
  return { model, summarizer, watcher, ended };
}

const texts = ({ calls }: ScriptedLLM, call: number) =>
  (calls[call]?.messages ?? []).map(({ content }) => textOf(content));
const summary = 'Summary of the conversation so far; the messages themselves are left out here:\n\nThey talked.';
const own = () => bench.store.read('t').filter(({ type }) => type === 'x.compaction');

describe('a prompt that the model refuses as too long', () => {
  it('M-16 is compacted and sent once more, in words of the journal and of the events', async () => {
    const { model, watcher, ended } = await play([refused({ limit: 2_000, used: 2_700 }), done], { summaries: [sum] });
    expect(ended).toMatchObject({ status: 'completed', text: 'Done.', usage: { totalTokens: 220 } });
    expect(texts(model, 0)).toHaveLength(11);
    expect(texts(model, 1)).toEqual([summary, output, 'And now?']);
    expect(watcher.of('internal:x.compaction')).toMatchObject([{ payload: { replaced: 9, summary: 'They talked.' } }]);
    expect(own()).toMatchObject([
      { hook: 'onLLMError', effects: { repeat: true }, data: { upTo: 9, summary: 'They talked.', window: 2_000 } },
    ]);
    expect(bench.spans.spans().map(({ name }) => name)).toContain('hook[compaction.onLLMError]');
  });

  it('M-16 is compacted where the server states no size', async () => {
    const { model, ended } = await play([refused(), done], { summaries: [sum] });
    expect(ended).toMatchObject({ status: 'completed' });
    expect(texts(model, 1)[0]).toBe(summary);
  });

  it('M-16 fails with the sizes and the cure where the shorter one is refused too', async () => {
    const { model, ended } = await play([refused({ limit: 2_000 }), refused({ limit: 2_000, used: 2_100 })], {
      summaries: [sum],
    });
    expect(model.calls).toHaveLength(2);
    expect(ended).toMatchObject({
      code: 'CONTEXT_OVERFLOW',
      retryable: false,
      status: 400,
      details: { limit: 2_000, used: 2_100, estimated: expect.any(Number) },
      message: expect.stringMatching(
        /the server counted 2100, its limit is 2000; it cannot be compacted further: choose a model with a larger context window/,
      ),
    });
  });

  it('M-16 fails with the sizes and the cure without context management', async () => {
    const { model, ended } = await play([refused({ limit: 2_000 })], { compaction: null });
    expect(model.calls).toHaveLength(1);
    expect(ended).toMatchObject({
      code: 'CONTEXT_OVERFLOW',
      details: { limit: 2_000, estimated: 2_546, estimatedTools: 0 },
      message:
        'The server refuses the prompt: it is too long; the request has about 2546 tokens (estimate), its limit is 2000; turn on contextManagement, choose a model with a larger context window, or shorten the messages and the tools.',
    });
  });

  it('leaves the limit that the server stated valid for the rest of the turn, and for the next one', async () => {
    const look: ScriptedLLMStep = { toolCalls: [{ name: 'look' }] };
    const config = { toolProviders: [plainTools({ look: () => output.repeat(4) })] };
    const model = bench.model([refused({ limit: 2_000 }), look, look, done, done]);
    const summarizer = bench.model([sum, sum, sum], { info: { model: 'gpt-4o' } });
    const compaction = compactHistory({ contextWindow: 100_000, keepLast: 2, provider: summarizer });
    const loop = new AgentLoop(bench.config(model, { ...config, extensions: [compaction] }));
    await loop.startTurn(long, { taskId: 't' }).result();
    expect(own()).toHaveLength(2);
    await loop.startTurn(long, { taskId: 'next' }).result();
    // The next turn compacts before its first call, and none is refused.
    expect(texts(model, 4)[0]).toBe(summary);
  });

  it('fails where the question alone is larger than the window, and cuts nothing of it', async () => {
    const { model, summarizer, ended } = await play([refused({ limit: 1_000 })], {
      messages: [{ role: 'user', content: `first ${'m'.repeat(40_000)} last` }],
    });
    expect(ended).toMatchObject({ code: 'CONTEXT_OVERFLOW' });
    expect(summarizer.calls).toEqual([]);
    expect(model.calls).toHaveLength(1);
  });

  it('truncates a tool result that is larger than the window, and keeps its call', async () => {
    const { model, ended } = await play([{ toolCalls: [{ name: 'look' }] }, refused({ limit: 1_000 }), done], {
      messages: question,
      config: { toolProviders: [plainTools({ look: () => output.repeat(40) })] },
    });
    expect(ended).toMatchObject({ status: 'completed' });
    expect(model.calls[2]?.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool']);
    expect(texts(model, 2)[2]?.length).toBeLessThan(3_200);
  });

  it('is not sent again where the tools and the system prompt alone are larger than the window', async () => {
    const { model, ended } = await play([refused({ limit: 1_000 })], { config: { systemPrompt: output.repeat(5) } });
    expect(model.calls).toHaveLength(1);
    expect(ended).toMatchObject({ code: 'CONTEXT_OVERFLOW' });
  });

  it('divides the request for the summary where that is too long itself', async () => {
    const { summarizer, ended } = await play([refused({ limit: 2_000 }), done], {
      summaries: [refused(), sum, sum, sum],
    });
    expect(ended).toMatchObject({ status: 'completed' });
    const asked = summarizer.calls.map(({ messages }) => textOf(messages[1]?.content));
    const messagesIn = (text = '') => text.split(output).length - 1;
    expect(asked.map(messagesIn)).toEqual([9, 4, 4, 1]);
  });

  it('fails with the code where the summary fails, and counts and shows that', async () => {
    const { watcher, ended } = await play([refused({ limit: 2_000 })], { summaries: [{ text: '', usage }] });
    expect(ended).toMatchObject({ code: 'CONTEXT_OVERFLOW' });
    expect(watcher.of('internal:x.compaction.failed')).toMatchObject([
      { payload: { message: expect.stringContaining('without text') } },
    ]);
    expect(foldRecords(bench.store.read('t')).usage).toMatchObject({ totalTokens: 110 });
  });

  it('H-40 counts nothing for what was streamed before the refusal', async () => {
    const cut: ScriptedLLMStep = { text: 'o'.repeat(400), error: overflow({ limit: 2_000 }) };
    const { ended } = await play([cut, done], { summaries: [sum] });
    expect(ended).toMatchObject({
      status: 'completed',
      text: 'Done.',
      usage: { totalTokens: 220 },
    });
  });

  it('is compacted for the closing summary, too', async () => {
    const steps = [{ toolCalls: [{ name: 'look' }] }, refused({ limit: 2_000 }), { text: 'All in all.' }];
    const { ended } = await play(steps, {
      summaries: [sum],
      config: { toolProviders: [plainTools({ look: () => 'x' })], maxIterations: 1, onLimit: 'summarize' },
    });
    expect(ended).toMatchObject({ status: 'completed', text: 'All in all.' });
  });

  it('is never sent again as it is, by retry or a retry plan', async () => {
    const retried = await play([refused()], { compaction: null, provider: (model) => retry()(model) });
    expect(retried.model.calls).toHaveLength(1);
    bench.store.delete('t');
    const planned = await play([refused()], { compaction: null, config: { retryPlan: { attempts: 3 } } });
    expect(planned.model.calls).toHaveLength(1);
    expect(planned.ended).toMatchObject({ code: 'CONTEXT_OVERFLOW' });
  });

  it('goes to a fallback first: its window may be larger', async () => {
    const larger = bench.model([done]);
    const { summarizer, ended } = await play([refused()], { provider: (model) => fallback({ to: larger })(model) });
    expect(ended).toMatchObject({ status: 'completed' });
    expect(texts(larger, 0)).toHaveLength(11);
    expect(summarizer.calls).toEqual([]);
  });

  it.each([
    ['between the refusal and the compaction', 0, [refused({ limit: 2_000 }), done], [sum]],
    ['between the compaction and the repetition', 1, [done], []],
    ['in the repetition', 2, [done], []],
  ])('resumes right after a crash %s', async (_when, more, steps, summaries) => {
    const whole = await play([refused({ limit: 2_000 }), done], { summaries: [sum] });
    const records = bench.store.read('t');
    const at = records.findIndex(({ type }) => type === 'x.compaction');
    expect(at).toBeGreaterThan(0);
    const [first, ...rest] = records.slice(0, at + more);
    if (first?.type !== 'turn.started') throw new Error('no first record');
    bench.store.delete('t');
    bench.store.create('t', first);
    const lease = bench.store.acquire('t', 'the dead', 1_000);
    const dead = rest.map((record) => ({ ...record, epoch: lease.epoch }));
    bench.store.append(lease, dead, { status: 'working', barrier: true });
    bench.leases.advance(1_000);
    const model = bench.model(steps);
    const summarizer = bench.model(summaries, { info: { model: 'gpt-4o' } });
    const options = { contextWindow: 100_000, keepLast: 2, provider: summarizer };
    const config = bench.config(model, { extensions: [compactHistory(options)] });
    expect(await AgentLoop.resume('t', config).result()).toMatchObject({ status: 'completed', text: 'Done.' });
    expect(model.calls.at(-1)?.messages).toEqual(whole.model.calls[1]?.messages);
    expect(own()).toHaveLength(1);
  });

  it.each<[what: string, steps: readonly ScriptedLLMStep[], summaries: readonly ScriptedLLMStep[]]>([
    ['completed', [refused({ limit: 2_000 }), done], [sum]],
    ['was refused twice', [refused({ limit: 2_000 }), refused()], [sum]],
    ['failed in its compaction', [refused({ limit: 2_000 })], [{ text: '', usage }]],
  ])('replays a turn that %s', async (_what, steps, summaries) => {
    await play(steps, { summaries });
    expect((await replay(bench.store.read('t'), {}, { patienceMs: testLimitMs }).result()).deviations).toEqual([]);
  });
});

describe('onLLMError', () => {
  const broken = new AgentLoopError('PROVIDER_SERVER', 'The server failed.');
  const answering = (name: string, change: FailureChange | undefined, seen: string[] = []): Extension => ({
    name,
    onLLMError: ({ error, params }, { iteration }) => {
      seen.push(`${name} ${error.code} ${params.messages.length} ${iteration}`);
      return change;
    },
  });
  const failing = (extensions: readonly Extension[], steps: readonly ScriptedLLMStep[]) =>
    play(steps, { compaction: null, messages: question, config: { extensions } });

  it('repeats a call once in an iteration, with the settings that it changes', async () => {
    const seen: string[] = [];
    const change = { repeat: true, settings: { model: 'other' }, usage, data: { n: 1 } };
    const extensions = [answering('a', undefined, seen), answering('b', change, seen), answering('c', change, seen)];
    const { model, ended } = await failing(extensions, [{ error: broken }, done]);
    expect(seen).toEqual(['a PROVIDER_SERVER 1 1', 'b PROVIDER_SERVER 1 1']);
    expect(model.calls.map((call) => call.model)).toEqual([undefined, 'other']);
    expect(ended).toMatchObject({ status: 'completed', usage: { totalTokens: 220 } });
  });

  it('lets the failure of the repetition stand, and is called again in a later iteration', async () => {
    const seen: string[] = [];
    const { ended } = await play(
      [{ error: broken }, { toolCalls: [{ name: 'look' }] }, { error: broken }, { error: broken }],
      {
        compaction: null,
        messages: question,
        config: {
          toolProviders: [plainTools({ look: () => 'x' })],
          extensions: [answering('a', { repeat: true }, seen)],
        },
      },
    );
    expect(seen).toEqual(['a PROVIDER_SERVER 1 1', 'a PROVIDER_SERVER 3 2']);
    expect(ended).toMatchObject({ code: 'PROVIDER_SERVER' });
  });

  it('may fail the turn in its own words', async () => {
    const fail = { code: 'LIMIT', message: 'No more.' } as const;
    const { ended } = await failing([answering('a', { fail })], [{ error: broken }]);
    expect(ended).toMatchObject({ code: 'LIMIT', message: 'No more.' });
  });

  it('is not called for an extension that failed the call', async () => {
    const seen: string[] = [];
    const throwing: Extension = {
      name: 'throwing',
      beforeLLMCall: () => {
        throw new Error('no rules');
      },
    };
    const { ended } = await failing([throwing, answering('a', { repeat: true }, seen)], []);
    expect(ended).toMatchObject({ code: 'EXTENSION_FAILED' });
    expect(seen).toEqual([]);
  });

  it('is left when the turn is cancelled', async () => {
    const model = bench.model([{ error: broken }]);
    const asked = gate();
    let signal: AbortSignal | undefined;
    const waiting: Extension = {
      name: 'waiting',
      onLLMError: (_, context) => {
        signal = context.signal;
        asked.open();
        return new Promise(() => {});
      },
    };
    const turn = new AgentLoop(bench.config(model, { extensions: [waiting] })).startTurn(question, { taskId: 't' });
    const result = turn.result().catch(({ code }: AgentLoopError) => code);
    await asked.pass();
    await turn.cancel('enough');
    expect(await result).toBe('CANCELED');
    expect(signal?.aborted).toBe(true);
  });
});
