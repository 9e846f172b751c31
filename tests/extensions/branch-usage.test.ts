import { describe, expect, it } from '@jest/globals';
import {
  AgentLoopError,
  agent,
  agentTools,
  branch,
  type Extension,
  foldRecords,
  InMemoryStateStore,
  limits,
  replay,
  systemClock,
} from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { model as answering } from '../agent/mortal-team.ts';
import { answerOf, deadTurn, firstCall, intentOf, question } from '../core/dead-turn.ts';
import { plainTools } from '../core/plain-tools.ts';
import { turnBench } from '../core/turn-bench.ts';
import { VirtualProcess } from '../crash/in-process.ts';
import { mortalStore } from '../crash/workload/mortal-store.ts';

const bench = turnBench();
const usage = { promptTokens: 10, completionTokens: 5, totalTokens: 15 };
const read = [{ agentId: 'reader', usage }];
const review = { role: 'user', content: 'Is that right?' } as const;
const counting = { toolCalls: [{ name: 'count' }] };
const toolProviders = [plainTools({ count: () => 2, list: () => 3 })];
const hooks = ['beforeLLMCall', 'beforeToolCall', 'approveToolCall'] as const;
type Hook = (typeof hooks)[number];
type Asks = (context: Parameters<typeof branch>[0]) => Promise<void>;

/** Asks in one hook, and decides nothing. */
function asking(hook: Hook, ask: Asks, name = 'reviewer'): Extension {
  const both: Pick<Extension, 'beforeToolCall' | 'approveToolCall'> = {
    beforeToolCall: async (request) => ask(request),
    approveToolCall: async (request) => ask(request),
  };
  if (hook === 'beforeLLMCall') return { name, beforeLLMCall: async (_, context) => ask(context) };
  return { name, [hook]: both[hook] };
}

/** Asks a reader once, in the first iteration. */
function reviewing(hook: Hook, times = 1): Extension {
  const reader = bench.config(bench.model(Array.from({ length: times }, () => ({ text: 'Yes.', usage }))), {
    agentId: 'reader',
  });
  return asking(hook, async (context) => {
    if (context.iteration !== 1) return;
    await branch(context, { config: reader, messages: [review], name: 'review' });
  });
}

const branches = (taskId: string) => bench.store.read(taskId).filter((record) => 'branch' in record);

