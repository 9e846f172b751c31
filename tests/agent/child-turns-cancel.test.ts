import { describe, expect, it } from '@jest/globals';
import { AgentLoopError, agentTools, type JournalRecord, type ToolContext } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { gate, type ScriptedLLMStep } from 'millrace/testing';
import { plainTools } from '../core/plain-tools.ts';
import { watch } from '../core/watch-events.ts';
import { agentBench, seenBy } from './agent-bench.ts';

const on = agentBench();
const askBo: ScriptedLLMStep = { toolCalls: [{ name: 'bo', arguments: { message: 'What is it?' } }] };
const askCy: ScriptedLLMStep = { toolCalls: [{ name: 'cy', arguments: { message: 'How deep?' } }] };

const types = (taskId: string) => on.bench.store.read(taskId).map(({ type }) => type);

/** The tasks of a turn that calls `bo`, which calls `cy`: the deepest first. */
const tree = () => ['t:1:0:1:0', 't:1:0', 't'];

describe('a cancel', () => {
  /** ada → bo → cy, of which cy waits for an approval. */
  const suspended = async () => {
    const pay = plainTools({ pay: { needsApproval: true, execute: () => 'paid' } });
    const cy = on.agent([{ toolCalls: [{ name: 'pay' }] }], { id: 'cy', toolProviders: [pay] });
    const bo = on.agent([askCy], { id: 'bo', toolProviders: [agentTools([cy])] });
    const ada = on.agent([askBo], { toolProviders: [agentTools([bo])] });
    expect(await ada.run('Ask.', { taskId: 't' })).toMatchObject({ status: 'input-required' });
  };
  it('T-07 of a suspended turn ends its descendants first, with the store alone', async () => {
    await suspended();
    const ended: string[] = [];
    const store = seenBy(on.bench.store, (method, taskId) => {
      if (method === 'append') ended.push(taskId);
      return undefined;
    });
    await AgentLoop.cancel('t', { store, reason: 'enough', clock: on.bench.clock });
    expect(ended).toEqual(tree());
    for (const taskId of tree()) {
      expect(on.bench.store.read(taskId).at(-1)).toMatchObject({ type: 'turn.canceled', reason: 'enough' });
    }
  });

  it.each([1, 2, 3])('T-07 that was killed at append %i does the rest when it is repeated', async (nth) => {
    await suspended();
    let appends = 0;
    const dying = seenBy(on.bench.store, (method) => {
      if (method !== 'append' || ++appends < nth) return undefined;
      return Promise.reject(new AgentLoopError('UNAVAILABLE', 'The process was killed.'));
    });
    await expect(AgentLoop.cancel('t', { store: dying, clock: on.bench.clock })).rejects.toMatchObject({
      code: 'UNAVAILABLE',
    });
    await AgentLoop.cancel('t', { store: on.bench.store, clock: on.bench.clock });
    for (const taskId of tree()) {
      expect(types(taskId).filter((type) => type === 'turn.canceled')).toHaveLength(1);
    }
  });

  it('T-07 of a running turn ends a child turn that is suspended, before its own end is recorded', async () => {
    const pay = plainTools({ pay: { needsApproval: true, execute: () => 'paid' } });
    const bo = on.agent([{ toolCalls: [{ name: 'pay' }] }], { id: 'bo', toolProviders: [pay] });
    const slow = gate();
    const wait = plainTools({ wait: () => slow.pass() });
    const both = { toolCalls: [{ name: 'bo', arguments: { message: 'Pay.' } }, { name: 'wait' }] };
    const ended: string[] = [];
    const isEnd = (record: JournalRecord) => record.type === 'turn.canceled';
    const store = seenBy(on.bench.store, (method, taskId, [, records]) => {
      if (method === 'append' && Array.isArray(records) && records.some(isEnd)) ended.push(taskId);
      return undefined;
    });
    const ada = on.agent([both], { toolProviders: [agentTools([bo]), wait], taskStateStore: store });
    const turn = ada.startTurn('Go.', { taskId: 't' });
    const reader = watch(turn);
    await reader.until('status-update', ({ status }) => status.state === 'input-required');
    const canceled = turn.cancel('enough');
    slow.open();
    await canceled;
    expect(ended).toEqual(['t:1:0', 't']);
  });

  it('T-07 of a running turn ends a child turn that has just asked', async () => {
    const pay = plainTools({ pay: { needsApproval: true, execute: () => 'paid' } });
    const bo = on.agent([{ toolCalls: [{ name: 'pay' }] }], { id: 'bo', toolProviders: [pay] });
    const store = seenBy(on.bench.store, (method, taskId) => {
      if (method === 'release' && taskId === 't:1:0') void turn.cancel('enough');
      return undefined;
    });
    const turn = on.agent([askBo], { toolProviders: [agentTools([bo])], taskStateStore: store }).startTurn('Go.', {
      taskId: 't',
      detached: true,
    });
    await expect(turn.result()).rejects.toMatchObject({ code: 'CANCELED' });
    expect(types('t:1:0').slice(-2)).toEqual(['turn.suspended', 'turn.canceled']);
    expect(on.bench.store.read('t')).toContainEqual(
      expect.objectContaining({
        type: 'tool.result',
        error: { code: 'CANCELED', reason: 'stopped', message: 'enough' },
      }),
    );
  });

  it('by a time limit of the call ends the child turn before the result is recorded, which has its usage', async () => {
    const usage = { promptTokens: 10, completionTokens: 5, totalTokens: 15 };
    const never = { toolCalls: [{ name: 'wait' }], usage };
    const wait = plainTools({
      wait: ({ signal }: ToolContext) =>
        new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
    });
    const bo = on.agent([never], { id: 'bo', toolProviders: [wait] });
    const ada = on.agent([askBo, { text: 'So.' }], { toolProviders: [agentTools([bo], { timeoutMs: 1_000 })] });
    const turn = ada.startTurn('Go.', { taskId: 't' });
    const reader = watch(turn);
    await reader.until('internal:sub-agent', ({ event }) => event.kind === 'internal:tool-start');
    on.bench.clock.advance(1_000);
    await turn.result();
    const result = on.bench.store.read('t').find(({ type }) => type === 'tool.result');
    expect(result).toMatchObject({ success: false, error: { code: 'TOOL_TIMEOUT' }, usage });
    expect(types('t:1:0').at(-1)).toBe('turn.canceled');
  });
});
