import { describe, expect, it } from '@jest/globals';
import {
  AgentLoopError,
  agentTools,
  type Extension,
  type JournalRecord,
  limits,
  type ToolCall,
  type ToolContext,
} from 'millrace';
import { gate, type ScriptedLLMStep } from 'millrace/testing';
import { plainTools } from '../core/plain-tools.ts';
import { ofKind, textsOf, watch } from '../core/watch-events.ts';
import { agentBench, passing, seenBy, stoppedProcess } from './agent-bench.ts';

const on = agentBench();
const askBo: ScriptedLLMStep = { toolCalls: [{ name: 'bo', arguments: { message: 'What is it?' } }] };
const askCy: ScriptedLLMStep = { toolCalls: [{ name: 'cy', arguments: { message: 'How deep?' } }] };

const types = (taskId: string) => on.bench.store.read(taskId).map(({ type }) => type);

/** The tasks of a turn that calls `bo`, which calls `cy`: the deepest first. */
const tree = () => ['t:1:0:1:0', 't:1:0', 't'];

describe('the events of child turns', () => {
  const deep = () => {
    const cy = on.agent([{ text: ['De', 'ep', '.'] }], { id: 'cy' });
    const bo = on.agent([askCy, { text: 'Cy says deep.' }], { id: 'bo', toolProviders: [agentTools([cy])] });
    return on.agent([askBo, { text: 'So.' }], { toolProviders: [agentTools([bo])] });
  };

  it('T-09 come in one flat wrapper with the way to the turn, at any depth', async () => {
    const turn = deep().startTurn('Ask.', { taskId: 't' });
    const reader = watch(turn);
    await turn.result();
    const below = reader.of('internal:sub-agent').filter(({ path }) => path.length === 2);
    expect(below.every(({ event }) => event.kind !== ('internal:sub-agent' as string))).toBe(true);
    expect(below[0]).toMatchObject({
      taskId: 't',
      agentId: 'cy',
      path: [
        { agentId: 'bo', taskId: 't:1:0', callId: '1:0' },
        { agentId: 'cy', taskId: 't:1:0:1:0', callId: '1:0' },
      ],
      event: { kind: 'task', taskId: 't:1:0:1:0' },
    });
    expect(textsOf(below.map(({ event }) => event))).toEqual({ 'answer-1': 'Deep.' });
    expect(ofKind(reader.events, 'status-update').filter(({ final }) => final)).toHaveLength(1);
  });

  it.each([
    ['records' as const, (cursor: string | undefined) => cursor !== undefined],
    ['none' as const, () => false],
  ])('are filtered by subAgentEvents: %s', async (subAgentEvents, isShown) => {
    const bo = on.agent([{ text: ['It ', 'is.'] }], { id: 'bo' });
    const ada = on.agent([askBo, { text: 'So.' }], { toolProviders: [agentTools([bo])], subAgentEvents });
    const turn = ada.startTurn('Ask.', { taskId: 't' });
    const reader = watch(turn);
    await turn.result();
    const shown = reader.of('internal:sub-agent');
    expect(shown.every(({ event }) => isShown(event.cursor))).toBe(true);
    expect(shown.length > 0).toBe(subAgentEvents === 'records');
  });

  it('T-10 are published once, in the stream of their own turn', async () => {
    const published: Record<string, number> = {};
    const { store } = on.bench;
    const publish = store.publish.bind(store);
    store.publish = (taskId, delta) => {
      published[taskId] = (published[taskId] ?? 0) + JSON.stringify(delta).length;
      publish(taskId, delta);
    };
    await deep().run('Ask.', { taskId: 't' });
    const own = published['t:1:0:1:0'] ?? 0;
    expect(own).toBeGreaterThan(0);
    const texts = (taskId: string) => published[taskId] ?? 0;
    expect(texts('t:1:0')).toBeLessThan(own);
    expect(texts('t')).toBeLessThan(own);
  });
});

