import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import {
  AgentLoopError,
  compactHistory,
  type Extension,
  estimateTokens,
  foldRecords,
  isCompactionEvent,
  type LLMProvider,
  type Message,
  ModelRegistry,
  retry,
  textOf,
} from 'millrace';
import { AgentLoop } from 'millrace/internals';
import type { ScriptedLLM, ScriptedLLMStep } from 'millrace/testing';
import type { CompactionOptions } from 'millrace/types';
import { question } from '../core/dead-turn.ts';
import { plainTools } from '../core/plain-tools.ts';
import { type BenchOptions, turnBench } from '../core/turn-bench.ts';
import { watch } from '../core/watch-events.ts';
import { cleanHistory } from './context/random-history.ts';

const bench = turnBench();
/** 250 tokens. */
const output = 'o'.repeat(1_000);
const look: ScriptedLLMStep = { toolCalls: [{ name: 'look' }] };
const done: ScriptedLLMStep = { text: 'Done.' };
const usageOf = (promptTokens: number) => ({ promptTokens, completionTokens: 10, totalTokens: promptTokens + 10 });
const toolProviders = [plainTools({ look: () => output })];

interface Playing {
  /** What the summariser says, call by call. */
  readonly summaries?: readonly ScriptedLLMStep[];
  readonly compaction?: CompactionOptions;
  readonly messages?: readonly Message[];
  readonly config?: BenchOptions;
  /** Default one with a large window. */
  readonly summarizerModel?: string;
}

/** Plays a turn whose history is compacted beyond 800 tokens, by a model of its own. */
async function play(steps: readonly ScriptedLLMStep[], playing: Playing = {}) {
  const { summaries = [], compaction, messages = question, config, summarizerModel = 'gpt-4o' } = playing;
  const model = bench.model(steps);
  const summarizer = bench.model(summaries, { info: { model: summarizerModel } });
  const options = { contextWindow: 1_000, keepLast: 2, provider: summarizer, ...compaction };
  const { extensions = [] } = config ?? {};
  const loop = new AgentLoop(
    bench.config(model, { toolProviders, ...config, extensions: [compactHistory(options), ...extensions] }),
  );
  const turn = loop.startTurn(messages, { taskId: 't' });
  const watcher = watch(turn);
  await watcher.ended;
  return { model, summarizer, watcher, turn };
}

const texts = ({ calls }: ScriptedLLM, call: number) =>
  (calls[call]?.messages ?? []).map(({ content }) => textOf(content));
const summaryText = (text: string) =>
  `Summary of the conversation so far; the messages themselves are left out here:\n\n${text}`;

/** The ids of calls without results and of results without a call, in messages that no other messages follow. */
function tornCalls(messages: readonly Message[]): readonly string[] {
  const open = new Set<string>();
  const torn: string[] = [];
  for (const message of messages) {
    if (message.role !== 'tool') torn.push(...open);
    else if (!open.delete(message.toolCallId)) torn.push(message.toolCallId);
    if (message.role !== 'tool') open.clear();
    if (message.role === 'assistant') for (const { id } of message.toolCalls ?? []) open.add(id);
  }
  return [...torn, ...open];
}

