import { describe, expect, it } from '@jest/globals';
import {
  type AgentEvent,
  AgentLoopError,
  agent,
  agentTools,
  budget,
  type Extension,
  type SubAgentEvent,
} from 'millrace';
import type { TurnRecord } from 'millrace/types';
import { deadTurn, firstCall, resultOf } from '../core/dead-turn.ts';
import { plainTools } from '../core/plain-tools.ts';
import { ofKind, textsOf, watch } from '../core/watch-events.ts';
import { eventually } from '../eventually.ts';
import { agentBench, says, user } from './agent-bench.ts';

const on = agentBench();
const askBo = { toolCalls: [{ name: 'bo', arguments: { message: 'What is it?' } }] };

function updatesOf(events: readonly AgentEvent[]): readonly SubAgentEvent[] {
  return ofKind(events, 'internal:sub-agent');
}

function pathOf({ path }: SubAgentEvent): string {
  return path.map(({ agentId }) => agentId).join('/');
}

/** The turn of `bo` that the first call of the turn `t` of `ada` runs as. */
const childOfAda = {
  taskId: 't:1:0',
  contextId: 't:1:0',
  agentId: 'bo',
  messages: [user('What is it?')],
  parent: { taskId: 't', callId: '1:0', agentId: 'ada', rootTaskId: 't' },
};

const begun: TurnRecord = { type: 'x.conversation', hook: 'beforeTurn', data: { history: 0 } };

const child = { taskId: 't:1:0', agentId: 'bo' };

/** The answer of the first iteration, a call of this tool, and the record of its start. */
function calling(name: string, args: object): readonly TurnRecord[] {
  const call = { id: 'k', type: 'function' as const, function: { name, arguments: JSON.stringify(args) } };
  const message = { role: 'assistant' as const, content: null, toolCalls: [call] };
  const calls = [{ callId: '1:0', call }];
  return [
    { type: 'llm.done', iteration: 1, attempt: 1, message, calls, finishReason: 'tool_calls' },
    { type: 'tool.intent', callId: '1:0', attempt: 1, arguments: args, ...(name === 'bo' && { child }) },
  ];
}

function pair(boSteps: Parameters<typeof on.agent>[0], boOptions: Parameters<typeof on.agent>[1] = {}) {
  const bo = on.agent(boSteps, { id: 'bo', contextId: 'bo', description: 'Knows it.', ...boOptions });
  const provider = on.bench.model([askBo, { text: 'Bo says so.' }]);
  const ada = on.agent([], { provider, toolProviders: [agentTools([bo])] });
  return { ada, bo, provider };
}