describe('what a child turn of a hook before a call used', () => {
  it.each(hooks)('T-17 counts once in %s, in the record of the hook, and a replay says the same', async (hook) => {
    const model = bench.model([counting, { text: 'Two.' }]);
    const config = bench.config(model, { toolProviders, extensions: [reviewing(hook)] });
    const result = await new AgentLoop(config).startTurn(question, { taskId: 't' }).result();
    expect([result.usage, result.usageBy]).toEqual([usage, read]);
    expect(bench.store.load('t')?.usage).toEqual(usage);
    expect(branches('t')).toMatchObject([
      { type: 'x.reviewer', hook, branch: '1.review', effects: { usage, usageBy: read } },
    ]);
    const records = bench.store.read('t');
    expect(foldRecords(records).usage).toEqual(usage);
    for (const options of [{}, { toolProviders }]) {
      const again = await replay(records, options).result();
      expect([again.deviations, again.usage, again.records]).toEqual([[], usage, records]);
    }
  });

  it.each(hooks)('T-17 is part of the budget from %s on: the turn fails before its next call', async (hook) => {
    const model = bench.model([{ ...counting, usage }]);
    const extensions = [reviewing(hook), limits({ maxTokens: 20 })];
    const config = bench.config(model, { toolProviders, extensions });
    const turn = new AgentLoop(config).startTurn(question, { taskId: 't' });
    await expect(turn.result()).rejects.toMatchObject({ code: 'LIMIT', result: { usage: { totalTokens: 30 } } });
    const again = await replay(bench.store.read('t')).result();
    expect([again.deviations, again.usage.totalTokens]).toEqual([[], 30]);
  });

  it.each(hooks)('T-17 counts once in %s, at whatever moment the process dies', async (hook) => {
    const leaseMs = 10_000;
    const interrupted = async (dieAt: number) => {
      let passedMs = 0;
      const store = new InMemoryStateStore({ clock: { ...systemClock, now: () => systemClock.now() + passedMs } });
      const run = (life: VirtualProcess) => {
        const common = { clock: life.clock, leaseMs, enableTracing: false, taskStateStore: mortalStore(store, life) };
        const reader = {
          ...common,
          agentId: 'reader',
          llmProvider: { call: async () => ({ message: { role: 'assistant' as const, content: 'Yes.' }, usage }) },
        };
        const reviewer = asking(hook, async (context) => {
          if (context.iteration !== 1) return;
          await branch(context, { config: reader, messages: [review], name: 'review' });
        });
        const config = {
          ...common,
          agentId: 'tester',
          llmProvider: answering(({ role }) => (role === 'tool' ? 'Two.' : { call: 'count', args: {} })),
          toolProviders: [plainTools({ count: { idempotent: true, onInDoubt: 'retry', execute: () => 2 } })],
          extensions: [reviewer],
        };
        return store.load('t')
          ? AgentLoop.resume('t', config)
          : new AgentLoop(config).startTurn(question, { taskId: 't' });
      };
      const doomed = new VirtualProcess(dieAt);
      const ran = run(doomed).result();
      ran.catch(() => {});
      const died = (await Promise.race([doomed.death, ran])) === 'died';
      if (died) passedMs += leaseMs;
      const { text, usageBy } = await run(new VirtualProcess(Number.POSITIVE_INFINITY)).result();
      const records = store.read('t');
      const again = await replay(records).result();
      return { died, seen: { text, read: usageBy.filter(({ agentId }) => agentId === 'reader') }, records, again };
    };
    let deaths = 0;
    for (let dieAt = 1; ; dieAt++) {
      const { died, seen, records, again } = await interrupted(dieAt);
      expect({ dieAt, ...seen }).toEqual({ dieAt, text: 'Two.', read });
      expect({ dieAt, deviations: again.deviations, records: again.records }).toEqual({
        dieAt,
        deviations: [],
        records,
      });
      if (!died) break;
      deaths++;
    }
    expect(deaths).toBeGreaterThan(15);
  });

  it.each(hooks)('T-17 counts in the turn of a sub-agent whose %s asks, and so in its parent', async (hook) => {
    const helper = agent({
      id: 'helper',
      provider: bench.model([counting, { text: 'Done.' }]),
      toolProviders,
      extensions: [reviewing(hook)],
      clock: bench.clock,
    });
    const parent = agent({
      id: 'parent',
      provider: bench.model([{ toolCalls: [{ name: 'helper', arguments: { message: 'Help.' } }] }, { text: 'Good.' }]),
      toolProviders: [agentTools([helper])],
      taskStateStore: bench.store,
      clock: bench.clock,
    });
    const result = await parent.startTurn('Go.', { taskId: 't' }).result();
    expect([result.usage, result.usageBy]).toEqual([usage, expect.arrayContaining(read)]);
    const [child] = bench.store.list({ parentTaskId: 't' });
    expect(bench.store.load(child?.taskId ?? '')?.usage).toEqual(usage);
    const again = await replay(bench.store.read('t')).result();
    expect([again.deviations, again.usage]).toEqual([[], usage]);
  });

  it('T-17 counts once where several hooks find the same child turn', async () => {
    const reader = bench.config(bench.model([{ text: 'Yes.', usage }]), { agentId: 'reader' });
    const ask: Asks = async (context) => {
      if (context.iteration === 1) await branch(context, { config: reader, messages: [review] });
    };
    const extensions = hooks.map((hook) => asking(hook, ask, hook));
    extensions.push({ name: 'last', afterLLMCall: async (_, context) => ask(context) });
    const model = bench.model([{ toolCalls: [{ name: 'count' }, { name: 'list' }] }, { text: 'Two.' }]);
    const config = bench.config(model, { toolProviders, extensions });
    const result = await new AgentLoop(config).startTurn(question, { taskId: 't' }).result();
    expect([result.usage, result.usageBy]).toEqual([usage, read]);
    const again = await replay(bench.store.read('t')).result();
    expect([again.deviations, again.usage]).toEqual([[], usage]);
  });

  it.each(['beforeToolCall', 'approveToolCall'] as const)(
    'T-17 counts for each of two calls whose %s asks, in a replay too',
    async (hook) => {
      const reader = bench.config(
        bench.model([
          { text: 'Yes.', usage },
          { text: 'Yes.', usage },
        ]),
        {
          agentId: 'reader',
        },
      );
      const extension: Extension = {
        name: 'reviewer',
        [hook]: async (request: Parameters<NonNullable<Extension['beforeToolCall']>>[0]) => {
          await branch(request, { config: reader, messages: [review], name: request.callId.replace(':', '-') });
        },
      };
      const model = bench.model([{ toolCalls: [{ name: 'count' }, { name: 'list' }] }, { text: 'Two.' }]);
      const config = bench.config(model, { toolProviders, extensions: [extension], toolConcurrency: 1 });
      const result = await new AgentLoop(config).startTurn(question, { taskId: 't' }).result();
      expect(result.usage.totalTokens).toBe(30);
      expect(branches('t').map((record) => 'callId' in record && record.callId)).toEqual(['1:0', '1:1']);
      const again = await replay(bench.store.read('t')).result();
      expect([again.deviations, again.usage]).toEqual([[], result.usage]);
    },
  );

  it('T-17 counts once where a call waits for its approval, and is decided about again in another process', async () => {
    const deciding = (times: number): Extension => {
      const reader = bench.config(bench.model(Array.from({ length: times }, () => ({ text: 'Ask.', usage }))), {
        agentId: 'reader',
      });
      const ask: Asks = async (context) => {
        await branch(context, { config: reader, messages: [review] });
      };
      return {
        name: 'reviewer',
        beforeToolCall: async (request) => ask(request),
        approveToolCall: async (request) => {
          await ask(request);
          return { decision: 'ask' };
        },
      };
    };
    const first = bench.config(bench.model([counting]), { toolProviders, extensions: [deciding(1)] });
    const suspended = await new AgentLoop(first).startTurn(question, { taskId: 't' }).result();
    expect(suspended).toMatchObject({ status: 'input-required', usage });
    const second = bench.config(bench.model([{ text: 'Two.' }]), { toolProviders, extensions: [deciding(0)] });
    const answers = { '1:0': { approved: true } };
    const result = await AgentLoop.resume('t', second, { answers }).result();
    expect([result.text, result.usage]).toEqual(['Two.', usage]);
    const again = await replay(bench.store.read('t')).result();
    expect([again.deviations, again.usage]).toEqual([[], usage]);
  });

  it('T-17 counts once where the model call fails and is made again', async () => {
    const model = bench.model([
      { error: new AgentLoopError('PROVIDER_FAILED', 'Busy.', { retryable: true, retryAfterMs: 0 }) },
      { text: 'Two.' },
    ]);
    const config = bench.config(model, { extensions: [reviewing('beforeLLMCall')], retryPlan: { attempts: 2 } });
    const result = await new AgentLoop(config).startTurn(question, { taskId: 't' }).result();
    expect(result.usageBy).toEqual(read);
    const again = await replay(bench.store.read('t')).result();
    expect([again.deviations, again.usage]).toEqual([[], result.usage]);
  });

  it('T-17 counts where the hook that decides about a call fails, and the call is refused', async () => {
    const reader = bench.config(bench.model([{ text: 'No.', usage }]), { agentId: 'reader' });
    const failing = asking('approveToolCall', async (context) => {
      await branch(context, { config: reader, messages: [review] });
      throw new Error('The reader said no.');
    });
    const model = bench.model([counting, { text: 'None.' }]);
    const config = bench.config(model, { toolProviders, extensions: [failing] });
    const result = await new AgentLoop(config).startTurn(question, { taskId: 't' }).result();
    expect([result.text, result.usageBy]).toEqual(['None.', read]);
    const again = await replay(bench.store.read('t')).result();
    expect([again.deviations, again.usage]).toEqual([[], usage]);
  });

  it('T-17 counts where an extension after it fails the turn at the same call', async () => {
    const failing: Extension = { name: 'failing', beforeToolCall: () => ({ fail: { code: 'LIMIT', message: 'No.' } }) };
    const extensions = [reviewing('beforeToolCall'), failing];
    const config = bench.config(bench.model([counting]), { toolProviders, extensions });
    const turn = new AgentLoop(config).startTurn(question, { taskId: 't' });
    await expect(turn.result()).rejects.toMatchObject({ code: 'LIMIT', result: { usage } });
    expect(bench.store.load('t')?.usage).toEqual(usage);
    const again = await replay(bench.store.read('t')).result();
    expect([again.deviations, again.usage]).toEqual([[], usage]);
  });

  it('counts anew for the child turn that a fork starts at the same place', async () => {
    const model = bench.model([counting, { text: 'Two.' }]);
    const config = bench.config(model, { toolProviders, extensions: [reviewing('beforeToolCall')] });
    await new AgentLoop(config).startTurn(question, { taskId: 't' }).result();
    const edits = { results: { '1:0': { content: '3' } } };
    await AgentLoop.fork('t', { store: bench.store, at: 1, taskId: 'f', clock: bench.clock, edits });
    const reader = bench.config(bench.model([{ text: 'Yes.', usage }]), { agentId: 'reader' });
    const again = asking('beforeLLMCall', async (context) => {
      await branch(context, { config: reader, messages: [review], name: 'review' });
    });
    const forked = bench.config(bench.model([{ text: 'Three.' }]), { toolProviders, extensions: [again] });
    expect(await AgentLoop.resume('f', forked).result()).toMatchObject({ text: 'Three.', usage: { totalTokens: 30 } });
  });

  it('is not there in a journal whose process died with the call: the call runs again, and asks again', async () => {
    deadTurn(bench, [firstCall, answerOf(['count']), intentOf(0)]);
    const retried = [plainTools({ count: { idempotent: true, onInDoubt: 'retry', execute: () => 2 } })];
    const config = bench.config(bench.model([{ text: 'Two.' }]), {
      toolProviders: retried,
      extensions: [reviewing('beforeToolCall')],
    });
    const result = await AgentLoop.resume('t', config).result();
    expect(result.usage).toEqual(usage);
    const again = await replay(bench.store.read('t')).result();
    expect([again.deviations, again.usage]).toEqual([[], usage]);
  });
});
