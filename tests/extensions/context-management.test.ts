import { describe, expect, it } from '@jest/globals';
import { contextManagement, type Message, textOf } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import type { ScriptedLLMStep } from 'millrace/testing';
import { callOf, question } from '../core/dead-turn.ts';
import { plainTools } from '../core/plain-tools.ts';
import { turnBench } from '../core/turn-bench.ts';
import { watch } from '../core/watch-events.ts';

const bench = turnBench();
const names = (options?: Parameters<typeof contextManagement>[0]) => contextManagement(options).map(({ name }) => name);

describe('contextManagement', () => {
  it('has tool outputs and compaction on and the window off, and turns each off with null', () => {
    expect(names()).toEqual(['tool-output-cache', 'compaction']);
    expect(names({ window: {} })).toEqual(['tool-output-cache', 'compaction', 'window']);
    expect(names({ toolOutputCache: null })).toEqual(['compaction']);
    expect(names({ compaction: null, window: null })).toEqual(['tool-output-cache']);
  });

  it('shortens, then compacts, then cuts: the summary stays in front of the window', async () => {
    const talk = Array.from({ length: 10 }, (): Message => ({ role: 'user', content: 'u'.repeat(400) }));
    const batch: readonly Message[] = [
      { role: 'assistant', content: null, toolCalls: [callOf('look')] },
      { role: 'tool', toolCallId: 'id-0', content: 'o'.repeat(1_000) },
      { role: 'assistant', content: 'I see.' },
    ];
    const model = bench.model([{ text: 'Done.' }]);
    const summarizer = bench.model([{ text: 'Talked.' }], { info: { model: 'gpt-4o' } });
    const extensions = contextManagement({
      toolOutputCache: { keepLast: 0, maxChars: 400 },
      compaction: { contextWindow: 1_200, provider: summarizer },
      window: { maxMessages: 5 },
    });
    const loop = new AgentLoop(bench.config(model, { extensions }));
    const watcher = watch(loop.startTurn([...talk, ...batch, ...question]));
    await watcher.ended;
    expect(watcher.of('internal:x.compaction')).toMatchObject([{ payload: { replaced: 9 } }]);
    const sent = model.calls[0]?.messages ?? [];
    expect(sent.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'assistant', 'user']);
    expect(textOf(sent[0]?.content)).toContain('Talked.');
    expect(textOf(sent[2]?.content)).toContain('characters left out; the full output is given by read_tool_output');
  });

  it('goes on to offer the tool that reads outputs again once all that were shortened are compacted', async () => {
    const long = 'o'.repeat(1_000);
    const look: ScriptedLLMStep = { toolCalls: [{ name: 'look' }] };
    const model = bench.model([look, look, look, { text: 'Done.' }]);
    const summarizer = bench.model([{ text: 'Looked.' }], { info: { model: 'gpt-4o' } });
    const extensions = contextManagement({
      toolOutputCache: { keepLast: 0, maxChars: 400 },
      compaction: { contextWindow: 900, keepLast: 2, provider: summarizer },
    });
    const outputs = [long, long, long.repeat(2)];
    const toolProviders = [plainTools({ look: () => outputs.shift() ?? '' })];
    const watcher = watch(new AgentLoop(bench.config(model, { toolProviders, extensions })).startTurn(question));
    await watcher.ended;
    expect(watcher.of('internal:x.compaction')).toMatchObject([{ payload: { replaced: 5 } }]);
    expect(model.calls.map(({ messages, tools = [] }) => [messages.length, tools.length])).toEqual([
      [1, 1],
      [3, 1],
      [5, 2],
      [3, 2],
    ]);
  });

  it.each([
    [{ compaction: true }, 'contextManagement: compaction must be an object of options, or null, not true.'],
    [{ windows: {} }, /contextManagement.*windows/],
  ])('refuses %j, in words', (options: object, message) => {
    expect(() => contextManagement(options)).toThrow(message);
  });
});