describe('an agent that is a tool of another', () => {
  it('S1-95 S4-54 runs below the tool call, with a journal of its own, and its text is the result', async () => {
    const { ada, provider } = pair([{ text: ['It ', 'is.'] }]);
    const turn = ada.startTurn('Ask Bo.', { taskId: 't' });
    const reader = watch(turn);
    const { messages } = await turn.result();
    expect(messages[1]).toMatchObject({ role: 'tool', content: 'It is.' });
    expect(provider.calls[0]?.tools).toMatchObject([{ function: { name: 'bo', description: 'Knows it.' } }]);
    expect(on.bench.store.load('t:1:0')).toMatchObject({ agentId: 'bo', finalMessage: 'It is.', status: 'completed' });
    const spans = on.bench.spans.spans();
    const tool = spans.find(({ name }) => name === 'tool[bo]');
    const below = spans.find(
      ({ name, attributes }) => name === 'agent.turn' && attributes['millrace.agent.id'] === 'bo',
    );
    expect(below?.parentSpanContext?.spanId).toBe(tool?.spanContext().spanId);
    const updates = updatesOf(reader.events);
    expect(updates.every((update) => pathOf(update) === 'bo')).toBe(true);
    expect(textsOf(updates.map(({ event }) => event))).toEqual({ 'answer-1': 'It is.' });
  });

  it.each(['MISSING_PACKAGE', 'INVALID_CONFIG'] as const)(
    'fails the calling turn with its %s, at any depth, and no model reads it',
    async (code) => {
      const wrong = new AgentLoopError(code, 'Set it up: npm install it.');
      const cy = on.agent([{ error: wrong }], { id: 'cy', contextId: 'cy' });
      const bo = on.agent([{ toolCalls: [{ name: 'cy', arguments: { message: 'Go.' } }] }], {
        id: 'bo',
        contextId: 'bo',
        toolProviders: [agentTools([cy])],
      });
      const provider = on.bench.model([askBo]);
      const ada = on.agent([], { provider, toolProviders: [agentTools([bo])] });
      const message = 'Agent "bo": Agent "cy": Set it up: npm install it.';
      await expect(ada.startTurn('Ask.', { taskId: 't' }).result()).rejects.toMatchObject({ code, message });
      expect(provider.calls).toHaveLength(1);
      expect(on.bench.store.load('t')).toMatchObject({ status: 'failed' });
    },
  );

  it('leaves other failures of it to the calling model', async () => {
    const { ada, provider } = pair([{ error: new AgentLoopError('PROVIDER_AUTH', 'No key.') }]);
    expect((await ada.startTurn('Ask.').result()).text).toBe('Bo says so.');
    expect(provider.calls[1]?.messages.at(-1)).toMatchObject({ role: 'tool', content: 'Tool error: No key.' });
  });

  it('tags the events of agents further down with the whole path', async () => {
    const cy = on.agent([{ text: 'Deep.' }], { id: 'cy', contextId: 'cy' });
    const askCy = [{ toolCalls: [{ name: 'cy', arguments: { message: 'How deep?' } }] }, { text: 'Cy says deep.' }];
    const { ada } = pair(askCy, { toolProviders: [agentTools([cy])] });
    const turn = ada.startTurn('Ask.', { taskId: 't' });
    const reader = watch(turn);
    await turn.result();
    const deep = updatesOf(reader.events).filter((update) => pathOf(update) === 'bo/cy');
    expect(textsOf(deep.map(({ event }) => event))).toEqual({ 'answer-1': 'Deep.' });
    expect(deep[0]?.event.taskId).toBe('t:1:0:1:0');
  });

  it('S1-95 is cancelled with the turn that called it', async () => {
    const bo = on.agent([{ never: true }], { id: 'bo', contextId: 'bo' });
    const ada = on.agent([askBo], { toolProviders: [agentTools([bo])] });
    const turn = ada.startTurn('Ask Bo.', { taskId: 't' });
    const reader = watch(turn);
    await reader.until('internal:sub-agent', ({ event }) => event.kind === 'internal:llm-call');
    await turn.cancel('enough');
    expect(on.bench.store.load('t:1:0')).toMatchObject({ status: 'canceled' });
    expect(on.bench.store.load('t')).toMatchObject({ status: 'canceled' });
  });

  it('S1-95 is left open where the process shuts down, and goes on with the turn that called it', async () => {
    const down = new AbortController();
    const options = { id: 'bo', contextId: 'bo', shutdown: down.signal };
    const bo = on.agent([{ never: true }], options);
    const ada = on.agent([askBo], { toolProviders: [agentTools([bo])], shutdown: down.signal });
    const reader = watch(ada.startTurn('Ask Bo.', { taskId: 't' }));
    await reader.until('internal:sub-agent', ({ event }) => event.kind === 'internal:llm-call');
    down.abort();
    await eventually(() => on.bench.store.list().some(({ taskId, held }) => taskId === 't:1:0' && !held));
    await new Promise(setImmediate);
    on.bench.clock.advance(5_000);
    await reader.ended;
    expect(reader.end).toMatchObject({ error: { code: 'SHUTDOWN' } });
    const heir = on.agent([{ text: 'It is.' }], { id: 'bo', contextId: 'bo' });
    const next = on.agent([{ text: 'So.' }], { toolProviders: [agentTools([heir])] });
    const { messages } = await next.resume('t').result();
    expect(messages.slice(1)).toMatchObject([{ role: 'tool', content: 'It is.' }, says('So.')]);
  });

  it('tells the model why it failed', async () => {
    const { ada, provider } = pair([{ error: new Error('no line') }]);
    await ada.run('Ask Bo.');
    expect(provider.calls[1]?.messages.at(-1)).toMatchObject({
      role: 'tool',
      status: 'error',
      content: expect.stringContaining('no line'),
    });
  });

  it('has the credentials of the turn that called it, also when that is resumed, and they are in no journal', async () => {
    const seen: unknown[] = [];
    const pay = plainTools({
      pay: { needsApproval: true, execute: ({ authContext }) => seen.push(['pay', authContext]) },
    });
    const { ada } = pair([{ toolCalls: [{ name: 'pay' }] }, { text: 'Paid.' }], { toolProviders: [pay] });
    await ada.run('Pay.', { taskId: 't', authContext: { user: 'u-1' } });
    const authContext = { user: 'u-2' };
    await ada.resume('t', { answers: { '1:0': { approved: true } }, authContext }).result();
    expect(seen).toEqual([['pay', authContext]]);
    const journals = ['t', 't:1:0'].map((taskId) => on.bench.store.read(taskId));
    expect(JSON.stringify(journals)).not.toMatch(/u-1|u-2/);
  });

  it('shares the extensions that the caller gives', async () => {
    const calls: string[] = [];
    const shared: Extension = { name: 'shared', beforeLLMCall: (_, { agentId }) => void calls.push(agentId) };
    const bo = on.agent([{ text: 'It is.' }], { id: 'bo', contextId: 'bo' });
    const ada = on.agent([askBo, { text: 'So.' }], {
      extensions: [shared],
      toolProviders: [agentTools([bo], { extensions: [shared] })],
    });
    await ada.run('Ask Bo.');
    expect(calls).toEqual(['ada', 'bo', 'ada']);
  });

  it('S1-95 shares a budget with the agent that calls it', async () => {
    const usage = { promptTokens: 400, completionTokens: 300, totalTokens: 700 };
    const shared = budget({ maxTokens: 1_500, answerTokens: 10 });
    const bo = on.agent([{ text: 'It is.', usage }], { id: 'bo', contextId: 'bo' });
    const ada = on.agent([{ ...askBo, usage }], {
      extensions: [shared.extension()],
      toolProviders: [agentTools([bo], { extensions: [shared.extension()] })],
    });
    const asked = ada.run(`Ask Bo. ${'word '.repeat(200)}`);
    await expect(asked).rejects.toMatchObject({ code: 'LIMIT', reason: 'max_tokens' });
    expect(shared.used.totalTokens).toBe(1_400);
  });

  it('asks through the turn that called it, question by question, and goes on with each answer', async () => {
    const paid: unknown[] = [];
    const pay = plainTools({ pay: { needsApproval: true, execute: ({ callId }) => paid.push(callId) } });
    const both = { toolCalls: [{ name: 'pay' }, { name: 'pay' }] };
    const { ada, bo } = pair([both, { text: 'Paid one.' }], { toolProviders: [pay] });
    const first = await ada.run('Pay.', { taskId: 't' });
    expect(first).toMatchObject({
      status: 'input-required',
      questions: [{ id: '1:0', kind: 'input', data: { agentId: 'bo', taskId: 't:1:0', question: { id: '1:0' } } }],
    });
    const second = await ada.resume('t', { answers: { '1:0': { approved: true } } }).result();
    expect(second).toMatchObject({
      status: 'input-required',
      questions: [{ id: '1:0.2', data: { question: { id: '1:1' } } }],
    });
    const third = await ada.resume('t', { answers: { '1:0.2': { approved: false, reason: 'too much' } } }).result();
    expect(third).toMatchObject({ status: 'completed', text: 'Bo says so.' });
    expect(paid).toEqual(['1:0']);
    expect(bo.state).toBe('ready');
  });

  it('S1-95 goes on after a crash of both, where each was: no finished call of either is repeated', async () => {
    const ran: string[] = [];
    const count = plainTools({ count: () => ran.push('count') });
    deadTurn(on.bench, [begun, firstCall, ...calling('count', {}), resultOf(0, '2')], childOfAda);
    deadTurn(on.bench, [begun, firstCall, ...calling('bo', { message: 'What is it?' })], { agentId: 'ada' });
    const bo = on.agent([{ text: 'It is two.' }], { id: 'bo', contextId: 'bo', toolProviders: [count] });
    const provider = on.bench.model([{ text: 'Bo says two.' }]);
    const ada = on.agent([], { provider, toolProviders: [agentTools([bo])] });
    await expect(ada.resume('t').result()).resolves.toMatchObject({ text: 'Bo says two.' });
    expect(provider.calls[0]?.messages.at(-1)).toMatchObject({ role: 'tool', content: 'It is two.' });
    expect(ran).toEqual([]);
  });

  it.each([
    ['suspended', 'input-required'],
    ['left by its process', 'working'],
  ])('S1-95 is cancelled with a turn that was %s', async (how, status) => {
    const pay = plainTools({ pay: { needsApproval: true, execute: () => 'paid' } });
    const dead = how !== 'suspended';
    const paying = dead ? [] : [{ toolCalls: [{ name: 'pay' }] }];
    const bo = on.agent(paying, { id: 'bo', contextId: 'bo', toolProviders: [pay] });
    const ada = on.agent(dead ? [] : [askBo], { toolProviders: [agentTools([bo])] });
    if (!dead) await ada.run('Pay.', { taskId: 't' });
    else {
      deadTurn(on.bench, [begun, firstCall], childOfAda);
      deadTurn(on.bench, [begun, firstCall, ...calling('bo', { message: 'What is it?' })], { agentId: 'ada' });
    }
    expect(on.bench.store.load('t:1:0')).toMatchObject({ status });
    await ada.cancel('t', 'enough');
    expect(on.bench.store.load('t')).toMatchObject({ status: 'canceled' });
    expect(on.bench.store.load('t:1:0')).toMatchObject({ status: 'canceled' });
  });

  it('does not run a turn again that had ended when its caller died', async () => {
    const bo = on.agent([{ text: 'It is.' }], { id: 'bo', contextId: 'bo' });
    await bo.run('What is it?', { taskId: 't:1:0', contextId: 't:1:0' });
    const ada = on.agent([askBo, { text: 'So.' }], { toolProviders: [agentTools([bo])] });
    const { messages } = await ada.run('Ask Bo.', { taskId: 't' });
    expect(messages.slice(1)).toMatchObject([{ role: 'tool', content: 'It is.' }, says('So.')]);
  });

  it('says that a question needs a store to wait in', async () => {
    const pay = plainTools({ pay: { needsApproval: true, execute: () => 'paid' } });
    const bo = agent({
      name: 'bo',
      provider: on.bench.model([{ toolCalls: [{ name: 'pay' }] }]),
      toolProviders: [pay],
      clock: on.bench.clock,
    });
    const provider = on.bench.model([askBo, { text: 'No.' }]);
    const ada = agent({ name: 'ada', provider, toolProviders: [agentTools([bo])], clock: on.bench.clock });
    await ada.run('Ask Bo.');
    expect(provider.calls[1]?.messages.at(-1)).toMatchObject({
      content: expect.stringContaining('set the taskStateStore of the calling agent'),
    });
  });

  it('says what is wrong with its options', () => {
    const bo = on.agent([], { id: 'bo' });
    const made = (...given: unknown[]) => Reflect.apply(agentTools, undefined, given);
    expect(() => made([{}])).toThrow(/agentTools needs agents/);
    expect(() => made([bo], { timeout: 5 })).toThrow(/agentTools has no option "timeout"/);
    expect(() => made([bo], { extensions: 7 })).toThrow(/extensions must be an array/);
  });
});
