import { describe, expect, it } from '@jest/globals';
import { type AgentLoopConfig, type AssistantMessage, foldRecords, type LLMProvider, type Message } from 'millrace';
import { AgentLoop, summaryFallback } from 'millrace/internals';
import type { LLMStep, ScriptedLLMStep } from 'millrace/testing';
import { question } from '../core/dead-turn.ts';
import { turnBench } from '../core/turn-bench.ts';
import { textsOf, watch } from '../core/watch-events.ts';
import { localTools } from './local-tools.ts';

const bench = turnBench();
const look: LLMStep = { toolCalls: [{ name: 'look' }] };

function loopOf(steps: readonly ScriptedLLMStep[], options: Partial<AgentLoopConfig> = {}) {
  const model = bench.model(steps);
  const toolProviders = [localTools({ look: () => 'a tree' })];
  return { model, loop: new AgentLoop(bench.config(model, { toolProviders, ...options })) };
}

describe('toolChoice', () => {
  it('S2-02 is in no request where it is not set', async () => {
    const { model, loop } = loopOf([look, { text: 'Green.' }]);
    await loop.startTurn(question).result();
    for (const call of model.calls) expect(call).not.toHaveProperty('toolChoice');
  });

  it.each(['auto', 'required', { name: 'look' }] as const)('S2-02 is in each request of a turn: %j', async (choice) => {
    const { model, loop } = loopOf([look, look, { text: 'Green.' }], { toolChoice: choice });
    await loop.startTurn(question).result();
    expect(model.calls.map(({ toolChoice }) => toolChoice)).toEqual([choice, choice, choice]);
  });
});

it('S2-12 has the system prompt once in each request, and never in what is kept, over three turns', async () => {
  const systemPrompt = 'You are a gardener.';
  const steps = [1, 2, 3].flatMap(() => [look, { text: 'Green.' }]);
  const { model, loop } = loopOf(steps, { systemPrompt });
  let history: readonly Message[] = [];
  for (const taskId of ['one', 'two', 'three']) {
    history = [...history, ...question];
    const { messages } = await loop.startTurn(history, { taskId }).result();
    history = [...history, ...messages];
    expect(JSON.stringify(bench.store.read(taskId))).not.toContain(systemPrompt);
    expect(bench.store.load(taskId)?.messages).toEqual(history);
  }
  expect(model.calls).toHaveLength(6);
  for (const { messages } of model.calls) {
    const systems = messages.filter(({ role }) => role === 'system' || role === 'developer');
    expect(systems).toEqual([{ role: 'system', content: systemPrompt }]);
    expect(messages[0]).toBe(systems[0]);
  }
  expect(history.map(({ role }) => role).join()).not.toContain('system');
});

it('S2-13 appends the messages of the model unchanged and in order, with their reasoning and all else', async () => {
  const call = { id: 'abc', type: 'function', function: { name: 'look', arguments: '{ "at" : "pond" }' } } as const;
  const asking: AssistantMessage = {
    role: 'assistant',
    content: [{ type: 'text', text: 'I look.' }],
    toolCalls: [call],
    reasoning: 'The pond is near.',
    id: 'msg_1',
    createdAt: '2030-01-01T00:00:00.000Z',
    metadata: { signature: 'x' },
  };
  const answering: AssistantMessage = { role: 'assistant', content: 'Green.', reasoning: 'Water.', id: 'msg_2' };
  const messages: AssistantMessage[] = [asking, answering];
  const seen: (readonly Message[])[] = [];
  const provider: LLMProvider = {
    call: async (params) => {
      seen.push(params.messages);
      return { message: messages[seen.length - 1] ?? answering };
    },
  };
  const config = bench.config(provider, { toolProviders: [localTools({ look: () => 'a pond' })] });
  const result = await new AgentLoop(config).startTurn(question).result();
  const answer = { role: 'tool', toolCallId: 'abc', content: 'a pond' };
  expect(seen[1]).toEqual([...question, asking, answer]);
  expect(result.messages).toEqual([asking, answer, answering]);
});

describe("onLimit 'summarize'", () => {
  const options = { maxIterations: 200, onLimit: 'summarize', toolChoice: 'auto', systemPrompt: 'Be short.' } as const;
  const limit = Array.from({ length: 200 }, () => look);

  it('S2-01 S2-45 asks for a summary in the 201st call of 200: without tools, behind the whole history', async () => {
    const { model, loop } = loopOf([...limit, { text: 'A tree, all over.' }], options);
    const result = await loop.startTurn(question).result();
    expect(result).toMatchObject({ status: 'completed', reason: 'max_iterations', text: 'A tree, all over.' });
    expect(model.calls).toHaveLength(201);
    for (const call of model.calls.slice(0, 200)) expect(call).toHaveProperty('tools.length', 1);
    const summary = model.calls[200];
    expect(summary).not.toHaveProperty('tools');
    expect(summary).not.toHaveProperty('toolChoice');
    expect(summary?.messages).toHaveLength(1 + 1 + 400 + 1);
    expect(summary?.messages.at(-1)).toMatchObject({ role: 'user', content: expect.stringContaining('sum up') });
    expect(model.calls[199]?.messages.at(-1)).toMatchObject({ role: 'tool' });
  });

  it('S2-46 R-01 leaves the history as it was, but for the summary, which ends it; it is in the events and the result', async () => {
    const { loop } = loopOf([look, look, { text: 'A tree.' }], { ...options, maxIterations: 2 });
    const turn = loop.startTurn(question, { taskId: 't' });
    const watcher = watch(turn);
    await watcher.ended;
    const records = bench.store.read('t');
    const before = records.findIndex((record) => record.type === 'llm.start' && record.summary === true);
    expect(before).toBeGreaterThan(0);
    const summary = { role: 'assistant', content: 'A tree.' };
    expect(foldRecords(records).messages).toEqual([...foldRecords(records.slice(0, before)).messages, summary]);
    expect(foldRecords(records).messages.map(({ role }) => role)).toEqual([
      'user',
      'assistant',
      'tool',
      'assistant',
      'tool',
      'assistant',
    ]);
    expect(textsOf(watcher.events)).toEqual({ 'answer-3': 'A tree.' });
    expect(watcher.events.at(-1)).toMatchObject({ status: { message: { parts: [{ text: 'A tree.' }] } } });
    expect(await turn.result()).toMatchObject({ text: 'A tree.' });
  });

  it('S2-47 has a fixed sentence where that call fails, and calls no more', async () => {
    const { model, loop } = loopOf([look, { error: new Error('no route') }], { ...options, maxIterations: 1 });
    const result = await loop.startTurn(question).result();
    expect(result).toMatchObject({ status: 'completed', text: summaryFallback });
    expect(summaryFallback).toBe('The limit of steps was reached before an answer was found.');
    expect(model.calls).toHaveLength(2);
  });
});
