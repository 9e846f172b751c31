import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import {
  carryOver,
  compactConversation,
  compactHistory,
  compactionOf,
  compactionOfTurn,
  foldRecords,
  type Message,
  textOf,
  withCompaction,
} from 'millrace';
import { AgentLoop, isInstruction } from 'millrace/internals';
import { question } from '../core/dead-turn.ts';
import { plainTools } from '../core/plain-tools.ts';
import { turnBench } from '../core/turn-bench.ts';
import { cleanHistory } from './context/random-history.ts';

const bench = turnBench();
const talk = (count: number): readonly Message[] =>
  Array.from({ length: count }, (_, index) => ({ role: 'user', content: `${index} ${'u'.repeat(398)}` }));
const usage = { promptTokens: 9, completionTokens: 1, totalTokens: 10 };
/** A model whose window takes all of it. */
const large = { info: { model: 'gpt-4o' } };
const options = { contextWindow: 1_000, keepLast: 2 };
/** Messages as far as they are not covered by the summary. */
const numbersIn = (messages: readonly Message[]) => messages.map(({ content }) => textOf(content).split(' ')[0]);

describe('compactConversation', () => {
  it('S2-43 sums up what is old behind the end of a turn, so that the next turn begins short', async () => {
    const provider = bench.model([{ text: 'Talked.', usage }], large);
    const messages = talk(10);
    const made = await compactConversation(messages, { ...options, provider }, { provider: bench.model([]) });
    expect(made).toEqual({
      compaction: { upTo: 8, summary: 'Talked.' },
      usage,
    });
    expect(numbersIn(carryOver(messages, made?.compaction))).toEqual(['Summary', '8', '9']);
  });

  it('does nothing where the context is short, also by an earlier compaction', async () => {
    const provider = bench.model([]);
    expect(await compactConversation(talk(7), options, { provider })).toBeUndefined();
    const compaction = { upTo: 8, summary: 'Talked.' };
    expect(await compactConversation(talk(12), options, { provider, compaction })).toBeUndefined();
  });

  it('rejects with what the provider says, and is stopped by its signal', async () => {
    const failing = bench.model([{ error: new Error('overloaded') }, { never: true }]);
    await expect(compactConversation(talk(10), options, { provider: failing })).rejects.toThrow('overloaded');
    const controller = new AbortController();
    const stopped = compactConversation(talk(10), options, { provider: failing, signal: controller.signal });
    controller.abort(new Error('closed'));
    await expect(stopped).rejects.toThrow('closed');
  });
});

describe('a context of several turns', () => {
  it('carries a summary from turn to turn by its metadata, each built on the one before', async () => {
    const first = bench.model([{ text: 'One.' }], large);
    const made = await compactConversation(talk(10), { ...options, provider: first }, { provider: bench.model([]) });
    const metadata = withCompaction({ title: 'Talk' }, made?.compaction ?? { upTo: 0, summary: '' });
    expect(JSON.parse(JSON.stringify(metadata))).toEqual({ title: 'Talk', compaction: { upTo: 8, summary: 'One.' } });
    const stored = [...talk(10), ...question];
    const model = bench.model([{ toolCalls: [{ name: 'look' }] }, { text: 'Done.' }]);
    const second = bench.model([{ text: 'One and two.' }], large);
    const extensions = [compactHistory({ ...options, provider: second })];
    const toolProviders = [plainTools({ look: () => 'o'.repeat(2_800) })];
    const loop = new AgentLoop(bench.config(model, { extensions, toolProviders }));
    const turn = loop.startTurn(carryOver(stored, compactionOf(metadata)), { taskId: 't' });
    const { messages: added } = await turn.result();
    expect(textOf(second.calls[0]?.messages[1]?.content)).toContain('carried on:\n\nOne.');
    const compaction = compactionOfTurn(foldRecords(bench.store.read('t')));
    const context = [...stored, ...added];
    expect(compaction).toEqual({ upTo: 11, summary: 'One and two.' });
    expect(carryOver(context, compaction).slice(1)).toEqual(context.slice(11));
    const [summary, ...seen] = model.calls[1]?.messages ?? [];
    expect(textOf(summary?.content)).toMatch(/One and two\.$/);
    expect(seen).toEqual(context.slice(11, 13));
  });

  it('knows of no compaction where a turn made none, and where the metadata holds something else', async () => {
    await bench
      .loop([{ text: 'Done.' }])
      .startTurn(question, { taskId: 't' })
      .result();
    expect(compactionOfTurn(foldRecords(bench.store.read('t')))).toBeUndefined();
    expect(compactionOf({})).toBeUndefined();
    expect(compactionOf({ compaction: 'yes' })).toBeUndefined();
  });

  it('finds the place of a turn’s summary in its context, whatever was carried into the turn', async () => {
    await fc.assert(
      fc.asyncProperty(cleanHistory, fc.nat(), fc.integer({ min: 1, max: 5 }), async (history, at, keepLast) => {
        const messages = [...history, ...question];
        const upTo = placeFor(messages, at);
        const before = upTo > 0 ? { upTo, summary: 'Before.' } : undefined;
        const given = carryOver(messages, before);
        const answering = { call: () => Promise.resolve({ message: { role: 'assistant' as const, content: 'Now.' } }) };
        const extension = compactHistory({ contextWindow: 10, threshold: 0.5, keepLast, provider: answering });
        const taskId = crypto.randomUUID();
        const model = bench.model([{ text: 'Done.' }]);
        await new AgentLoop(bench.config(model, { extensions: [extension] })).startTurn(given, { taskId }).result();
        const compaction = compactionOfTurn(foldRecords(bench.store.read(taskId)));
        if (!compaction) return;
        const [seen = [], carried] = [model.calls[0]?.messages, carryOver(messages, compaction)];
        const talked = (all: readonly Message[]) => all.filter((message) => !isInstruction(message));
        expect(talked(seen).slice(1)).toEqual(talked(carried).slice(1));
      }),
      { numRuns: 100 },
    );
  });
});

/** A place in front of a message that is no result. */
function placeFor(messages: readonly Message[], at: number): number {
  const places = messages.flatMap(({ role }, place) => (role === 'tool' ? [] : [place]));
  return places[at % places.length] ?? 0;
}
