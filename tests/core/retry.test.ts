import { describe, expect, it } from '@jest/globals';
import type { TaskStateStore } from 'millrace';
import { AgentLoopError, agent, agentTools, InMemoryMessageStore, limits, replay } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { faultyStore, gate, type LLMStep } from 'millrace/testing';
import { question } from './dead-turn.ts';
import { plainTools } from './plain-tools.ts';
import { turnBench } from './turn-bench.ts';

const bench = turnBench();
const down: LLMStep = { error: new AgentLoopError('PROVIDER_SERVER', 'the model is down') };
const usage = { promptTokens: 10, completionTokens: 5, totalTokens: 15 };

function asks(...names: readonly string[]): LLMStep {
  return { toolCalls: names.map((name) => ({ name })), usage };
}

/** Tools that note their runs, with their idempotency keys; `broken` fails until it is mended. */
function orchard() {
  const runs: string[] = [];
  const world = { isBroken: true };
  const note = (name: string) => (key: string) => runs.push(`${name} ${key}`);
  const tools = plainTools({
    pick: (context) => note('pick')(context.idempotencyKey),
    press: (context) => {
      note('press')(context.idempotencyKey);
      if (world.isBroken) throw new RangeError('the press jams');
      return 'juice';
    },
  });
  return { runs, world, toolProviders: [tools] };
}

