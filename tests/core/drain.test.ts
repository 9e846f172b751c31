import { beforeEach, describe, expect, it } from '@jest/globals';
import type { AgentLoopConfig, HookContext, LLMProvider, TaskStateStore, Turn } from 'millrace';
import { AgentLoop, addUsage } from 'millrace/internals';
import { asyncStore, faultyStore, gate } from 'millrace/testing';
import { merge, NEVER, of } from 'rxjs';
import { eventually } from '../eventually.ts';
import { question } from './dead-turn.ts';
import { plainTools } from './plain-tools.ts';
import { turnBench } from './turn-bench.ts';
import { outlineOf, watch } from './watch-events.ts';

const bench = turnBench();
let process: AbortController;

beforeEach(() => {
  process = new AbortController();
});

const lost = { code: 'SHUTDOWN', retryable: true, taskId: 't' };
const typesOf = () => bench.store.read('t').map(({ type }) => type);

describe('a turn whose process shuts down', () => {
  it('leaves its model call at once, gives the lease back and is lost with SHUTDOWN', async () => {
    const answer = gate();
    const model = bench.model([{ gate: answer.pass(), text: 'Two.' }]);
    const turn = new AgentLoop(bench.config(model, { shutdown: process.signal })).startTurn(question, { taskId: 't' });
    const watcher = watch(turn);
    await watcher.until('internal:llm-call');
    process.abort();
    await expect(turn.result()).rejects.toMatchObject(lost);
    await expect(turn.settled).rejects.toMatchObject(lost);
    expect(watcher.end).toMatchObject({ error: lost });
    expect(watcher.of('status-update')).toMatchObject([{ status: { state: 'working' }, final: false }]);
    expect([model.active, typesOf()]).toEqual([0, ['turn.started', 'llm.start']]);
    expect(bench.store.list()).toMatchObject([{ state: 'working', held: false }]);
    const again = AgentLoop.resume('t', bench.config(bench.model([{ text: 'Two.' }])));
    expect(await again.result()).toMatchObject({ status: 'completed', text: 'Two.' });
  });

  it('counts what the provider reports of the model call that it leaves, each time that it is left', async () => {
    const once = { promptTokens: 7, completionTokens: 3, totalTokens: 10 };
    const leave = async (turnOf: (config: AgentLoopConfig) => Turn) => {
      const leaving = new AbortController();
      const model: LLMProvider = {
        call: () => Promise.reject(new Error('it streams')),
        stream: ({ noteUsage }) => {
          noteUsage?.(once);
          return merge(of({ type: 'text' as const, text: 'Two' }), NEVER);
        },
      };
      const watcher = watch(turnOf(bench.config(model, { shutdown: leaving.signal, maxResumes: 1 })));
      await watcher.until('artifact-update', ({ append }) => !append);
      leaving.abort();
      await watcher.ended;
      expect(outlineOf(watcher.events).at(-1)).toBe('answer-1 is: "Two"');
      return bench.store.load('t')?.usage;
    };
    expect(await leave((config) => new AgentLoop(config).startTurn(question, { taskId: 't' }))).toEqual(once);
    expect(await leave((config) => AgentLoop.resume('t', config))).toEqual(addUsage(once, once));
    expect(await leave((config) => AgentLoop.resume('t', config))).toEqual(addUsage(addUsage(once, once), once));
  });

  it('records what running tools still do, starts no other, and forgets none', async () => {
    const finish = gate();
    const runs: string[] = [];
    const toolProviders = [
      plainTools({
        slow: async () => {
          await finish.pass();
          runs.push('slow');
        },
        next: () => runs.push('next'),
      }),
    ];
    const options = { toolProviders, toolConcurrency: 1, shutdown: process.signal };
    const loop = bench.loop([{ toolCalls: [{ name: 'slow' }, { name: 'next' }] }], options);
    const turn = loop.startTurn(question, { taskId: 't' });
    const watcher = watch(turn);
    const result = turn.result();
    await finish.reached;
    process.abort();
    finish.open();
    await expect(result).rejects.toMatchObject(lost);
    expect(runs).toEqual(['slow']);
    expect(outlineOf(watcher.events).at(-1)).toBe('tool-complete 1:0 ok');
    const again = AgentLoop.resume('t', bench.config(bench.model([{ text: 'Done.' }]), { toolProviders }));
    expect(await again.result()).toMatchObject({ status: 'completed', toolCalls: 2 });
    expect(runs).toEqual(['slow', 'next']);
  });

  it('leaves a tool that does not end within abortGraceMs: its signal aborts, and it is in doubt', async () => {
    const signals: AbortSignal[] = [];
    const started = gate();
    const toolProviders = [
      plainTools({
        endless: ({ signal }) => {
          signals.push(signal);
          started.open();
          return new Promise(() => {});
        },
      }),
    ];
    const loop = bench.loop([{ toolCalls: [{ name: 'endless' }] }], { toolProviders, shutdown: process.signal });
    const turn = loop.startTurn(question, { taskId: 't' });
    const result = turn.result();
    await started.pass();
    process.abort();
    bench.clock.advance(4_999);
    expect(signals.map(({ aborted }) => aborted)).toEqual([false]);
    bench.clock.advance(1);
    await expect(result).rejects.toMatchObject(lost);
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
    expect(typesOf()).toEqual(['turn.started', 'llm.start', 'llm.done', 'tool.intent']);
    expect(bench.store.list()).toMatchObject([{ held: false }]);
    const model = bench.model([{ text: 'Done.' }]);
    await AgentLoop.resume('t', bench.config(model, { toolProviders })).result();
    expect(model.calls[0]?.messages.at(-1)).toMatchObject({ content: expect.stringContaining('OUTCOME_UNKNOWN') });
  });

  it('gives a hook that looks at a result as much time as a tool, and records what it made of it', async () => {
    const look = gate();
    const afterToolCall = async () => {
      await look.pass();
      return { result: { content: 'looked at' } };
    };
    const options = { toolProviders: [plainTools({ count: () => 2 })], shutdown: process.signal };
    const extensions = [{ name: 'x', afterToolCall }];
    const turn = bench.loop([{ toolCalls: [{ name: 'count' }] }], { ...options, extensions }).startTurn(question, {
      taskId: 't',
    });
    const result = turn.result();
    await look.reached;
    process.abort();
    bench.clock.advance(4_999);
    look.open();
    await expect(result).rejects.toMatchObject(lost);
    expect(bench.store.read('t').at(-1)).toMatchObject({ type: 'tool.result', content: 'looked at' });
  });

  it.each([
    ['a hook that looks at a result once its time is over', 'afterToolCall', 5_000],
    ['a hook that looks at anything else at once', 'afterIteration', 0],
  ] as const)('leaves %s', async (_, hook, afterMs) => {
    const signals: AbortSignal[] = [];
    const started = gate();
    const endless = ({ signal }: HookContext) => {
      signals.push(signal);
      started.open();
      return new Promise<undefined>(() => {});
    };
    const options = { toolProviders: [plainTools({ count: () => 2 })], shutdown: process.signal };
    const extensions = [{ name: 'x', [hook]: endless }];
    const turn = bench.loop([{ toolCalls: [{ name: 'count' }] }], { ...options, extensions }).startTurn(question, {
      taskId: 't',
    });
    const result = turn.result();
    await started.pass();
    process.abort();
    if (afterMs > 0) {
      bench.clock.advance(afterMs - 1);
      expect(signals).toMatchObject([{ aborted: false }]);
      bench.clock.advance(1);
    }
    expect(signals).toMatchObject([{ aborted: true }]);
    while (afterMs > 0 && bench.clock.pending > 0) bench.clock.advanceToNext();
    await expect(result).rejects.toMatchObject(lost);
  });

  it('keeps what it was told: steering goes on with the turn, a pause suspends it', async () => {
    const finish = gate();
    const toolProviders = [plainTools({ slow: () => finish.pass() })];
    const loop = bench.loop([{ toolCalls: [{ name: 'slow' }] }], { toolProviders, shutdown: process.signal });
    const turn = loop.startTurn(question, { taskId: 't' });
    const result = turn.result();
    await finish.reached;
    turn.steer({ role: 'user', content: 'Be quick.' });
    process.abort();
    finish.open();
    await expect(result).rejects.toMatchObject(lost);
    process = new AbortController();
    const model = bench.model([{ text: 'Two.' }]);
    expect(await AgentLoop.resume('t', bench.config(model, { toolProviders })).result()).toMatchObject({
      text: 'Two.',
    });
    expect(model.calls[0]?.messages.at(-1)).toEqual({ role: 'user', content: 'Be quick.' });
  });

  it('is suspended where it was asked to pause as well', async () => {
    const finish = gate();
    const toolProviders = [plainTools({ slow: () => finish.pass() })];
    const loop = bench.loop([{ toolCalls: [{ name: 'slow' }] }], { toolProviders, shutdown: process.signal });
    const turn = loop.startTurn(question, { taskId: 't' });
    const result = turn.result();
    await finish.reached;
    turn.pause('lunch');
    process.abort();
    finish.open();
    expect(await result).toMatchObject({ status: 'input-required', reason: 'lunch' });
  });

  it('is lost in bounded time where the store does not answer', async () => {
    const never = () => new Promise<never>(() => {});
    const taskStateStore = { ...asyncStore(bench.store), append: never, release: never };
    const config = bench.config(bench.model([{ never: true }]), { taskStateStore, shutdown: process.signal });
    const turn = new AgentLoop(config).startTurn(question, { taskId: 't' });
    const watcher = watch(turn);
    await watcher.until('task');
    turn.pause();
    process.abort();
    bench.clock.advance(10_000);
    await expect(turn.settled).rejects.toMatchObject(lost);
  });

  it('does not wait for a call that somebody still decides about', async () => {
    const decided = gate();
    const guarded = { needsApproval: () => decided.pass().then(() => false), execute: () => 'never' };
    const options = { toolProviders: [plainTools({ guarded })], shutdown: process.signal };
    const turn = bench.loop([{ toolCalls: [{ name: 'guarded' }] }], options).startTurn(question, { taskId: 't' });
    watch(turn);
    await decided.reached;
    process.abort();
    await expect(turn.settled).rejects.toMatchObject(lost);
    expect(typesOf()).toEqual(['turn.started', 'llm.start', 'llm.done']);
    decided.open();
  });

  it('is left while it is being opened, or only watched', async () => {
    const never = () => new Promise<never>(() => {});
    const opening = { ...asyncStore(bench.store), create: never };
    const start = (taskStateStore: TaskStateStore) =>
      new AgentLoop(bench.config(bench.model([]), { taskStateStore, shutdown: process.signal }));
    const result = start(opening).startTurn(question, { taskId: 't' }).result();
    const answer = gate();
    const owner = bench
      .loop([{ gate: answer.pass(), text: 'Two.' }])
      .startTurn(question, { taskId: 'o', contextId: 'c' });
    const watcher = watch(owner);
    await watcher.until('internal:llm-call');
    const attached = start(bench.store).startTurn(question, { taskId: 'o', contextId: 'c' }).result();
    process.abort();
    await expect(result).rejects.toMatchObject(lost);
    await expect(attached).rejects.toMatchObject({ code: 'SHUTDOWN' });
    answer.open();
    expect(await owner.result()).toMatchObject({ status: 'completed' });
  });

  it('gives back a lease that comes when it has been left', async () => {
    const answer = gate();
    const held = [{ method: 'acquire', call: 1, fault: 'hold-after', gate: answer }] as const;
    const taskStateStore = faultyStore(bench.store, held);
    const turn = bench.loop([], { taskStateStore, shutdown: process.signal }).startTurn(question, { taskId: 't' });
    const refused = expect(turn.result()).rejects.toMatchObject(lost);
    await answer.reached;
    process.abort();
    await refused;
    expect(bench.store.list()).toMatchObject([{ held: true }]);
    answer.open();
    await eventually(() => bench.store.list()[0]?.held === false);
    expect(typesOf()).toEqual(['turn.started']);
  });

  it('says in its span that it was left, not that it failed', async () => {
    const answer = gate();
    const model = bench.model([{ gate: answer.pass(), text: 'Two.' }]);
    const turn = new AgentLoop(bench.config(model, { shutdown: process.signal })).startTurn(question, { taskId: 't' });
    const watcher = watch(turn);
    await watcher.until('internal:llm-call');
    process.abort();
    await turn.settled.catch(() => {});
    const [execute] = bench.spans.spans().filter(({ name }) => name === 'agent.execute');
    expect(execute?.status.code).toBe(0);
    expect(execute?.attributes).toMatchObject({ 'millrace.outcome': 'shutdown' });
  });

  it('is not started or resumed any more, and writes nothing', async () => {
    process.abort();
    const config = bench.config(bench.model([]), { shutdown: process.signal });
    await expect(new AgentLoop(config).startTurn(question, { taskId: 't' }).result()).rejects.toMatchObject(lost);
    expect(bench.store.list()).toEqual([]);
    await expect(AgentLoop.resume('t', config).result()).rejects.toMatchObject(lost);
  });

  it('ends as it would have where its end was written already', async () => {
    const config = bench.config(bench.model([{ text: 'Two.' }]), { shutdown: process.signal });
    const turn = new AgentLoop(config).startTurn(question, { taskId: 't' });
    const watcher = watch(turn, ({ kind }) => kind === 'internal:llm-response' && process.abort());
    expect(await turn.result()).toMatchObject({ status: 'completed' });
    expect(watcher.end).toBe('complete');
  });

  it('does not wait for a tool provider that does not say what it has', async () => {
    const silent = { getTools: () => new Promise<never>(() => {}), executeTool: () => Promise.reject(new Error('no')) };
    const config = bench.config(bench.model([]), { toolProviders: [silent], shutdown: process.signal });
    const turn = new AgentLoop(config).startTurn(question, { taskId: 't' });
    const result = turn.result();
    process.abort();
    await expect(result).rejects.toMatchObject(lost);
  });

  it('has one listener on the signal, however many turns share it', async () => {
    const answer = gate();
    const { signal } = process;
    let listeners = 0;
    const add = signal.addEventListener.bind(signal);
    signal.addEventListener = (...args: Parameters<typeof add>) => {
      listeners++;
      add(...args);
    };
    const model = bench.model(Array.from({ length: 20 }, () => ({ gate: answer.pass(), text: 'Hi.' })));
    const loop = new AgentLoop(bench.config(model, { shutdown: signal }));
    const turns = Array.from({ length: 20 }, () => loop.startTurn(question));
    const results = turns.map((turn) => turn.result());
    await answer.reached;
    process.abort();
    for (const result of results) await expect(result).rejects.toMatchObject({ code: 'SHUTDOWN' });
    expect(listeners).toBe(1);
  });
});

