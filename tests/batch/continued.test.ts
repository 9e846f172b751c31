import { appendFileSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { type Agent, AgentLoop, AgentLoopError, agent, InMemoryStateStore, tool } from 'millrace';
import { runBatch } from 'millrace/batch';
import { gate, scriptedLLM } from 'millrace/testing';
import { z } from 'zod';
import { Echoing, keysIn, linesIn, prompts, ran, temporaryFolder } from './echoing.ts';

const echo = (model: Echoing, options: Partial<Agent['options']> = {}) =>
  agent({ id: 'echo', provider: model, enableTracing: false, retry: null, ...options });

const results = () => join(temporaryFolder(), 'results.jsonl');

describe('a batch that is started again', () => {
  it('skips items that have a row, with and without a store', async () => {
    const out = results();
    const model = new Echoing();
    await ran(prompts(5), { agent: echo(model), out });
    const { rows, last } = await ran(prompts(8), { agent: echo(model), out });
    expect(rows.map(({ key }) => key)).toEqual(['k6', 'k7', 'k8']);
    expect(last).toMatchObject({ state: 'completed', completed: 8, earlier: 5, total: 8, usage: { totalTokens: 80 } });
    expect(model.prompts).toHaveLength(8);
    expect(keysIn(out)).toHaveLength(8);
  });

  it.each(['a record', 'the whole journal'])(
    'R-09 goes on with a turn of which the store has lost %s',
    async (what) => {
      const out = results();
      const store = new InMemoryStateStore();
      let losses = 0;
      const append: InMemoryStateStore['append'] = (lease, records, options) => {
        if (losses > 0 || !records.some(({ type }) => type === 'llm.done'))
          return store.append(lease, records, options);
        losses++;
        if (what === 'a record') throw new AgentLoopError('REWOUND', 'The store came back without its last record.');
        store.delete(lease.taskId);
        return store.append(lease, records, options);
      };
      const lossy = new Proxy(store, {
        get(target, name) {
          const member: unknown = name === 'append' ? append : Reflect.get(target, name, target);
          return typeof member === 'function' ? member.bind(target) : member;
        },
      });
      const { rows, last } = await ran(prompts(2), { agent: echo(new Echoing(), { taskStateStore: lossy }), out });
      expect(rows.map(({ status }) => status)).toEqual(['completed', 'completed']);
      expect(losses).toBe(1);
      expect(last).toMatchObject({ state: 'completed', completed: 2 });
      expect(store.list().map(({ state }) => state)).toEqual(['completed', 'completed']);
    },
  );

  it('takes what has ended from the store where the results are lost', async () => {
    const out = results();
    const model = new Echoing();
    const durable = echo(model, { taskStateStore: new InMemoryStateStore() });
    await ran(prompts(5), { agent: durable, out });
    const before = linesIn(out);
    rmSync(out);
    await ran(prompts(5), { agent: durable, out });
    expect(model.prompts).toHaveLength(5);
    expect(linesIn(out)).toEqual(before);
  });

  it('with another id runs anew', async () => {
    const model = new Echoing();
    const durable = echo(model, { taskStateStore: new InMemoryStateStore() });
    await ran(['x'], { agent: durable, id: 'one' });
    await ran(['x'], { agent: durable, id: 'one' });
    await ran(['x'], { agent: durable, id: 'two' });
    expect(model.prompts).toHaveLength(2);
  });

  it('refuses another prompt under the key of a row, and under that of a turn in the store', async () => {
    const out = results();
    const durable = echo(new Echoing(), { taskStateStore: new InMemoryStateStore() });
    await ran([{ key: 'a', prompt: 'x' }], { agent: durable, out });
    const changed = ran([{ key: 'a', prompt: 'y' }], { agent: durable, out });
    await expect(changed).rejects.toMatchObject({
      code: 'CONFLICT',
      message: expect.stringMatching(/^item 1: the results have a row of the key "a"/),
    });
    rmSync(out);
    await expect(ran([{ key: 'a', prompt: 'y' }], { agent: durable, out })).rejects.toMatchObject({ code: 'CONFLICT' });
  });

  it.each(['{"key":"k3","sta', '{"k', '{'])('removes a torn last line %s', async (torn) => {
    const out = results();
    const model = new Echoing();
    await ran(prompts(2), { agent: echo(model), out });
    appendFileSync(out, torn);
    await ran(prompts(3), { agent: echo(model), out });
    expect(keysIn(out)).toEqual(['k1', 'k2', 'k3']);
    expect(model.prompts).toHaveLength(3);
  });

  it('keeps a last row that lacks only its end of line', async () => {
    const out = results();
    const model = new Echoing();
    await ran(prompts(2), { agent: echo(model), out });
    writeFileSync(out, readFileSync(out, 'utf8').trimEnd());
    await ran(prompts(3), { agent: echo(model), out });
    expect(keysIn(out)).toEqual(['k1', 'k2', 'k3']);
    expect(model.prompts).toHaveLength(3);
  });

  it.each(['notes', '{"key":"a","prompt":"x"}\n', '{"prompt":"x"}\n{"prompt":"y"}', '[]\n', '\n'])(
    'refuses a file of something else, and leaves it as it is: %j',
    async (content) => {
      const out = results();
      writeFileSync(out, content);
      const model = new Echoing();
      const attempt = ran(['x'], { agent: echo(model), out });
      await expect(attempt).rejects.toMatchObject({
        code: 'INVALID_INPUT',
        message: expect.stringContaining(`${out}:1 is not a row of a batch`),
      });
      expect([readFileSync(out, 'utf8'), model.prompts]).toEqual([content, []]);
    },
  );

  it('keeps the last of several rows of one key, as two processes may write', async () => {
    const out = results();
    await ran(prompts(2), { agent: echo(new Echoing()), out });
    const [first = ''] = readFileSync(out, 'utf8').split('\n');
    appendFileSync(out, `${first.replace('echo: prompt 1', 'later')}\n`);
    const { last } = await ran(prompts(2), { agent: echo(new Echoing()), out });
    expect(linesIn(out).map(({ key, text }) => [key, text])).toEqual([
      ['k2', 'echo: prompt 2'],
      ['k1', 'later'],
    ]);
    expect([last.completed, readdirSync(join(out, '..'))]).toEqual([2, ['results.jsonl']]);
  });

  it('keeps rows of failed items, and runs them again with retryFailed', async () => {
    const out = results();
    let isAway = true;
    const error = new AgentLoopError('PROVIDER_AUTH', 'No key.');
    const model = new Echoing({ fail: (prompt) => (isAway && prompt !== 'prompt 1' ? error : undefined) });
    const durable = echo(model, { taskStateStore: new InMemoryStateStore() });
    const first = await ran(prompts(3), { agent: durable, out });
    expect(first.last).toMatchObject({ completed: 1, failed: 2 });
    const kept = await ran(prompts(3), { agent: durable, out });
    expect([kept.rows, kept.last.failed, model.prompts.length]).toEqual([[], 2, 3]);
    isAway = false;
    const again = await ran(prompts(3), { agent: durable, out, retryFailed: true });
    expect(again.rows.map(({ key, status, attempts }) => [key, status, attempts])).toEqual([
      ['k2', 'completed', 2],
      ['k3', 'completed', 2],
    ]);
    expect(again.last).toMatchObject({ completed: 3, failed: 0, earlier: 1 });
    expect(linesIn(out).map(({ key, status }) => [key, status])).toEqual([
      ['k1', 'completed'],
      ['k2', 'completed'],
      ['k3', 'completed'],
    ]);
    expect(model.prompts).toHaveLength(5);
  });

  it('counts what a failed item used once, where retryFailed replaces its row', async () => {
    const out = results();
    let isAway = true;
    const error = new AgentLoopError('PROVIDER_AUTH', 'No key.');
    const look = tool({ name: 'look', description: 'Looks.', parameters: z.object({}), execute: () => 'seen' });
    const script = [
      {
        toolCalls: [{ name: 'look', arguments: {} }],
        usage: { promptTokens: 7, completionTokens: 3, totalTokens: 10 },
      },
      () => (isAway ? { error } : { text: 'Done.' }),
      { text: 'Done.', usage: { promptTokens: 4, completionTokens: 1, totalTokens: 5 } },
    ];
    const looking = agent({ provider: scriptedLLM(script), tools: [look], retry: null, enableTracing: false });
    const first = await ran(['x'], { agent: looking, out });
    expect(first.last).toMatchObject({ failed: 1, usage: { totalTokens: 10 } });
    isAway = false;
    const again = await ran(['x'], { agent: looking, out, retryFailed: true });
    expect(again.last.usage.totalTokens).toBe(15);
    expect(linesIn(out)).toMatchObject([{ status: 'completed', usage: { totalTokens: 15 } }]);
  });

  it('continues attempts where they were: those that failed are not paid again', async () => {
    const taskStateStore = new InMemoryStateStore();
    const error = new AgentLoopError('PROVIDER_SERVER', 'The model is away.');
    const model = new Echoing({ fail: (_, call) => (call <= 2 ? error : undefined) });
    const durable = echo(model, { taskStateStore });
    const stop = new AbortController();
    const waiting = gate();
    let pauses = 0;
    const clock = {
      now: () => 0,
      schedule: (_: number, callback: () => void) => {
        pauses += 1;
        if (pauses === 2) void waiting.pass();
        else setImmediate(callback);
        return () => {};
      },
    };
    const options = { agent: durable, id: 'b', retry: { attempts: 4, delayMs: 0 } };
    const first = ran(['x'], { ...options, clock, signal: stop.signal });
    await waiting.reached;
    stop.abort();
    expect((await first).last.state).toBe('stopped');
    expect(model.prompts).toHaveLength(2);
    const { rows } = await ran(['x'], options);
    expect(rows).toMatchObject([{ status: 'completed', attempts: 3 }]);
    expect(model.prompts).toHaveLength(3);
  });

  it('leaves no file without `out`', async () => {
    const out = results();
    await ran(['x'], { agent: echo(new Echoing()) });
    expect(existsSync(out)).toBe(false);
  });
});

describe('a batch that is left', () => {
  const held = () => {
    const opened = gate();
    const model = new Echoing({ wait: async (prompt) => (prompt === 'prompt 3' ? opened.pass() : undefined) });
    return { opened, model };
  };

  it('leaves turns of a store so that the next start continues them, with a signal', async () => {
    const out = results();
    const taskStateStore = new InMemoryStateStore();
    const { opened, model } = held();
    const stop = new AbortController();
    const options = { agent: echo(model, { taskStateStore }), out, concurrency: 1 };
    const first = ran(prompts(5), { ...options, signal: stop.signal });
    await opened.reached;
    stop.abort();
    const { last } = await first;
    expect(last).toMatchObject({ state: 'stopped', completed: 2, running: 0 });
    expect(keysIn(out)).toEqual(['k1', 'k2']);
    expect((await taskStateStore.list()).map(({ state }) => state).sort()).toEqual([
      'completed',
      'completed',
      'working',
    ]);
    opened.open();
    const second = await ran(prompts(5), options);
    expect(second.last).toMatchObject({ state: 'completed', completed: 5, earlier: 2 });
    expect(model.prompts).toHaveLength(6);
  });

  it('stops all turns when it is unsubscribed from, and starts no more', async () => {
    const taskStateStore = new InMemoryStateStore();
    const { opened, model } = held();
    const durable = echo(model, { taskStateStore });
    const subscription = runBatch(prompts(50), { agent: durable, id: 'b', concurrency: 4 }).subscribe();
    await opened.reached;
    subscription.unsubscribe();
    const asked = model.prompts.length;
    for (let round = 0; round < 50; round++) await new Promise(setImmediate);
    expect([model.active, model.prompts.length, durable.runningTurns.length]).toEqual([0, asked, 0]);
    const held$ = (await taskStateStore.list({ limit: 100 })).filter((task) => task.held);
    expect(held$).toEqual([]);
  });

  it('without a store stops all turns, too', async () => {
    const { opened, model } = held();
    const stop = new AbortController();
    const first = ran(prompts(50), { agent: echo(model), concurrency: 4, signal: stop.signal });
    await opened.reached;
    stop.abort();
    const { last } = await first;
    expect([last.state, last.failed, model.active]).toEqual(['stopped', 0, 0]);
  });

  it('with a signal that is aborted already runs nothing', async () => {
    const model = new Echoing();
    const { last } = await ran(prompts(5), { agent: echo(model), signal: AbortSignal.abort() });
    expect([last.state, model.prompts]).toEqual(['stopped', []]);
  });

  it('errors with SHUTDOWN where the agent is shut down, and the turns can be continued', async () => {
    const down = new AbortController();
    const taskStateStore = new InMemoryStateStore();
    const { opened, model } = held();
    const first = ran(prompts(5), { agent: echo(model, { taskStateStore, shutdown: down.signal }), id: 'b' });
    await opened.reached;
    down.abort();
    await expect(first).rejects.toMatchObject({ code: 'SHUTDOWN' });
    opened.open();
    const { last } = await ran(prompts(5), { agent: echo(model, { taskStateStore }), id: 'b' });
    expect(last.completed).toBe(5);
  });
});

describe('an item of a batch that waits for an answer', () => {
  const approving = (taskStateStore: InMemoryStateStore) => {
    const provider = scriptedLLM([{ toolCalls: [{ name: 'pay', arguments: { amount: 7 } }] }, { text: 'Paid.' }]);
    const pay = tool({
      name: 'pay',
      description: 'Pays.',
      parameters: z.object({ amount: z.number() }),
      needsApproval: true,
      execute: ({ amount }) => `paid ${amount}`,
    });
    return agent({ id: 'payer', provider, tools: [pay], taskStateStore, enableTracing: false });
  };

  it('has a row with its questions, and the next start after the answer replaces it', async () => {
    const out = results();
    const store = new InMemoryStateStore();
    const payer = approving(store);
    const first = await ran(['Pay.'], { agent: payer, out });
    expect(first.rows).toMatchObject([{ status: 'suspended', questions: [{ kind: 'approval' }] }]);
    expect(first.last).toMatchObject({ state: 'completed', suspended: 1, completed: 0 });
    const still = await ran(['Pay.'], { agent: payer, out });
    expect(still.last).toMatchObject({ suspended: 1, completed: 0, usage: first.last.usage });
    expect(linesIn(out)).toMatchObject([{ status: 'suspended' }]);
    const [row] = first.rows;
    const [question] = row?.status === 'suspended' ? row.questions : [];
    await AgentLoop.answer(row?.taskId ?? '', { store, answers: { [question?.id ?? '']: { approved: true } } });
    const answered = await ran(['Pay.'], { agent: payer, out });
    expect(answered.rows).toMatchObject([{ status: 'completed', text: 'Paid.', attempts: 1 }]);
    expect(linesIn(out)).toMatchObject([{ status: 'completed' }]);
  });
});
