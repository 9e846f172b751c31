import { describe, expect, it } from '@jest/globals';
import { type AgentLoopConfig, AgentLoopError, foldRecords, InMemoryStateStore } from 'millrace';
import { AgentLoop, commitOf, messageOf } from 'millrace/internals';
import { journalSchema } from 'millrace/stores';
import { faultyStore } from 'millrace/testing';
import type { TurnRecord } from 'millrace/types';
import { answerOf, deadTurn, firstCall, intentOf, question, resultOf, startedRecord } from './dead-turn.ts';
import { plainTools } from './plain-tools.ts';
import { turnBench } from './turn-bench.ts';
import { watch } from './watch-events.ts';

const bench = turnBench();

/** Has lost all but the first three records of a task, and its head does not know. */
class ForgetfulStore extends InMemoryStateStore {
  override read(...given: Parameters<InMemoryStateStore['read']>) {
    return super.read(...given).filter(({ seq }) => seq <= 3);
  }
}

const dead = (records: readonly TurnRecord[], started = {}) => deadTurn(bench, records, started);

function resume(
  steps: Parameters<typeof bench.model>[0],
  options: Partial<AgentLoopConfig> = {},
  resumeOptions: Parameters<typeof AgentLoop.resume>[2] = {},
) {
  const model = bench.model(steps);
  return { model, turn: AgentLoop.resume('t', bench.config(model, options), resumeOptions) };
}