describe('a turn that is resumed again and again', () => {
  it('R-04 stays open, however many processes leave it in good order', async () => {
    const answer = gate();
    const config = () =>
      bench.config(bench.model([{ gate: answer.pass(), text: 'Two.' }]), { maxResumes: 2, shutdown: process.signal });
    const drained = async (turn: { result(): Promise<unknown> }) => {
      const result = turn.result();
      process.abort();
      await expect(result).rejects.toMatchObject(lost);
      process = new AbortController();
    };
    await drained(new AgentLoop(config()).startTurn(question, { taskId: 't' }));
    for (let time = 0; time < 5; time++) await drained(AgentLoop.resume('t', config()));
    const last = AgentLoop.resume('t', bench.config(bench.model([{ text: 'Two.' }]), { maxResumes: 2 }));
    await expect(last.result()).resolves.toMatchObject({ status: 'completed', text: 'Two.' });
  });
});

describe('a tool result over 8 MiB', () => {
  it.each([
    ['of one byte more', 'x'.repeat(8 * 2 ** 20 + 1), true],
    ['in characters of three bytes', '€'.repeat(3 * 2 ** 20), true],
    ['of just that', 'x'.repeat(8 * 2 ** 20), false],
  ])('%s', async (_which, text, refused) => {
    const model = bench.model([{ toolCalls: [{ name: 'big' }] }, { text: 'Done.' }]);
    const loop = new AgentLoop(bench.config(model, { toolProviders: [plainTools({ big: () => text })] }));
    const watcher = watch(loop.startTurn(question, { taskId: 't' }));
    await watcher.ended;
    const [complete] = watcher.of('internal:tool-complete');
    expect(complete?.error?.code).toBe(refused ? 'TOOL_TOO_LARGE' : undefined);
    if (refused)
      expect(model.calls[1]?.messages.at(-1)).toMatchObject({
        content: expect.stringContaining('return a part of it'),
      });
  });
});