describe('compactHistory', () => {
  it('S0-05 puts one summary in the view for the older messages; the log and the journal keep them', async () => {
    const { model } = await play([look, look, look, look, done], { summaries: [{ text: 'Looked twice.' }] });
    expect(texts(model, 2)).toEqual(['How many?', '', output, '', output]);
    expect(model.calls[3]?.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool']);
    expect(texts(model, 3)).toEqual([summaryText('Looked twice.'), '', output]);
    expect(texts(model, 4)).toEqual([summaryText('Looked twice.'), '', output, '', output]);
    const history = foldRecords(bench.store.read('t')).messages;
    expect(history.map(({ role }) => role)).toEqual([
      'user',
      ...Array(4).fill(['assistant', 'tool']).flat(),
      'assistant',
    ]);
    expect(history.filter(({ content }) => textOf(content).includes('Summary'))).toEqual([]);
  });

  it('S2-51 shows what was replaced, live and read again', async () => {
    const { watcher } = await play([look, look, look, done], { summaries: [{ text: 'Looked twice.' }] });
    const [shown, ...more] = watcher.of('internal:x.compaction');
    expect(more).toEqual([]);
    expect(shown).toMatchObject({
      iteration: 3,
      extension: 'compaction',
      payload: { replaced: 5, summary: 'Looked twice.' },
      label: '5 messages summed up',
    });
    const { tokensBefore, tokensAfter } = watcher.events.find(isCompactionEvent)?.payload ?? {};
    expect(tokensBefore).toBeGreaterThan(800);
    expect(tokensAfter).toBeLessThan(400);
    const again = watch(AgentLoop.observe('t', { store: bench.store, clock: bench.clock }));
    await again.ended;
    expect(again.of('internal:x.compaction')).toEqual([shown]);
  });

  it('S2-43 S2-51 checks behind each batch, and also where the turn is made to go on without calls', async () => {
    const nudged: Extension = {
      name: 'nudge',
      beforeFinish: ({ iteration }) =>
        iteration < 3 ? { messages: [{ role: 'user', content: `Go on. ${output}` }] } : undefined,
    };
    const { watcher, model } = await play([{ text: output }, { text: output }, { text: 'Finished.' }], {
      summaries: [{ text: 'Talked.' }],
      config: { extensions: [nudged] },
    });
    expect(watcher.of('internal:x.compaction')).toMatchObject([{ iteration: 2, payload: { replaced: 4 } }]);
    expect(texts(model, 2)[0]).toBe(summaryText('Talked.'));
    const kinds = watcher.events.map(({ kind }) => kind);
    expect(kinds.indexOf('internal:x.compaction')).toBeLessThan(kinds.lastIndexOf('internal:iteration-start'));
  });

  it('S2-43 asks no summariser between the last answer and the terminal event', async () => {
    const { summarizer, watcher } = await play([look, look, { text: output.repeat(5) }]);
    expect(summarizer.calls).toEqual([]);
    expect(watcher.events.at(-1)).toMatchObject({ kind: 'status-update', final: true, status: { state: 'completed' } });
  });

  /** Long enough that most of it is older than what is kept. */
  const longHistory = cleanHistory.filter(({ length }) => length > 12);

  it('S2-44 compacts beyond the threshold and only there, and never tears a call from its results', async () => {
    const seen = { whole: 0, compacted: 0, cutBetweenResults: 0 };
    const oneEach = () => 1;
    await fc.assert(
      fc.asyncProperty(longHistory, fc.integer({ min: 1, max: 6 }), fc.nat(40), async (history, keepLast, extra) => {
        const model = bench.model([done]);
        const answering = { call: () => Promise.resolve({ message: { role: 'assistant' as const, content: 'Sum.' } }) };
        const given = [...history, ...question];
        const contextWindow = 20 + extra;
        const threshold = 0.5;
        const compaction = compactHistory({
          contextWindow,
          threshold,
          keepLast,
          provider: answering,
          countTokens: oneEach,
        });
        const watcher = watch(new AgentLoop(bench.config(model, { extensions: [compaction] })).startTurn(given));
        await watcher.ended;
        const sent = model.calls[0]?.messages ?? [];
        const log = given.filter(({ role }) => role !== 'system');
        // A system prompt counts for its text and 4 tokens more.
        const tokens = log.length + (log.length < given.length ? 5 : 0);
        const visible = sent.filter(({ role }) => role !== 'system');
        if (tokens <= Math.floor(contextWindow * threshold)) {
          seen.whole += 1;
          expect(visible).toEqual(log);
          return;
        }
        seen.compacted += 1;
        const [summary, ...kept] = visible;
        expect(textOf(summary?.content)).toBe(summaryText('Sum.'));
        expect(kept.length).toBeLessThanOrEqual(keepLast);
        expect(kept).toEqual(log.slice(log.length - kept.length));
        expect(tornCalls(kept)).toEqual([]);
        // A result that was torn from its call would be repaired away before the request: nothing may be in neither part.
        expect(watcher.of('internal:x.compaction')).toMatchObject([
          { payload: { replaced: given.length - kept.length } },
        ]);
        if (log.at(-keepLast)?.role === 'tool') seen.cutBetweenResults += 1;
      }),
      { numRuns: 200 },
    );
    expect(Object.entries(seen).filter(([, times]) => times === 0)).toEqual([]);
  });

  it('goes by the usage that the provider reports rather than by its own count', async () => {
    const short = plainTools({ look: () => 'short' });
    const config = { toolProviders: [short] };
    const steps = (tokens: number) => [look, { ...look, usage: usageOf(tokens) }, done];
    const below = await play(steps(700), { config });
    expect(below.watcher.of('internal:x.compaction')).toEqual([]);
    bench.store.delete('t');
    const above = await play(steps(900), { config, summaries: [{ text: 'Looked.' }] });
    expect(above.watcher.of('internal:x.compaction')).toMatchObject([{ iteration: 2 }]);
    const [shown] = above.watcher.events.filter(isCompactionEvent);
    expect(shown?.payload.tokensBefore).toBeGreaterThan(910);
  });

  it('W-17 counts each message of a turn once, and the system prompt too', async () => {
    const counted = new Map<Message, number>();
    const countTokens = (what: string | Message) => {
      if (typeof what !== 'string') counted.set(what, (counted.get(what) ?? 0) + 1);
      return estimateTokens(what);
    };
    const compaction = { contextWindow: 100_000, countTokens };
    const { turn } = await play([look, look, look, look, done], { compaction, config: { systemPrompt: 'Be short.' } });
    const roles = [...counted.keys()].map(({ role }) => role);
    expect(roles.filter((role) => role === 'system')).toHaveLength(1);
    expect(roles.filter((role) => role === 'tool')).toHaveLength(4);
    expect(new Set(counted.values())).toEqual(new Set([1]));
    expect(turn.state?.messages.filter((message) => !counted.has(message))).toMatchObject([{ content: 'Done.' }]);
  });

  it.each([
    ['mine', undefined, 1],
    ['vendor/mine-2026-01-01', undefined, 1],
    ['gpt-4o', undefined, 0],
    ['gpt-4o', 'mine', 1],
    ['nobody knows it', undefined, 0],
  ])('S2-06 looks the context window up by the model: %s, for the turn %s', async (name, ofTurn, compactions) => {
    const models = new ModelRegistry().with({ name: 'mine', maxInputTokens: 1_000 });
    const model = bench.model([look, { ...look, usage: usageOf(900) }, done], { info: { model: name } });
    const summarizer = bench.model(Array(compactions).fill({ text: 'Looked.' }), { info: { model: 'gpt-4o' } });
    const extensions = [compactHistory({ models, keepLast: 2, provider: summarizer })];
    const config = bench.config(model, { toolProviders, extensions, ...(ofTurn && { model: ofTurn }) });
    const watcher = watch(new AgentLoop(config).startTurn(question));
    await watcher.ended;
    expect(watcher.of('internal:x.compaction')).toHaveLength(compactions);
  });

  it('takes an earlier summary up into the next one', async () => {
    const { summarizer, model } = await play(Array(5).fill(look).concat(done), {
      summaries: [{ text: 'First.' }, { text: 'First and second.' }],
    });
    const [, asked] = summarizer.calls[1]?.messages ?? [];
    expect(textOf(asked?.content)).toContain('Notes so far, to be taken over and carried on:\n\nFirst.\n');
    expect(texts(model, 5)[0]).toBe(summaryText('First and second.'));
    expect(texts(model, 5).join()).not.toContain('First.');
  });

  it('shows readers nothing that the summariser says, and adds its usage to the turn’s', async () => {
    const summaries = [{ text: ['Secret', ' notes'], usage: usageOf(50) }];
    const steps = [look, look, look, { ...done, usage: usageOf(100) }];
    const { watcher, turn } = await play(steps, { summaries });
    const streamed = watcher.of('artifact-update').flatMap(({ artifact }) => artifact.parts);
    expect(JSON.stringify(streamed)).not.toContain('notes');
    expect((await turn.result()).usage).toEqual({ promptTokens: 150, completionTokens: 20, totalTokens: 170 });
  });

  it.each([
    ['a provider', (provider: LLMProvider) => provider],
    ['one behind policies', retry({ initialDelayMs: 0 })],
  ])('has an llm.call span below that of its hook, made by %s, with its usage', async (_, around) => {
    const summarizer = bench.model([{ text: 'Looked twice.', usage: usageOf(600) }], { info: { model: 'gpt-4o' } });
    await play([look, look, look, done], { compaction: { provider: around(summarizer) } });
    const spans = bench.spans.spans();
    const hook = spans.find(({ name }) => name === 'hook[compaction.afterIteration]');
    const own = spans.filter(
      ({ name, parentSpanContext }) => name === 'llm.call' && parentSpanContext?.spanId === hook?.spanContext().spanId,
    );
    expect(own.map(({ attributes }) => attributes)).toMatchObject([
      { 'gen_ai.request.model': 'gpt-4o', 'gen_ai.usage.input_tokens': 600, 'millrace.iteration': 3 },
    ]);
    expect(spans.filter(({ name }) => name === 'llm.call')).toHaveLength(5);
  });

  it('ends that span, without an error, where the turn is cancelled meanwhile', async () => {
    const summarizer = bench.model([{ never: true }]);
    const extensions = [compactHistory({ contextWindow: 1_000, keepLast: 2, provider: summarizer })];
    const turn = bench.loop([look, look, look], { toolProviders, extensions }).startTurn(question, { taskId: 't' });
    const watcher = watch(turn);
    while (summarizer.active === 0) await new Promise(setImmediate);
    await turn.cancel('enough');
    await watcher.ended;
    const [span] = bench.spans
      .spans()
      .filter(({ name }) => name === 'llm.call')
      .slice(-1);
    expect(span?.attributes).toMatchObject({ 'millrace.outcome': 'canceled' });
    expect(span?.status.code).toBe(0);
  });

  it('goes on where the summariser fails, shows it, and tries again two iterations later, then four', async () => {
    const failing = { error: new Error('overloaded') };
    const { watcher, summarizer, model } = await play(Array(9).fill(look).concat(done), {
      summaries: [failing, failing, { text: 'At last.' }],
    });
    expect(watcher.of('internal:extension-error')).toMatchObject([
      { extension: 'compaction', hook: 'afterIteration', message: 'overloaded', fatal: false, iteration: 3 },
      { iteration: 5 },
    ]);
    expect(summarizer.calls).toHaveLength(3);
    expect(watcher.of('internal:x.compaction')).toMatchObject([{ iteration: 9 }]);
    expect(model.calls[8]?.messages).toHaveLength(17);
    expect(watcher.events.at(-1)).toMatchObject({ status: { state: 'completed' } });
  });

  it('counts what calls took of which no summary came', async () => {
    const silent = { text: '', usage: usageOf(70) };
    const { turn, watcher } = await play(
      Array(5)
        .fill(look)
        .concat({ ...done, usage: usageOf(5) }),
      {
        summaries: [silent, { text: 'At last.', usage: usageOf(20) }],
      },
    );
    expect(watcher.of('internal:extension-error')).toHaveLength(1);
    const usage = { promptTokens: 95, completionTokens: 30, totalTokens: 125 };
    expect((await turn.result()).usage).toEqual(usage);
    expect(foldRecords(bench.store.read('t')).usage).toEqual(usage);
  });

  it('H-40 counts nothing for a summarising call that was given up', async () => {
    const { turn } = await play([look, look, look, { ...done, usage: usageOf(5) }], {
      summaries: [{ error: new AgentLoopError('PROVIDER_TIMEOUT', 'The model took too long.') }],
    });
    expect((await turn.result()).usage).toEqual(usageOf(5));
  });

  it('keeps the summary that there is where a later one fails', async () => {
    const { model, watcher } = await play(Array(5).fill(look).concat(done), {
      summaries: [{ text: 'First.' }, { text: '' }],
    });
    expect(watcher.of('internal:extension-error')).toMatchObject([
      { message: expect.stringContaining('The summarising call was answered without text') },
    ]);
    expect(texts(model, 5)).toEqual([summaryText('First.'), '', output, '', output, '', output]);
  });

  it('compacts before the first call of a turn that begins too long', async () => {
    const talk = Array.from({ length: 6 }, (): Message => ({ role: 'user', content: output }));
    const messages: readonly Message[] = [{ role: 'system', content: 'Be kind.' }, ...talk, ...question];
    const { model, watcher } = await play([done], { messages, summaries: [{ text: 'Talked.' }] });
    expect(model.calls[0]?.messages.map(({ content }) => textOf(content))).toEqual([
      'Be kind.',
      summaryText('Talked.'),
      output,
      'How many?',
    ]);
    expect(watcher.of('internal:x.compaction')).toMatchObject([{ iteration: 0, payload: { replaced: 6 } }]);
  });

  it('sums up in several calls what is too long for one, each with the notes so far', async () => {
    const talk = Array.from(
      { length: 6 },
      (_, index): Message => ({ role: 'user', content: `${index}${'i'.repeat(700)}` }),
    );
    const { summarizer, model } = await play([done], {
      messages: [...talk, ...question],
      summaries: [{ text: 'A.' }, { text: 'B.' }, { text: 'C.' }],
      compaction: { keepLast: 1 },
      summarizerModel: 'of a window nobody knows',
    });
    const asked = summarizer.calls.map((_, call) => texts(summarizer, call)[1] ?? '');
    expect(asked.map((text) => text.match(/\d(?=i)/g)?.join())).toEqual(['0,1', '2,3', '4,5']);
    expect(asked.map((text) => /carried on:\n\n(.*)\n/.exec(text)?.[1])).toEqual([undefined, 'A.', 'B.']);
    for (const text of asked) expect(estimateTokens(text)).toBeLessThan(600);
    expect(texts(model, 0)).toEqual([summaryText('C.'), 'How many?']);
  });

  it('sees the same where another process goes on, and sums nothing up twice', async () => {
    const whole = await play([look, look, look, done], { summaries: [{ text: 'Looked twice.' }] });
    const records = bench.store.read('t');
    const at = records.findIndex(({ type }) => type === 'x.compaction');
    expect(at).toBeGreaterThan(0);
    for (const kept of [at + 1, at + 2]) {
      bench.store.delete('t');
      const [first, ...rest] = records.slice(0, kept);
      if (first?.type !== 'turn.started') throw new Error('no first record');
      bench.store.create('t', first);
      const lease = bench.store.acquire('t', 'the dead', 1_000);
      bench.store.append(
        lease,
        rest.map((record) => ({ ...record, epoch: lease.epoch })),
        { status: 'working', barrier: true },
      );
      bench.leases.advance(1_000);
      const model = bench.model([done]);
      const options = { contextWindow: 1_000, keepLast: 2, provider: bench.model([]) };
      await AgentLoop.resume(
        't',
        bench.config(model, { toolProviders, extensions: [compactHistory(options)] }),
      ).result();
      expect(model.calls[0]?.messages).toEqual(whole.model.calls[3]?.messages);
    }
  });

  it.each([
    [{ threshold: 0 }, 'compactHistory: threshold must be a share above 0, at most 1, not 0.'],
    [{ contextWindow: 0 }, 'compactHistory: contextWindow must be a whole number of at least 1, not 0.'],
    [{ keepLast: 1.5 }, 'compactHistory: keepLast must be a whole number of at least 1, not 1.5.'],
  ])('refuses %j, in words', (options, message) => {
    expect(() => compactHistory(options)).toThrow(expect.objectContaining({ code: 'INVALID_CONFIG', message }));
  });
});