describe('AgentLoop.resume does not go on', () => {
  /** How a resume was lost, and that it called neither model nor store beyond reading. */
  async function lossOf(...given: Parameters<typeof resume>) {
    const { turn } = resume(...given);
    const watcher = watch(turn);
    const [loss] = await Promise.allSettled([turn.result()]);
    await expect(turn.settled).rejects.toBeInstanceOf(AgentLoopError);
    return { loss, watcher };
  }

  it('S1-107 with another contextId: CONFLICT, and the turn can still be resumed', async () => {
    dead([]);
    const { loss, watcher } = await lossOf([], {}, { contextId: 'other' });
    expect(loss).toMatchObject({ status: 'rejected', reason: { code: 'CONFLICT', taskId: 't' } });
    expect(watcher.end).toMatchObject({ error: { code: 'CONFLICT' } });
    expect(bench.store.read('t')).toHaveLength(1);
    expect(await resume([{ text: 'Two.' }], {}, { contextId: 'c' }).turn.result()).toMatchObject({ text: 'Two.' });
  });

  it('S1-77 with a turn that nobody started: NOT_FOUND, and no journal is made', async () => {
    const { loss } = await lossOf([]);
    expect(loss).toMatchObject({ reason: { code: 'NOT_FOUND' } });
    expect(bench.store.list()).toEqual([]);
  });

  it('S1-80 with a turn that another owner holds: BUSY, until its lease has run out', async () => {
    dead([]);
    bench.store.acquire('t', 'somebody', 1_000);
    const { loss } = await lossOf([]);
    expect(loss).toMatchObject({ reason: { code: 'BUSY', retryable: true, retryAfterMs: 1_000 } });
    bench.leases.advance(1_000);
    expect(await resume([{ text: 'Two.' }]).turn.result()).toMatchObject({ text: 'Two.' });
  });

  it('S1-80 twice at the same time: one proceeds, the other is BUSY, the model is called once', async () => {
    dead([]);
    const model = bench.model([{ text: 'Two.' }]);
    const turns = [1, 2].map(() => AgentLoop.resume('t', bench.config(model)));
    const outcomes = await Promise.allSettled(turns.map((turn) => turn.result()));
    expect(outcomes).toMatchObject([{ value: { text: 'Two.' } }, { reason: { code: 'BUSY' } }]);
  });

  it('without a tool that an open call names: MISSING_TOOL; with it, it goes on', async () => {
    const functionOf = { name: 'pay', description: 'Pays.', parameters: { type: 'object' } };
    dead([{ type: 'llm.start', iteration: 1, attempt: 1, tools: [functionOf] }, answerOf(['pay'])]);
    const { loss, watcher } = await lossOf([]);
    expect(loss).toMatchObject({ reason: { code: 'MISSING_TOOL', message: expect.stringContaining('"pay"') } });
    expect(watcher.end).toMatchObject({ error: { code: 'MISSING_TOOL' } });
    expect(watcher.of('status-update').filter(({ final }) => final)).toEqual([]);
    expect(bench.store.list()).toMatchObject([{ state: 'working', held: false }]);
    const { turn } = resume([{ text: 'Paid.' }], { toolProviders: [plainTools({ pay: () => 'paid' })] });
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'Paid.' });
  });

  it.each(['offers it no more', 'does not answer'])(
    'R-04 without a tool, more often than maxResumes, stays open where the provider %s; with it, it goes on',
    async (what) => {
      const functionOf = { name: 'pay', description: 'Pays.', parameters: { type: 'object' } };
      dead([{ type: 'llm.start', iteration: 1, attempt: 1, tools: [functionOf] }, answerOf(['pay'])]);
      const away = { ...plainTools({}), getTools: () => Promise.reject(new Error('away')) };
      const options = { maxResumes: 2, toolProviders: what === 'does not answer' ? [away] : [] };
      for (let time = 0; time < 5; time++)
        expect((await lossOf([], options)).loss).toMatchObject({ reason: { code: 'MISSING_TOOL' } });
      const waits = bench.store.read('t').filter(({ type }) => type === 'turn.resumed' || type === 'turn.suspended');
      const message = expect.stringContaining(what === 'does not answer' ? 'away' : '"pay"');
      expect(waits.slice(-2)).toMatchObject([
        { type: 'turn.resumed' },
        {
          type: 'turn.suspended',
          state: 'working',
          reason: 'missing_tool',
          hold: { error: { code: 'MISSING_TOOL', message } },
        },
      ]);
      expect(waits).toHaveLength(2);
      expect(bench.store.list()).toMatchObject([{ state: 'working', held: false }]);
      const { turn } = resume([{ text: 'Paid.' }], { ...options, toolProviders: [plainTools({ pay: () => 'paid' })] });
      expect(await turn.result()).toMatchObject({ status: 'completed', text: 'Paid.' });
    },
  );

  it('R-04 after more crashes than maxResumes: POISON; crashes before the last progress do not count', async () => {
    const crashed = () => ({ type: 'turn.resumed', lostAt: 1 }) as const;
    const left = () => ({ type: 'turn.resumed' }) as const;
    dead([firstCall, crashed(), crashed(), answerOf(['pay']), crashed(), left(), left(), crashed()]);
    const options = { maxResumes: 2, toolProviders: [plainTools({ pay: () => 'paid' })] };
    const message = expect.stringMatching(
      /crashed 3 times .*; look into its journal for what stops the process, whose open calls are pay \(1:0\)\.$/,
    );
    await expect(resume([], options).turn.result()).rejects.toMatchObject({ code: 'POISON', message });
    expect(bench.store.list()).toMatchObject([{ state: 'failed', held: false }]);
    const config = bench.config(bench.model([{ text: 'Paid.' }]), options);
    await expect(AgentLoop.retry('t', config).result()).resolves.toMatchObject({ text: 'Paid.' });
  });

  it('with a journal of a newer version: SCHEMA, and the lease is not taken', async () => {
    const started = {
      schema: journalSchema + 1,
      type: 'turn.started',
      taskId: 't',
      contextId: 'c',
      agentId: 'a',
    } as const;
    bench.store.create('t', { ...started, messages: question, settings: {}, seq: 1, epoch: 0, at: 0 });
    expect((await lossOf([])).loss).toMatchObject({ reason: { code: 'SCHEMA' } });
    expect(bench.store.list()).toMatchObject([{ held: false }]);
  });

  it('with a journal that lost its tail: REWOUND, and nothing is called', async () => {
    const { clock, leases } = bench;
    const cut = new ForgetfulStore({ clock: leases });
    deadTurn({ store: cut, clock, leases }, [firstCall, answerOf(['pay']), intentOf(0)]);
    expect((await lossOf([], { taskStateStore: cut })).loss).toMatchObject({ reason: { code: 'REWOUND' } });
  });

  it('with a store that is down: UNAVAILABLE', async () => {
    dead([]);
    const down = faultyStore(bench.store, [{ method: 'read', call: 1, fault: 'fail-before' }]);
    expect((await lossOf([], { taskStateStore: down })).loss).toMatchObject({ reason: { code: 'UNAVAILABLE' } });
  });

  it('without a store, or with an impossible id: the call itself throws', () => {
    const config = bench.config(bench.model([]));
    const withoutStore = { agentId: config.agentId, llmProvider: config.llmProvider };
    expect(() => AgentLoop.resume('t', withoutStore)).toThrow(expect.objectContaining({ code: 'INVALID_CONFIG' }));
    expect(() => AgentLoop.resume('', config)).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }));
  });
});

