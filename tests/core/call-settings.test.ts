import { describe, expect, it } from '@jest/globals';
import { AgentLoop, type LLMCallParams, type LLMProvider, replay } from 'millrace';
import type { IterationView, ModelNote, RequestChange, TurnCallSettings } from 'millrace/types';
import { question } from './dead-turn.ts';
import { plainTools } from './plain-tools.ts';
import { turnBench } from './turn-bench.ts';
import { watch } from './watch-events.ts';

const bench = turnBench();
const toolProviders = [plainTools({ count: () => 2 })];
const asking = { toolCalls: [{ name: 'count' }] };
const own: Required<TurnCallSettings> = {
  temperature: 0,
  maxTokens: 9,
  reasoning: { budgetTokens: 512 },
  topP: 0.5,
  stop: ['END'],
  seed: 7,
  parallelToolCalls: false,
  cache: true,
};

/** A provider that notes these, then answers. */
function noting(...notes: readonly ModelNote[]): LLMProvider {
  return {
    async call({ note }: LLMCallParams) {
      for (const each of notes) note?.(each);
      return { message: { role: 'assistant', content: 'Two.' } };
    },
  };
}

async function eventsWith(llmProvider: LLMProvider) {
  const watcher = watch(new AgentLoop(bench.config(llmProvider)).startTurn(question, { taskId: 't' }));
  await watcher.ended;
  return watcher.events;
}

const change: RequestChange = { kind: 'setting', at: 'temperature', what: 'left out: the model refuses it' };

describe('the settings of model calls', () => {
  it('M-18 reach the provider from the configuration, and from the turn before that', async () => {
    const model = bench.model([{ text: 'Two.' }, { text: 'Two.' }]);
    const loop = new AgentLoop(bench.config(model, { ...own, topP: 1, reasoning: 'high' }));
    await loop.startTurn(question).result();
    await loop.startTurn(question, own).result();
    expect(model.calls[0]).toMatchObject({ ...own, topP: 1, reasoning: 'high' });
    expect(model.calls[1]).toMatchObject(own);
  });

  it('M-18 of a turn are in its journal: another process resumes it with the same', async () => {
    const first = bench.loop([asking, { error: new Error('cut') }], { toolProviders });
    await expect(first.startTurn(question, { taskId: 't', ...own }).result()).rejects.toMatchObject({
      code: 'PROVIDER_FAILED',
    });
    const records = bench.store.read('t');
    expect(records[0]).toMatchObject({ settings: own });
    expect(records.find(({ type }) => type === 'llm.start')).toMatchObject({ options: own });
    const model = bench.model([{ text: 'Two.' }]);
    const again = await AgentLoop.retry('t', bench.config(model, { toolProviders })).result();
    expect(again).toMatchObject({ text: 'Two.' });
    expect(model.calls[0]).toMatchObject(own);
  });

  it('M-18 are recorded again only where they change', async () => {
    const extension = {
      name: 'changing',
      prepareIteration: ({ messages }: IterationView) =>
        messages.length === 5 ? { view: { settings: { stop: ['HALT'] } } } : undefined,
    };
    const loop = bench.loop([asking, asking, { text: 'Two.' }], { toolProviders, extensions: [extension] });
    await loop.startTurn(question, { taskId: 't', stop: ['END'], reasoning: { budgetTokens: 512 } }).result();
    const starts = bench.store.read('t').filter((record) => record.type === 'llm.start');
    expect(starts.map(({ options }) => options?.stop)).toEqual([['END'], undefined, ['HALT']]);
    expect(await replay(bench.store.read('t')).result()).toMatchObject({ deviations: [] });
  });

  it('of a hook are checked', async () => {
    const extension = { name: 'wrong', prepareIteration: () => ({ view: { settings: { topP: 2 } } }) };
    const turn = bench.loop([], { extensions: [extension] }).startTurn(question);
    await expect(turn.result()).rejects.toMatchObject({
      message: expect.stringContaining('topP must be a number above 0'),
    });
  });
});

describe('the notes of a provider', () => {
  it('are events of the turn and of the span, and no records', async () => {
    const events = await eventsWith(
      noting({ kind: 'request-fitted', changes: [change] }, { kind: 'warning', message: 'The word is new.' }),
    );
    expect(events.filter(({ kind }) => /fitted|warning/.test(kind))).toMatchObject([
      { kind: 'internal:request-fitted', iteration: 1, changes: [change] },
      { kind: 'internal:llm-warning', iteration: 1, message: 'The word is new.' },
    ]);
    expect(events.at(-1)).toMatchObject({ final: true, status: { state: 'completed' } });
    const call = bench.spans.spans().find(({ name }) => name === 'llm.call');
    expect(call?.events.map(({ name }) => name)).toEqual(['millrace.request_fitted', 'millrace.llm_warning']);
    expect(JSON.stringify(bench.store.read('t'))).not.toContain('left out');
  });

  it('show the first 20 changes, then their number', async () => {
    const events = await eventsWith(noting({ kind: 'request-fitted', changes: Array(23).fill(change) }));
    const fitted = events.find((event) => event.kind === 'internal:request-fitted');
    expect(fitted).toMatchObject({ omitted: 3 });
    expect(fitted?.changes).toHaveLength(20);
  });

  it('are ignored where they are invalid, or come after the answer', async () => {
    let late: LLMCallParams['note'];
    const wrong: readonly unknown[] = [
      undefined,
      { kind: 'other' },
      { kind: 'warning', message: 7 },
      { kind: 'request-fitted', changes: [] },
      { kind: 'request-fitted', changes: [{ ...change, kind: 'colour' }] },
    ];
    const events = await eventsWith({
      async call({ note }) {
        late = note;
        for (const each of wrong) Reflect.apply(note ?? Object, undefined, [each]);
        return { message: { role: 'assistant', content: 'Two.' } };
      },
    });
    late?.({ kind: 'warning', message: 'late' });
    expect(events.filter(({ kind }) => /fitted|warning/.test(kind))).toEqual([]);
  });

  it('tell of a closing summary that fails, and of one without text', async () => {
    for (const last of [{ error: new Error('no route') }, { text: '' }]) {
      const loop = bench.loop([asking, last], { toolProviders, maxIterations: 1, onLimit: 'summarize', store: false });
      const watcher = watch(loop.startTurn(question));
      await watcher.ended;
      const warnings = watcher.events.filter((event) => event.kind === 'internal:llm-warning');
      expect(warnings).toMatchObject([{ message: expect.stringContaining('The closing summary failed') }]);
      expect(watcher.events.at(-1)).toMatchObject({ status: { state: 'completed' }, reason: 'unfinished' });
    }
  });
});

describe('a finish word that is not known', () => {
  const ending = (content: string): LLMProvider => ({
    call: async () => ({ message: { role: 'assistant', content }, finishReason: 'other', finishWord: 'weary' }),
  });

  it('completes a turn with the reason other; the response has the word', async () => {
    const events = await eventsWith(ending('Two.'));
    expect(events.find(({ kind }) => kind === 'internal:llm-response')).toMatchObject({
      finishReason: 'other',
      finishWord: 'weary',
    });
    expect(events.at(-1)).toMatchObject({ status: { state: 'completed' }, reason: 'other' });
    expect(await replay(bench.store.read('t')).result()).toMatchObject({ deviations: [] });
  });

  it('fails a turn without text, and quotes the word', async () => {
    const turn = new AgentLoop(bench.config(ending(''))).startTurn(question);
    await expect(turn.result()).rejects.toMatchObject({
      code: 'EMPTY_RESPONSE',
      message: expect.stringContaining('"weary"'),
    });
  });
});