describe('the usage of child turns', () => {
  const used = (totalTokens: number) => ({ promptTokens: totalTokens - 1, completionTokens: 1, totalTokens });

  it('T-17 counts for the whole tree, by agent and model, with failed and suspended child turns, and nothing twice', async () => {
    const pay = plainTools({ pay: { needsApproval: true, execute: () => 'paid' } });
    const cy = on.agent(
      [
        { toolCalls: [{ name: 'pay' }], usage: used(100) },
        { text: 'Paid.', usage: used(10) },
      ],
      {
        id: 'cy',
        toolProviders: [pay],
      },
    );
    const di = on.agent([{ toolCalls: [{ name: 'pay' }], usage: used(1_000) }, { error: new Error('no line') }], {
      id: 'di',
      toolProviders: [plainTools({ pay: () => 'paid' })],
    });
    const bo = on.agent(
      [
        { ...askCy, usage: used(10_000) },
        { text: 'Deep.', usage: used(20_000) },
      ],
      {
        id: 'bo',
        toolProviders: [agentTools([cy])],
      },
    );
    const both: ScriptedLLMStep = {
      toolCalls: [
        { name: 'bo', arguments: { message: 'Go.' } },
        { name: 'di', arguments: { message: 'Go.' } },
      ],
      usage: used(2),
    };
    const ada = on.agent([both, { text: 'So.', usage: used(3) }], { toolProviders: [agentTools([bo, di])] });
    const first = await ada.run('Go.', { taskId: 't' });
    const result = await ada.resume('t', { answers: { '1:0': { approved: true } } }).result();
    const by = Object.fromEntries(result.usageBy.map(({ agentId, usage }) => [agentId, usage.totalTokens]));
    // The model call of di that failed is not in it: it reported no usage.
    expect(by).toEqual({ ada: 5, bo: 30_000, cy: 110, di: 1_000 });
    expect(result.usage.totalTokens).toBe(5 + 30_000 + 110 + 1_000);
    expect(first.usage.totalTokens).toBe(2 + 10_000 + 100 + 1_000);
    expect(result.ownUsage.totalTokens).toBe(5);
    expect([ada, bo, cy, di].map((each) => each.usage?.usage.totalTokens)).toEqual([5, 30_000, 110, 1_000]);
  });

  it('T-17 counts a child turn that ended before its parent was resumed', async () => {
    let isKilled = false;
    const dying = seenBy(on.bench.store, (method, taskId, [, records]) => {
      isKilled ||=
        method === 'append' &&
        taskId === 't' &&
        Array.isArray(records) &&
        records.some(({ type }: JournalRecord) => type === 'tool.result');
      return isKilled ? Promise.reject(new AgentLoopError('FENCED', 'The process was killed.')) : undefined;
    });
    const bo = on.agent([{ text: 'It is.', usage: used(400) }], { id: 'bo' });
    const toolProviders = [agentTools([bo])];
    const dead = on.agent([{ ...askBo, usage: used(300) }, { text: 'Stale.' }], {
      toolProviders,
      taskStateStore: dying,
    });
    await expect(dead.run('Go.', { taskId: 't' })).rejects.toMatchObject({ code: 'FENCED' });
    on.bench.leases.advance(30_000);
    expect(types('t:1:0').at(-1)).toBe('turn.done');
    const { usage } = await on
      .agent([{ text: 'So.', usage: used(30) }], { toolProviders })
      .resume('t')
      .result();
    expect(usage.totalTokens).toBe(730);
  });

  it('T-18 reaches the limits of the turns above: the child turn is cancelled, and the turn fails with LIMIT', async () => {
    const step = { toolCalls: [{ name: 'count' }], usage: used(400) };
    const bo = on.agent([step, step, step], { id: 'bo', toolProviders: [plainTools({ count: () => 1 })] });
    const ada = on.agent([{ ...askBo, usage: used(10) }], {
      toolProviders: [agentTools([bo])],
      extensions: [limits({ maxTokens: 1_000 })],
    });
    const run = ada.run('Go.', { taskId: 't' });
    await expect(run).rejects.toMatchObject({ code: 'LIMIT', reason: 'max_tokens' });
    expect(types('t:1:0').at(-1)).toBe('turn.canceled');
    expect(types('t').at(-1)).toBe('turn.failed');
    expect(types('t:1:0').filter((type) => type === 'llm.done')).toHaveLength(3);
  });

  it('T-18 reaches the limits of a turn two levels above', async () => {
    const step = { toolCalls: [{ name: 'count' }], usage: used(400) };
    const cy = on.agent([step, step, step], { id: 'cy', toolProviders: [plainTools({ count: () => 1 })] });
    const bo = on.agent([askCy], { id: 'bo', toolProviders: [agentTools([cy])] });
    const ada = on.agent([askBo], { toolProviders: [agentTools([bo])], extensions: [limits({ maxTokens: 1_000 })] });
    await expect(ada.run('Go.', { taskId: 't' })).rejects.toMatchObject({ code: 'LIMIT', reason: 'max_tokens' });
    expect(tree().map((taskId) => types(taskId).at(-1))).toEqual(['turn.canceled', 'turn.canceled', 'turn.failed']);
  });

  it('T-17 counts the model calls of a tool besides those of its child turn', async () => {
    const bo = on.agent([{ text: 'It is.', usage: used(70) }], { id: 'bo' });
    const asks = agentTools([bo]);
    const telling = {
      getTools: asks.getTools.bind(asks),
      executeTool(call: ToolCall, context: ToolContext) {
        context.noteUsage(used(9));
        return asks.executeTool(call, context);
      },
    };
    const ada = on.agent(
      [
        { ...askBo, usage: used(5) },
        { text: 'So.', usage: used(10) },
      ],
      {
        toolProviders: [telling],
      },
    );
    const { usage, usageBy } = await ada.run('Go.', { taskId: 't' });
    expect(usage.totalTokens).toBe(94);
    expect(usageBy.map(({ agentId, usage }) => [agentId, usage.totalTokens])).toEqual([
      ['ada', 24],
      ['bo', 70],
    ]);
  });

  it('T-17 counts a child turn for its agent, also where an extension changed the result of the call', async () => {
    const bo = on.agent([{ text: 'It is.', usage: used(70) }], { id: 'bo' });
    const steps = [
      { ...askBo, usage: used(5) },
      { text: 'So.', usage: used(10) },
    ];
    const shortening: Extension = {
      name: 'shortening',
      afterToolCall: ({ result }) => ({ result: { content: `${result.content}`.slice(0, 2) } }),
    };
    const ada = on.agent(steps, { toolProviders: [agentTools([bo])], extensions: [shortening] });
    const { ownUsage, usageBy } = await ada.run('Go.', { taskId: 't' });
    expect(usageBy.map(({ agentId, usage }) => [agentId, usage.totalTokens])).toEqual([
      ['ada', 15],
      ['bo', 70],
    ]);
    expect(ownUsage.totalTokens).toBe(15);
  });

  it('T-18 counts what a child turn had used before a crash', async () => {
    const first = stoppedProcess(on.bench.store);
    const stopped = gate();
    const counting = plainTools({ count: () => 1 });
    const step = { toolCalls: [{ name: 'count' }], usage: used(400) };
    const old = on.agent([step, step, () => ({ gate: stopped.pass(), text: 'Never.' })], {
      id: 'bo',
      toolProviders: [counting],
    });
    const dead = on.agent([{ ...askBo, usage: used(300) }, { text: 'Stale.' }], {
      toolProviders: [agentTools([old])],
      taskStateStore: first.store,
    });
    const lost = dead.startTurn('Go.', { taskId: 't', detached: true });
    await stopped.reached;
    first.freeze();
    on.bench.leases.advance(30_000);
    const bo = on.agent([], { id: 'bo', toolProviders: [counting] });
    const ada = on.agent([], { toolProviders: [agentTools([bo])], extensions: [limits({ maxTokens: 1_000 })] });
    await expect(ada.resume('t').result()).rejects.toMatchObject({ code: 'LIMIT', reason: 'max_tokens' });
    expect(types('t:1:0').at(-1)).toBe('turn.canceled');
    first.wake();
    stopped.open();
    await expect(passing(on.bench.clock, lost.settled)).rejects.toMatchObject({ code: 'FENCED' });
  });
});