describe('AgentLoop.resume of a turn that has ended', () => {
  it('S1-78 replays a completed turn, without a model call', async () => {
    dead([firstCall, answerOf('Two.'), { type: 'turn.done', text: 'Two.', reason: 'stop' }]);
    const { turn } = resume([]);
    const watcher = watch(turn);
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'Two.' });
    expect(watcher.events.at(-1)).toMatchObject({ status: { state: 'completed' }, final: true });
    expect(watcher.end).toBe('complete');
    expect(bench.store.read('t')).toHaveLength(4);
  });

  it('S1-78 replays a failed turn: the stream completes, result() rejects with its code', async () => {
    dead([firstCall, { type: 'turn.failed', code: 'LENGTH', message: 'too long', reason: 'length' }]);
    const { turn } = resume([]);
    const watcher = watch(turn);
    const error: unknown = await turn.result().catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'LENGTH', reason: 'length' });
    expect(messageOf(error)).toMatch(/^too long.*AgentLoop\.retry/);
    expect(watcher.events.at(-1)).toMatchObject({ status: { state: 'failed' }, error: { code: 'LENGTH' } });
    expect(watcher.end).toBe('complete');
  });

  it('S1-78 replays a canceled turn', async () => {
    dead([firstCall, { type: 'turn.canceled', reason: 'enough' }]);
    const { turn } = resume([]);
    const watcher = watch(turn);
    await expect(turn.result()).rejects.toMatchObject({ code: 'CANCELED', reason: 'enough' });
    expect(watcher.events.at(-1)).toMatchObject({ status: { state: 'canceled' }, final: true, reason: 'enough' });
    await turn.cancel('again');
    expect(bench.store.read('t')).toHaveLength(3);
  });
});

describe('the number of resumptions without progress', () => {
  const resumed: TurnRecord = { type: 'turn.resumed', lostAt: 1 };
  it.each<[string, readonly TurnRecord[], TurnRecord, number]>([
    ['a model call', [], firstCall, 2],
    ['the answer of one', [firstCall], answerOf('Two.'), 0],
    ['a tool call', [firstCall, answerOf(['count'])], intentOf(0), 2],
    ['the result of one', [firstCall, answerOf(['count']), intentOf(0)], resultOf(0, '2'), 0],
    ['a change of the agent', [], { type: 'agent.changed', from: 'tester', to: 'b', reason: 'route' }, 0],
    ['a steering message', [], { type: 'x.steer', effects: { messages: question } }, 0],
  ])('after %s', (_, before, record, resumes) => {
    const state = foldRecords([startedRecord(bench.clock)]);
    const { after } = commitOf({ epoch: 1, now: bench.clock.now }, state, [...before, resumed, resumed, record]);
    expect(after.resumes).toBe(resumes);
  });
});
