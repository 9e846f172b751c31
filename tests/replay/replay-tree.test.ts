import { describe, expect, it } from '@jest/globals';
import { agentTools, branch, inParallel, replay, router } from 'millrace';
import type { ScriptedLLMStep } from 'millrace/testing';
import { teamBench } from '../agent/team-bench.ts';
import { plainTools } from '../core/plain-tools.ts';

const bench = teamBench();
const { on } = bench;
const usage = { promptTokens: 6, completionTokens: 4, totalTokens: 10 };
const askBo: ScriptedLLMStep = { toolCalls: [{ name: 'bo', arguments: { message: 'Go.' } }], usage };
const so: ScriptedLLMStep = { text: 'So.', usage };

describe('a replay of a turn with child turns', () => {
  it('gives the result of a sub-agent again, with its usage, and runs nothing', async () => {
    const bo = on.agent([{ text: 'It is.', usage }], { id: 'bo' });
    const toolProviders = [agentTools([bo])];
    await on.agent([askBo, so], { toolProviders }).run('Ask.', { taskId: 't' });
    const records = on.bench.store.read('t');
    const result = await replay(records).result();
    expect(result).toMatchObject({ text: 'So.', usage: { totalTokens: 30 } });
    await expect(replay(records, { toolProviders }).result()).resolves.toMatchObject({ usage: { totalTokens: 30 } });
  });

  it('gives a sub-agent again that failed, and one that asked', async () => {
    const pay = plainTools({ pay: { needsApproval: true, execute: () => 'paid' } });
    const steps = [{ toolCalls: [{ name: 'pay' }], usage }, { error: new Error('no line') }];
    const bo = on.agent(steps, { id: 'bo', toolProviders: [pay] });
    const ada = on.agent([askBo, so], { toolProviders: [agentTools([bo])] });
    await ada.run('Ask.', { taskId: 't' });
    await ada.resume('t', { answers: { '1:0': { approved: true } } }).result();
    const records = on.bench.store.read('t');
    await expect(replay(records).result()).resolves.toMatchObject({ text: 'So.' });
  });

  it('gives the usage of a branch and of a router again', async () => {
    const child = on.agent([{ text: 'Yes.', usage }], { id: 'child' });
    const reviewing = {
      name: 'reviewing',
      async beforeFinish(finish: Parameters<typeof branch>[0]) {
        await branch(finish, { agent: child, messages: [{ role: 'user', content: 'Is it?' }] });
        return undefined;
      },
    };
    await on.agent([so], { extensions: [reviewing] }).run('Ask.', { taskId: 't' });
    await expect(replay(on.bench.store.read('t')).result()).resolves.toMatchObject({ usage: { totalTokens: 20 } });
    const taskStateStore = on.bench.store;
    const guide = bench.player('guide', [{ text: 'd', usage }]);
    const routed = bench.made([guide, bench.player('d', [so])], { routing: router('guide'), taskStateStore });
    await routed.ask('Go.', { taskId: 'routed' });
    const again = replay(taskStateStore.read('routed')).result();
    await expect(again).resolves.toMatchObject({ text: 'So.', usage: { totalTokens: 20 } });
  });

  it('gives answers in parallel again', async () => {
    const taskStateStore = on.bench.store;
    const both = [bench.player('a', [{ text: 'A.', usage }]), bench.player('b', [{ text: 'B.', usage }])];
    await bench.made(both, { routing: inParallel(['a', 'b']), taskStateStore }).ask('Go.', { taskId: 'both' });
    const again = replay(taskStateStore.read('both')).result();
    await expect(again).resolves.toMatchObject({ text: 'A.\n\nB.', usage: { totalTokens: 20 } });
  });
});
