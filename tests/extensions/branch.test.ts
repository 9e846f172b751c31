import { describe, expect, it } from '@jest/globals';
import { AgentLoopError, branch, type Extension, type Message, replay, textOf } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import type { ScriptedLLM } from 'millrace/testing';
import { answerOf, deadTurn, firstCall, intentOf, question, resultOf } from '../core/dead-turn.ts';
import { plainTools } from '../core/plain-tools.ts';
import { turnBench } from '../core/turn-bench.ts';
import { watch } from '../core/watch-events.ts';

const bench = turnBench();
const counting = { toolCalls: [{ name: 'count' }] };
const review = { role: 'user', content: 'Is two right?' } as const;
const toolProviders = [plainTools({ count: () => 2 })];

/** Asks a child at the end of the first iteration, and tells the model what it said. */
function reviewing(child: ScriptedLLM): Extension {
  return {
    name: 'reviewer',
    async afterIteration(step) {
      if (step.iteration !== 1) return undefined;
      const { text } = await branch(step, { config: bench.config(child), messages: [review], name: 'review' });
      return { messages: [{ role: 'user', content: `The reviewer says: ${text}` }] };
    },
  };
}

const texts = (model: ScriptedLLM, call: number) =>
  model.calls[call]?.messages.map(({ content }) => textOf(content)) ?? [];

