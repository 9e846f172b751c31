import { describe, expect, it } from '@jest/globals';
import { type AgentLoopConfig, agentTools, type Extension, replay, structuredOutput } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import type { LLMStep } from 'millrace/testing';
import type { OnLength, TurnRecord } from 'millrace/types';
import { agentBench } from '../agent/agent-bench.ts';
import { answerOf, deadTurn, firstCall, question } from './dead-turn.ts';
import { plainTools } from './plain-tools.ts';
import { textsOf, watch } from './watch-events.ts';

const on = agentBench();
const { bench } = on;
const cut: LLMStep = { text: 'So fa', finishReason: 'length' };
const both: readonly (readonly [OnLength])[] = [['fail'], ['complete']];

function start(steps: readonly LLMStep[], options: Partial<AgentLoopConfig> = {}) {
  return bench.loop(steps, { onLength: 'complete', ...options }).startTurn(question, { taskId: 't' });
}

/** What a reader of task `t` sees from its store. */
async function observed() {
  const watcher = watch(AgentLoop.observe('t', { store: bench.store }));
  await watcher.ended;
  return watcher.events;
}

describe('onLength', () => {
  it('U-17 complete ends the turn with the text so far and the reason length, here and for a later reader', async () => {
    const turn = start([cut]);
    const watcher = watch(turn);
    expect(await turn.result()).toMatchObject({ status: 'completed', reason: 'length', text: 'So fa', iterations: 1 });
    await watcher.ended;
    const events = await observed();
    for (const seen of [watcher.events, events]) {
      expect(textsOf(seen)).toEqual({ 'answer-1': 'So fa' });
      expect(seen.at(-1)).toMatchObject({ final: true, reason: 'length', status: { state: 'completed' } });
    }
  });

  it('U-17 complete never runs calls that the answer began, and keeps none in the messages', async () => {
    const ran: string[] = [];
    const toolProviders = [plainTools({ count: () => ran.push('count') })];
    const toolCalls = [{ name: 'count' }, { name: 'count', arguments: '{"of":"ap' }];
    const result = await start([{ ...cut, toolCalls }], { toolProviders }).result();
    expect(result).toMatchObject({ status: 'completed', reason: 'length', text: 'So fa', toolCalls: 0 });
    expect(result.messages).toEqual([{ role: 'assistant', content: 'So fa' }]);
    expect(ran).toEqual([]);
  });

  it('U-17 complete is asked about like every end: a hook can make the turn go on', async () => {
    const reasons: string[] = [];
    const more: Extension = {
      name: 'more',
      beforeFinish({ reason }) {
        reasons.push(reason);
        return reason === 'length' ? { messages: [{ role: 'user', content: 'Go on.' }] } : undefined;
      },
    };
    const result = await start([cut, { text: 'r, two.' }], { extensions: [more] }).result();
    expect(result).toMatchObject({ status: 'completed', reason: 'stop', text: 'r, two.' });
    expect(reasons).toEqual(['length', 'stop']);
  });

  it.each(both)('U-17 %s: a message that comes in time is answered, as after any answer', async (onLength) => {
    const turn = bench.loop([{ ...cut, text: ['So ', 'fa'] }, { text: 'Two.' }], { onLength }).startTurn(question);
    watch(turn, (event) => {
      if (event.kind === 'internal:llm-call' && event.iteration === 1)
        turn.steer({ role: 'user', content: 'Shorter.' });
    });
    expect(await turn.result()).toMatchObject({ status: 'completed', reason: 'stop', text: 'Two.' });
  });

  describe('in a turn whose process died behind such an answer', () => {
    const done: TurnRecord = { ...answerOf('So fa'), finishReason: 'length' };

    it('U-17 fail has the text on the error and in the events', async () => {
      deadTurn(bench, [firstCall, done]);
      const turn = AgentLoop.resume('t', bench.config(bench.model([])));
      const watcher = watch(turn);
      await expect(turn.result()).rejects.toMatchObject({ code: 'LENGTH', result: { text: 'So fa' } });
      await watcher.ended;
      expect(textsOf(watcher.events)).toEqual({ 'answer-1': 'So fa' });
      expect(textsOf(await observed())).toEqual({ 'answer-1': 'So fa' });
      await expect(AgentLoop.resume('t', bench.config(bench.model([]))).result()).rejects.toMatchObject({
        code: 'LENGTH',
        result: { text: 'So fa' },
      });
    });

    it('U-17 complete completes it without another model call', async () => {
      deadTurn(bench, [firstCall, done]);
      const turn = AgentLoop.resume('t', bench.config(bench.model([]), { onLength: 'complete' }));
      expect(await turn.result()).toMatchObject({ status: 'completed', reason: 'length', text: 'So fa' });
    });
  });

  it('U-17 an agent that a turn was handed to has its own', async () => {
    const hand: Extension = {
      name: 'hand',
      afterIteration: ({ agentId }) => (agentId === 'tester' ? { agent: { to: 'bo', reason: 'route' } } : undefined),
    };
    const bo = { llmProvider: bench.model([cut]), onLength: 'complete' as const };
    const options = {
      onLength: 'fail' as const,
      extensions: [hand],
      agents: (id: string) => (id === 'bo' ? bo : undefined),
    };
    const result = await start([{ text: 'Bo knows.' }], options).result();
    expect(result).toMatchObject({ status: 'completed', reason: 'length', text: 'So fa', agentId: 'bo' });
  });

  it.each(both)('U-17 %s is replayed as it was recorded', async (onLength) => {
    await Promise.allSettled([start([cut], { onLength }).result()]);
    const records = bench.store.read('t');
    expect(await replay(records).result()).toMatchObject({ deviations: [], records });
  });
});