describe('AgentLoop.retry', () => {
  it('H-32 continues a turn whose model failed as a new task that names it, repeating no finished call', async () => {
    const { runs, toolProviders } = orchard();
    const failed = bench.loop([asks('pick'), down], { toolProviders }).startTurn(question, { taskId: 'old' });
    await expect(failed.result()).rejects.toMatchObject({ code: 'PROVIDER_SERVER' });
    const model = bench.model([{ text: 'Two.', usage }]);
    const again = AgentLoop.retry('old', bench.config(model, { toolProviders }), { taskId: 'new' });
    expect(await again.result()).toMatchObject({ taskId: 'new', text: 'Two.', toolCalls: 1, usage });
    expect(runs).toEqual(['pick old:1:0']);
    expect(model.calls[0]?.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool']);
    const [started] = await bench.store.read('new');
    expect(started).toMatchObject({ taskId: 'new', forkedFrom: { taskId: 'old', at: 1, retry: { iterations: 1 } } });
    expect((await bench.store.load('old'))?.status).toBe('failed');
    expect(await replay(await bench.store.read('new')).result()).toMatchObject({ text: 'Two.', deviations: [] });
  });

  it('H-32 runs the call again that failed the turn and those that it stopped, and no other', async () => {
    const { runs, world, toolProviders } = orchard();
    const options = { toolProviders, toolConcurrency: 1, toolFailureMode: 'fail' as const };
    const loop = bench.loop([asks('pick', 'press', 'pick')], options);
    await expect(loop.startTurn(question, { taskId: 'old' }).result()).rejects.toMatchObject({ code: 'TOOL_FAILED' });
    world.isBroken = false;
    const config = bench.config(bench.model([{ text: 'Juice.' }]), options);
    const again = AgentLoop.retry('old', config, { taskId: 'new' });
    expect(await again.result()).toMatchObject({ text: 'Juice.', toolCalls: 3 });
    expect(runs).toEqual(['pick old:1:0', 'press old:1:1', 'press new:1:1', 'pick new:1:2']);
  });

  it('H-32 asks the tool about a call whose outcome nobody knows, by the key that it was started with', async () => {
    const keys: string[] = [];
    let isHanging = true;
    const pay = plainTools({
      pay: {
        timeoutMs: 50,
        onInDoubt: async (key: string) => {
          keys.push(`reconcile ${key}`);
          return { outcome: 'not-applied' as const };
        },
        execute: async (context) => {
          keys.push(`pay ${context.idempotencyKey}`);
          if (isHanging) await new Promise(() => {});
          return 'paid';
        },
      },
    });
    const options = { toolProviders: [pay], toolFailureMode: 'fail' as const };
    const failed = bench.loop([asks('pay')], options).startTurn(question, { taskId: 'old' });
    const outcome = failed.result().catch((error: unknown) => error);
    while (keys.length === 0) await new Promise((resolve) => setImmediate(resolve));
    bench.clock.advance(50);
    bench.clock.advance(5_000);
    expect(await outcome).toMatchObject({ code: 'TOOL_TIMEOUT' });
    isHanging = false;
    const config = bench.config(bench.model([{ text: 'Paid.' }]), options);
    expect(await AgentLoop.retry('old', config).result()).toMatchObject({ text: 'Paid.' });
    expect(keys).toEqual(['pay old:1:0', 'reconcile old:1:0', 'pay old:1:0']);
  });

  it('H-32 gives a new budget of iterations, tool calls, tokens and time', async () => {
    const { toolProviders } = orchard();
    const extensions = [limits({ maxToolCalls: 2, maxTokens: 40, maxWallTimeMs: 60_000 })];
    const options = { toolProviders, extensions, maxIterations: 2 };
    const loop = bench.loop([asks('pick'), asks('pick')], options);
    await expect(loop.startTurn(question, { taskId: 'old' }).result()).rejects.toMatchObject({
      code: 'MAX_ITERATIONS',
    });
    bench.clock.advance(100_000);
    const again = AgentLoop.retry('old', bench.config(bench.model([asks('pick'), { text: 'Three.', usage }]), options));
    expect(await again.result()).toMatchObject({ text: 'Three.', iterations: 4, toolCalls: 3 });
    const once = AgentLoop.retry('old', bench.config(bench.model([asks('pick'), asks('pick')]), options));
    await expect(once.result()).rejects.toMatchObject({ code: 'MAX_ITERATIONS' });
  });

  it('H-32 asks the model again whose answer failed the turn', async () => {
    const cut: LLMStep = { text: 'Tw', finishReason: 'length' };
    const loop = bench.loop([cut]);
    await expect(loop.startTurn(question, { taskId: 'old' }).result()).rejects.toMatchObject({ code: 'LENGTH' });
    const model = bench.model([{ text: 'Two.' }]);
    expect(await AgentLoop.retry('old', bench.config(model)).result()).toMatchObject({ text: 'Two.', allText: 'Two.' });
    expect(model.calls[0]?.messages).toEqual([...question]);
  });

  it('H-32 continues the child turn of the call that failed, whose finished calls are not repeated', async () => {
    const { runs, toolProviders } = orchard();
    const steps: LLMStep[] = [asks('pick'), down];
    const ada = (model: ReturnType<typeof bench.model>) =>
      agent({ id: 'ada', description: 'picks', provider: model, toolProviders, clock: bench.clock, retry: null });
    const askAda: LLMStep = { toolCalls: [{ name: 'ada', arguments: { message: 'Pick.' } }] };
    const options = (steps: LLMStep[]) => ({
      toolProviders: [agentTools([ada(bench.model(steps))])],
      toolFailureMode: 'fail' as const,
    });
    const loop = bench.loop([askAda], options(steps));
    await expect(loop.startTurn(question, { taskId: 'old' }).result()).rejects.toMatchObject({
      code: 'PROVIDER_SERVER',
    });
    const config = bench.config(bench.model([{ text: 'Two.' }]), options([{ text: 'Picked.' }]));
    const again = AgentLoop.retry('old', config, { taskId: 'new' });
    expect(await again.result()).toMatchObject({ text: 'Two.', toolCalls: 1 });
    expect(runs).toEqual(['pick old:1:0:1:0']);
    const [child] = await bench.store.read('new:1:0');
    expect(child).toMatchObject({ parent: { taskId: 'new', rootTaskId: 'new' }, forkedFrom: { taskId: 'old:1:0' } });
    expect(bench.store.list({ roots: true }).map(({ taskId, state }) => [taskId, state])).toEqual(
      expect.arrayContaining([
        ['old', 'failed'],
        ['new', 'completed'],
      ]),
    );
  });

  it('H-32 can be retried again, and a repeated call with the same new id attaches to the retry', async () => {
    const { runs, toolProviders } = orchard();
    const loop = bench.loop([asks('pick'), down], { toolProviders });
    await expect(loop.startTurn(question, { taskId: 'a' }).result()).rejects.toThrow();
    const second = () => AgentLoop.retry('a', bench.config(bench.model([down]), { toolProviders }), { taskId: 'b' });
    await expect(second().result()).rejects.toMatchObject({ message: 'the model is down' });
    const attached = AgentLoop.retry('a', bench.config(bench.model([])), { taskId: 'b' });
    await expect(attached.result()).rejects.toMatchObject({ code: 'PROVIDER_SERVER' });
    const third = AgentLoop.retry('b', bench.config(bench.model([{ text: 'Two.' }]), { toolProviders }));
    expect(await third.result()).toMatchObject({ text: 'Two.', toolCalls: 1 });
    expect(runs).toEqual(['pick a:1:0']);
  });

  it('H-32 continues at the agent that had the turn, and saves in the conversation only what the retry added', async () => {
    const messageStore = new InMemoryMessageStore();
    const { toolProviders } = orchard();
    const options = {
      id: 'ada',
      messageStore,
      taskStateStore: bench.store,
      clock: bench.clock,
      toolProviders,
      retry: null,
      contextId: 'c',
    };
    const ada = agent({ ...options, provider: bench.model([asks('pick'), down]) });
    await expect(ada.run('How many?', { taskId: 'old' })).rejects.toMatchObject({ code: 'PROVIDER_SERVER' });
    const next = agent({ ...options, provider: bench.model([{ text: 'Two.' }]) });
    expect(await next.retry('old').result()).toMatchObject({ text: 'Two.', contextId: 'c' });
    const { messages } = await messageStore.load('c');
    expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'assistant']);
  });

  it.each<readonly [string, LLMStep[], { readonly contextId?: string; readonly taskId?: string }, object]>([
    [
      'has completed',
      [{ text: 'Two.' }],
      {},
      { code: 'INVALID_INPUT', message: expect.stringContaining('has completed') },
    ],
    ['is of another context', [down], { contextId: 'other' }, { code: 'CONFLICT' }],
    ['would take the id of another task', [down], { taskId: 'old' }, { code: 'CONFLICT' }],
  ])('H-32 refuses a task that %s', async (_, steps, options, refusal) => {
    await bench
      .loop(steps)
      .startTurn(question, { taskId: 'old' })
      .result()
      .catch(() => undefined);
    const again = AgentLoop.retry('old', bench.config(bench.model([])), options);
    await expect(again.result()).rejects.toMatchObject(refusal);
  });

  it('H-32 refuses a task that has not ended', async () => {
    const turn = bench.loop([]).startTurn(question, { taskId: 'old' });
    turn.pause();
    await turn.result();
    const again = AgentLoop.retry('old', bench.config(bench.model([])));
    await expect(again.result()).rejects.toMatchObject({
      code: 'CONFLICT',
      message: expect.stringContaining('resume'),
    });
  });
});