describe('branch', () => {
  it('S3-25 inherits the history; of the child only its result is in the next request', async () => {
    const usage = { promptTokens: 10, completionTokens: 5, totalTokens: 15 };
    const child = bench.model([{ text: 'Yes.', usage }]);
    const model = bench.model([counting, { text: 'Two.' }]);
    const config = bench.config(model, { toolProviders, extensions: [reviewing(child)] });
    const result = await new AgentLoop(config).startTurn(question, { taskId: 't' }).result();
    expect(texts(child, 0)).toEqual(['How many?', '', '2', 'Is two right?']);
    expect(texts(model, 1)).toEqual(['How many?', '', '2', 'The reviewer says: Yes.']);
    expect(result.usage).toMatchObject({ totalTokens: 15 });
    expect(bench.store.read('t.1.review').at(-1)).toMatchObject({ type: 'turn.done', text: 'Yes.' });
    const tree = bench.spans.tree();
    expect(tree).toMatch(/hook\[reviewer\.afterIteration\]\n\s+agent\.execute/);
  });

  it.each([119, 120, 121, 128])('runs below a task id of %i characters', async (length) => {
    const child = bench.model([{ text: 'Yes.' }]);
    const config = bench.config(bench.model([counting, { text: 'Two.' }]), {
      toolProviders,
      extensions: [reviewing(child)],
    });
    const taskId = 'x'.repeat(length);
    const result = await new AgentLoop(config).startTurn(question, { taskId }).result();
    expect(result.status).toBe('completed');
    const children = bench.store.list({ parentTaskId: taskId });
    const whole = `${taskId}.1.review`;
    expect(children).toMatchObject([{ taskId: length === 119 ? whole : expect.stringMatching(/^[0-9a-f]{64}$/) }]);
  });

  it('S3-25 is found again behind a crash: the child does not run twice', async () => {
    deadTurn(bench, [firstCall, answerOf(['count']), intentOf(0), resultOf(0, '2')]);
    const history: readonly Message[] = [
      question[0],
      answerOf(['count']).message,
      { role: 'tool', toolCallId: 'id-0', content: '2' },
    ];
    const before = bench.model([{ text: 'Yes.' }]);
    const first = new AgentLoop(bench.config(before)).startTurn([...history, review], {
      taskId: 't.1.review',
      contextId: 'c',
    });
    await first.result();
    const child = bench.model([]);
    const model = bench.model([{ text: 'Two.' }]);
    await AgentLoop.resume('t', bench.config(model, { toolProviders, extensions: [reviewing(child)] })).result();
    expect(texts(model, 0).at(-1)).toBe('The reviewer says: Yes.');
  });

  it('is cancelled with its parent', async () => {
    const child = bench.model([{ never: true }]);
    const config = bench.config(bench.model([counting]), { toolProviders, extensions: [reviewing(child)] });
    const turn = new AgentLoop(config).startTurn(question, { taskId: 't' });
    const watcher = watch(turn);
    await watcher.until('internal:iteration-complete');
    while (child.active === 0) await new Promise(setImmediate);
    await turn.cancel('enough');
    await watcher.ended;
    const observed = watch(AgentLoop.observe('t.1.review', { store: bench.store }));
    await observed.ended;
    expect(child.unsubscribed).toBe(1);
    expect(observed.events.at(-1)).toMatchObject({ status: { state: 'canceled' } });
  });

  it('T-07 T-17 ends before its parent that is cancelled, whose end has what it used', async () => {
    const usage = { promptTokens: 10, completionTokens: 5, totalTokens: 15 };
    const child = bench.model([{ ...counting, usage }, { never: true }]);
    const ends: string[] = [];
    const append = bench.store.append.bind(bench.store);
    bench.store.append = (lease, records, options) => {
      if (records.some(({ type }) => type === 'turn.canceled')) ends.push(lease.taskId);
      return append(lease, records, options);
    };
    const reviewer: Extension = {
      name: 'reviewer',
      afterIteration: async (step) => {
        const reader = bench.config(child, { agentId: 'reader', toolProviders });
        await branch(step, { config: reader, messages: [review], name: 'review' });
      },
    };
    const config = bench.config(bench.model([counting]), { toolProviders, extensions: [reviewer] });
    const turn = new AgentLoop(config).startTurn(question, { taskId: 't', detached: true });
    while (child.calls.length < 2) await new Promise(setImmediate);
    await turn.cancel('enough');
    const error = await turn.result().catch((thrown: unknown) => thrown);
    expect(ends).toEqual(['t.1.review', 't']);
    const review1 = bench.store.load('t.1.review');
    expect(review1?.usage.totalTokens).toBeGreaterThanOrEqual(15);
    expect(error).toMatchObject({ result: { status: 'canceled', usage: review1?.usage } });
    expect(bench.store.load('t')?.usage).toEqual(review1?.usage);
  });

  it('T-17 counts where it fails, and its hook with it', async () => {
    const usage = { promptTokens: 10, completionTokens: 5, totalTokens: 15 };
    const child = bench.model([
      { ...counting, usage },
      { error: new AgentLoopError('PROVIDER_FAILED', 'The model is broken.') },
    ]);
    const reviewer: Extension = {
      name: 'reviewer',
      afterIteration: async (step) => {
        const reader = bench.config(child, { agentId: 'reader', toolProviders });
        await branch(step, { config: reader, messages: [review] });
      },
    };
    const config = bench.config(bench.model([counting]), { toolProviders, extensions: [reviewer] });
    const error = await new AgentLoop(config)
      .startTurn(question)
      .result()
      .catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'EXTENSION_FAILED', result: { usage, ownUsage: { totalTokens: 0 } } });
    expect(error).toMatchObject({ result: { usageBy: [{ agentId: 'reader', usage }] } });
  });

  it.each(['afterIteration', 'beforeTurn'] as const)(
    'T-17 counts where another extension fails the turn at the same %s, whose decisions are dropped',
    async (hook) => {
      const usage = { promptTokens: 10, completionTokens: 5, totalTokens: 15 };
      const child = bench.model([{ text: 'Yes.', usage }]);
      const reviewer: Extension = {
        name: 'reviewer',
        [hook]: async (step: Parameters<NonNullable<Extension['afterIteration']>>[0]) => {
          const { text } = await branch(step, { config: bench.config(child), messages: [review], name: 'review' });
          return { messages: [{ role: 'user', content: text }] };
        },
      };
      const failing: Extension = {
        name: 'failing',
        [hook]: () => {
          throw new Error('No.');
        },
      };
      const model = bench.model(hook === 'beforeTurn' ? [] : [counting]);
      const config = bench.config(model, { toolProviders, extensions: [reviewer, failing] });
      const turn = new AgentLoop(config).startTurn(question, { taskId: 't' });
      await expect(turn.result()).rejects.toMatchObject({ code: 'EXTENSION_FAILED', result: { usage } });
      expect(bench.store.load('t')?.usage).toEqual(usage);
    },
  );

  it('T-17 counts where its hook fails and the turn continues, with the decision of that point', async () => {
    const usage = { promptTokens: 10, completionTokens: 5, totalTokens: 15 };
    const child = bench.model([
      { ...counting, usage },
      { error: new AgentLoopError('PROVIDER_FAILED', 'The model is broken.') },
    ]);
    const reader = bench.config(child, { agentId: 'reader', toolProviders });
    const reviewer: Extension = {
      name: 'reviewer',
      onError: 'continue',
      afterIteration: async (step) => {
        if (step.iteration === 1) await branch(step, { config: reader, messages: [review] });
      },
    };
    const config = bench.config(bench.model([counting, { text: 'Two.' }]), { toolProviders, extensions: [reviewer] });
    const result = await new AgentLoop(config).startTurn(question, { taskId: 't' }).result();
    expect(result.usageBy).toEqual([{ agentId: 'reader', usage }]);
    expect(bench.store.read('t').filter(({ type }) => type === 'x.reviewer')).toMatchObject([{ effects: { usage } }]);
  });

  it.each([undefined, { data: 1, usage: { promptTokens: 1, completionTokens: 1, totalTokens: 2 } }])(
    'T-17 counts in afterLLMCall, with what the hook answers, also in a replay: %j',
    async (answer) => {
      const usage = { promptTokens: 10, completionTokens: 5, totalTokens: 15 };
      const reader = bench.config(bench.model([{ text: 'Yes.', usage }]), { agentId: 'reader' });
      const reviewer: Extension = {
        name: 'reviewer',
        afterLLMCall: async (_, context) => {
          if (context.iteration !== 1) return undefined;
          await branch(context, { config: reader, messages: [review], name: 'review' });
          return answer;
        },
      };
      const model = bench.model([counting, { text: 'Two.' }]);
      const config = bench.config(model, { toolProviders, extensions: [reviewer] });
      const result = await new AgentLoop(config).startTurn(question, { taskId: 't' }).result();
      expect(result.usage.totalTokens).toBe(answer ? 17 : 15);
      expect(result.usageBy).toContainEqual({ agentId: 'reader', usage });
      expect(bench.store.load('t')?.usage).toEqual(result.usage);
      const again = await replay(bench.store.read('t'), { toolProviders }).result();
      expect([again.deviations, again.usage]).toEqual([[], result.usage]);
    },
  );

  it('T-04 is left, not cancelled, where another child turn of the hook is lost', async () => {
    const [lost, left] = [bench.model([{ text: 'Never.' }]), bench.model([{ never: true }])];
    const both: Extension = {
      name: 'both',
      async afterIteration(step) {
        const ask = (name: string, model: ScriptedLLM) =>
          branch(step, { config: bench.config(model), messages: [review], name });
        await Promise.all([ask('lost', lost), ask('left', left)]);
      },
    };
    const model = bench.model([counting]);
    const append = bench.store.append.bind(bench.store);
    bench.store.append = (lease, records, options) => {
      if (lease.taskId === 't.1.lost' && records.some(({ type }) => type === 'turn.done'))
        throw new AgentLoopError('UNAVAILABLE', 'The disk is gone.');
      return append(lease, records, options);
    };
    const loop = new AgentLoop(bench.config(model, { toolProviders, extensions: [both] }));
    const run = loop.startTurn(question, { taskId: 't' }).result();
    await expect(run).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    expect(left.unsubscribed).toBe(1);
    for (const taskId of ['t', 't.1.lost', 't.1.left'])
      expect(bench.store.read(taskId).some(({ type }) => type === 'turn.canceled' || type === 'turn.failed')).toBe(
        false,
      );
  });

  it('T-20 is sent the view of the last model call, with the compacted history, and by an agent too', async () => {
    const long = 'word '.repeat(2_000);
    const compacting: Extension = {
      name: 'compacting',
      prepareIteration: ({ messages }) => ({
        view: { messages: messages.map((each) => (each.content === long ? { ...each, content: 'Words.' } : each)) },
      }),
    };
    const seen: number[] = [];
    const size = (messages: readonly Message[]) => JSON.stringify(messages).length;
    const child = bench.model([{ text: 'Yes.' }]);
    const logged = bench.model([{ text: 'Yes.' }]);
    const asking: Extension = {
      name: 'asking',
      async afterIteration(step) {
        if (step.iteration !== 1) return;
        await branch(step, { agent: new AgentLoop(bench.config(child)), messages: [review] });
        await branch(step, { config: bench.config(logged), messages: [review], view: 'log', name: 'log' });
      },
    };
    const model = bench.model([counting, { text: 'Two.' }]);
    const config = bench.config(model, { toolProviders, extensions: [compacting, asking] });
    await new AgentLoop(config).startTurn([{ role: 'user', content: long }], { taskId: 't' }).result();
    seen.push(size(child.calls[0]?.messages ?? []), size(logged.calls[0]?.messages ?? []));
    expect(texts(child, 0)).toEqual(['Words.', '', '2', 'Is two right?']);
    expect(seen[0]).toBeLessThanOrEqual(size(model.calls[1]?.messages ?? []) + size([review]));
    expect(texts(logged, 0)[0]).toBe(long);
  });

  it('T-07 is cancelled where it was left open below a parent that has ended', async () => {
    deadTurn(bench, [
      firstCall,
      answerOf(['count']),
      intentOf(0),
      resultOf(0, '2'),
      { type: 'turn.canceled', reason: 'x' },
    ]);
    const parent = { taskId: 't', callId: '1.review', agentId: 'tester', rootTaskId: 't' };
    deadTurn(bench, [firstCall], { taskId: 't.1.review', parent });
    await AgentLoop.cancel('t', { store: bench.store, clock: bench.clock });
    expect(bench.store.read('t.1.review').at(-1)).toMatchObject({ type: 'turn.canceled' });
  });

  it('T-07 is cancelled with a parent whose process died within the hook, with the store alone', async () => {
    deadTurn(bench, [firstCall, answerOf(['count']), intentOf(0), resultOf(0, '2')]);
    const parent = { taskId: 't', callId: '1.review', agentId: 'tester', rootTaskId: 't' };
    deadTurn(bench, [firstCall], { taskId: 't.1.review', parent });
    await AgentLoop.cancel('t', { store: bench.store, clock: bench.clock });
    for (const taskId of ['t', 't.1.review'])
      expect(bench.store.read(taskId).at(-1)).toMatchObject({ type: 'turn.canceled' });
  });
});