describe('onLength of a sub-agent', () => {
  const askBo: LLMStep = { toolCalls: [{ name: 'bo', arguments: { message: 'Count.' } }] };
  const told = async (onLength: OnLength) => {
    const bo = on.agent([cut], { id: 'bo', onLength });
    const ada = on.agent([askBo, { text: 'So.' }], { toolProviders: [agentTools([bo])] });
    return (await ada.run('Ask Bo.', { taskId: 't' })).messages[1];
  };

  it('U-17 fail tells the calling model why, and what the sub-agent had written', async () => {
    const message = await told('fail');
    expect(message).toMatchObject({ role: 'tool', status: 'error' });
    expect(message?.content).toBe(
      'Tool error: The model stopped at its token limit; raise maxTokens, or ask for less.\nThe text so far: So fa',
    );
  });

  it('U-17 complete gives the calling model the text', async () => {
    expect(await told('complete')).toMatchObject({ role: 'tool', content: 'So fa' });
  });
});

describe('onLength of a turn that ends with a value', () => {
  const schema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] } as const;
  const ways: readonly (readonly ['tool' | 'native' | 'xml', LLMStep])[] = [
    ['tool', { text: 'It ', toolCalls: [{ name: '__finish__', arguments: '{"n":' }], finishReason: 'length' }],
    ['native', { text: '{"n":', finishReason: 'length' }],
    ['xml', { text: '<output><n>1</n></output>', finishReason: 'length' }],
  ];

  it.each(ways)('U-17 (%s) fails with LENGTH also under complete, and asks the model once', async (mode, step) => {
    const model = bench.model([step], { capabilities: { responseFormat: true, tools: mode !== 'xml' } });
    const output = structuredOutput({ schema, mode: mode === 'native' ? mode : 'auto' });
    const loop = new AgentLoop(bench.config(model, { extensions: [output], onLength: 'complete' }));
    await expect(loop.startTurn(question).result()).rejects.toMatchObject({
      code: 'LENGTH',
      reason: 'length',
      result: { text: step.text, value: undefined },
    });
    expect(model.calls).toHaveLength(1);
  });

  it('U-17 complete completes it without a value where forceFinish is false', async () => {
    const output = structuredOutput({ schema, forceFinish: false });
    const result = await start([cut], { extensions: [output] }).result();
    expect(result).toMatchObject({ status: 'completed', reason: 'length', text: 'So fa', value: undefined });
  });
});