describe('startTurn with the id of a failed task', () => {
  it('H-32 says in its error that this is how the task ended before, and how to retry it', async () => {
    const loop = bench.loop([down]);
    const first = loop.startTurn(question, { taskId: 't' });
    await expect(first.result()).rejects.toMatchObject({ message: 'the model is down' });
    const message = expect.stringMatching(/^the model is down \(.*ended before; AgentLoop\.retry\("t", config\)/);
    await expect(loop.startTurn(question, { taskId: 't' }).result()).rejects.toMatchObject({
      code: 'PROVIDER_SERVER',
      message,
    });
  });

  describe('where another process writes the new task', () => {
    const fenced = new AgentLoopError('FENCED', 'the lease is another owner’s');
    const isHere = () => new Promise((resolve) => setImmediate(resolve));

    /** A turn that failed behind one call; its retry as `new`, on this store. */
    async function failedTurn() {
      const { toolProviders } = orchard();
      const failed = bench.loop([asks('pick'), down], { toolProviders }).startTurn(question, { taskId: 'old' });
      await failed.result().catch(() => {});
      return (store: TaskStateStore, ...steps: LLMStep[]) =>
        AgentLoop.retry(
          'old',
          { ...bench.config(bench.model(steps), { toolProviders }), taskStateStore: store },
          { taskId: 'new' },
        );
    }

    /** Writes the first record of the copy, with a lease that nobody releases. */
    async function dyingWriter(retry: Awaited<ReturnType<typeof failedTurn>>) {
      const store = faultyStore(bench.store, [{ method: 'append', call: 1, fault: 'fail-before', error: fenced }]);
      const writer = retry(store).subscribe({ error: () => {} });
      await bench.clock.whenPending();
      writer.unsubscribe();
      expect(await bench.store.read('new')).toHaveLength(1);
    }

    it('H-32 completes the copy of a writer that died, once its lease has ended', async () => {
      const retry = await failedTurn();
      await dyingWriter(retry);
      const again = retry(bench.store, { text: 'Two.' }).result();
      await bench.clock.whenPending();
      bench.leases.advance(30_000);
      bench.clock.advanceToNext();
      expect(await again).toMatchObject({ text: 'Two.', taskId: 'new', toolCalls: 1 });
      expect(await replay(await bench.store.read('new')).result()).toMatchObject({ text: 'Two.', deviations: [] });
    });

    it('H-32 completes it at a resume too, which refuses with BUSY while the writer may live', async () => {
      const retry = await failedTurn();
      await dyingWriter(retry);
      const resume = (...steps: LLMStep[]) => AgentLoop.resume('new', bench.config(bench.model(steps)));
      await expect(resume().result()).rejects.toMatchObject({ code: 'BUSY' });
      bench.leases.advance(30_000);
      expect(await resume({ text: 'Two.' }).result()).toMatchObject({ text: 'Two.', toolCalls: 1 });
    });

    it('H-32 waits for a writer that lives, and attaches', async () => {
      const retry = await failedTurn();
      const append = gate();
      const store = faultyStore(bench.store, [{ method: 'append', call: 1, fault: 'hold-before', gate: append }]);
      const first = retry(store, { text: 'Two.' }).result();
      await isHere();
      const second = retry(bench.store).result();
      await bench.clock.whenPending();
      append.open();
      await first;
      bench.clock.advanceToNext();
      expect(await second).toEqual(await first);
    });

    it('H-32 deletes what it wrote where the store refuses the rest', async () => {
      const retry = await failedTurn();
      const error = new AgentLoopError('FULL', 'no room');
      const store = faultyStore(bench.store, [{ method: 'append', call: 1, fault: 'fail-before', error }]);
      await expect(retry(store).result()).rejects.toMatchObject({ code: 'FULL' });
      expect(await bench.store.load('new')).toBeNull();
    });

    it('H-32 writes the copy of a child turn anew that was cancelled before its parent was written', async () => {
      const child = agent({
        id: 'ada',
        description: 'picks',
        provider: bench.model([down]),
        clock: bench.clock,
        retry: null,
      });
      const askAda: LLMStep = { toolCalls: [{ name: 'ada', arguments: { message: 'Pick.' } }] };
      const options = { toolProviders: [agentTools([child])], toolFailureMode: 'fail' as const };
      await bench
        .loop([askAda], options)
        .startTurn(question, { taskId: 'old' })
        .result()
        .catch(() => {});
      const store = faultyStore(bench.store, [{ method: 'create', call: 2, fault: 'fail-before' }]);
      const dies = AgentLoop.retry(
        'old',
        { ...bench.config(bench.model([]), options), taskStateStore: store },
        { taskId: 'new' },
      );
      await expect(dies.result()).rejects.toMatchObject({ code: 'UNAVAILABLE' });
      await AgentLoop.cancel('new:1:0', {
        store: bench.store,
        clock: bench.clock,
        reason: 'its parent turn is not there',
      });
      const ada = agent({
        id: 'ada',
        description: 'picks',
        provider: bench.model([{ text: 'Picked.' }]),
        clock: bench.clock,
      });
      const config = bench.config(bench.model([{ text: 'Two.' }]), { ...options, toolProviders: [agentTools([ada])] });
      expect(await AgentLoop.retry('old', config, { taskId: 'new' }).result()).toMatchObject({ text: 'Two.' });
    });
  });
});
