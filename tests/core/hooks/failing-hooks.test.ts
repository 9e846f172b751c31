import { describe, expect, it } from '@jest/globals';
import { type AgentLoopConfig, type Extension, type JournalRecord, replay } from 'millrace';
import { AgentLoop, refusedCall } from 'millrace/internals';
import { gate, type LLMStep } from 'millrace/testing';
import type { TurnRecord } from 'millrace/types';
import { testLimitMs } from '../../eventually.ts';
import { answerOf, deadTurn, firstCall, intentOf, question } from '../dead-turn.ts';
import { obedient, plainTools } from '../plain-tools.ts';
import { turnBench } from '../turn-bench.ts';
import { watch } from '../watch-events.ts';

const bench = turnBench();
const fail = { code: 'GUARDRAIL', message: 'That is not to be said.', reason: 'indecent' } as const;
const failure = { type: 'turn.failed', ...fail };
const calls = (...names: readonly string[]): LLMStep => ({ toolCalls: names.map((name) => ({ name })) });

/** The journal of task `t`. */
function journal(): readonly JournalRecord[] {
  return [...bench.store.read('t')];
}

/** Leaves of task `t` the first `length` of its records, as if its process had died there. */
function dieBehind(length: number, records = journal()): void {
  const [, ...rest] = records.slice(0, length);
  bench.store.delete('t');
  deadTurn(bench, rest);
}

async function goOn(
  options: Partial<AgentLoopConfig>,
  steps: readonly LLMStep[] = [],
): Promise<JournalRecord | undefined> {
  const turn = AgentLoop.resume('t', bench.config(bench.model(steps), options));
  await turn.result().catch(() => {});
  return journal().at(-1);
}

function failingResult(index: number): TurnRecord {
  return { type: 'tool.result', callId: `1:${index}`, content: 'secret', success: true, durationMs: 5, fails: fail };
}

const hooks = [
  'beforeTurn',
  'prepareIteration',
  'beforeLLMCall',
  'afterLLMCall',
  'afterIteration',
  'beforeFinish',
  'afterTurn',
] as const;

describe('a hook that fails the turn', () => {
  it.each(hooks)('%s is asked again where the process dies before the turn has failed', async (hook) => {
    let asked = 0;
    const extension: Extension = {
      name: 'guard',
      [hook]: () => {
        asked++;
        return { fail };
      },
    };
    const isBeforeAnswer = ['beforeTurn', 'prepareIteration', 'beforeLLMCall'].includes(hook);
    const answers = isBeforeAnswer ? [] : [{ text: 'Two.' }];
    const turn = bench.loop(answers, { extensions: [extension] }).startTurn(question, { taskId: 't', contextId: 'c' });
    await expect(turn.result()).rejects.toMatchObject(fail);
    expect(asked).toBe(1);
    dieBehind(journal().length - 1);
    const again = hook === 'afterLLMCall' ? answers : [];
    expect(await goOn({ extensions: [extension] }, again)).toMatchObject(failure);
    expect(asked).toBe(2);
  });
});

describe('a hook around a call that fails the turn', () => {
  const guards: readonly (readonly [string, Omit<Extension, 'name'>])[] = [
    ['afterToolCall at once', { afterToolCall: ({ callId }) => (callId === '1:1' ? { fail } : undefined) }],
    ['afterToolCall later', { afterToolCall: async ({ callId }) => (callId === '1:1' ? { fail } : undefined) }],
  ];

  it.each(guards)('is not forgotten by a crash: %s', async (_, guard) => {
    const runs: string[] = [];
    const toolProviders = [
      plainTools({
        slow: (context) => {
          runs.push('slow');
          return obedient(context);
        },
        quick: () => {
          runs.push('quick');
          return 2;
        },
      }),
    ];
    const extensions = [{ name: 'guard', ...guard }];
    const loop = bench.loop([calls('slow', 'quick', 'slow')], { toolProviders, extensions });
    const turn = loop.startTurn(question, { taskId: 't', contextId: 'c' });
    await expect(turn.result()).rejects.toMatchObject(fail);
    const records = journal();
    const results = records.filter(({ type }) => type === 'tool.result');
    expect(results.map((record) => 'fails' in record && record.fails)).toEqual([fail, false, false]);
    expect(results[0]).toMatchObject({ callId: '1:1', success: true, content: '2' });
    const before = runs.length;
    for (const result of results.slice(0, -1)) {
      dieBehind(result.seq, records);
      expect(await goOn({ toolProviders })).toMatchObject(failure);
      expect(runs).toHaveLength(before);
    }
  });

  it('is not forgotten where it refuses a call before it runs', async () => {
    const beforeToolCall: Extension['beforeToolCall'] = ({ callId }) => (callId === '1:0' ? { fail } : undefined);
    const runs: string[] = [];
    const toolProviders = [plainTools({ pay: () => runs.push('pay') })];
    const extensions = [{ name: 'guard', beforeToolCall }];
    const loop = bench.loop([calls('pay', 'pay')], { toolProviders, extensions });
    const turn = loop.startTurn(question, { taskId: 't', contextId: 'c' });
    await expect(turn.result()).rejects.toMatchObject(fail);
    const refused = journal().findIndex(({ type }) => type === 'tool.result');
    expect(journal()[refused]).toMatchObject({
      callId: '1:0',
      success: false,
      error: { code: 'GUARDRAIL' },
      fails: fail,
    });
    dieBehind(refused + 1);
    expect(await goOn({ toolProviders })).toMatchObject(failure);
    expect(runs).toEqual([]);
  });

  it('is recorded at once, and none starts any more, also where its call has no place yet', async () => {
    const guard: Extension = {
      name: 'guard',
      approveToolCall: () => ({ decision: 'approve' }),
      beforeToolCall: ({ callId }) => (callId === '1:2' ? { fail } : undefined),
    };
    const runs: string[] = [];
    const toolProviders = [plainTools({ pay: () => runs.push('pay') })];
    const loop = bench.loop([calls('pay', 'pay', 'pay')], { toolProviders, extensions: [guard], toolConcurrency: 1 });
    await expect(loop.startTurn(question, { taskId: 't' }).result()).rejects.toMatchObject(fail);
    expect(runs).toEqual([]);
    expect(journal().slice(-2)).toMatchObject([{ type: 'tool.result', callId: '1:2', fails: fail }, failure]);
  });

  it('goes before a finish that came while it was asked', async () => {
    const finished = gate();
    const guard: Extension = {
      name: 'guard',
      beforeToolCall: ({ callId }) => (callId === '1:1' ? finished.pass().then(() => ({ fail })) : undefined),
      afterToolCall: () => ({ finish: { text: 'Enough.' } }),
    };
    const toolProviders = [plainTools({ count: () => 2 })];
    const turn = bench
      .loop([calls('count', 'count')], { toolProviders, extensions: [guard] })
      .startTurn(question, { taskId: 't' });
    const ended = turn.result().catch((error: unknown) => error);
    await watch(turn).until('internal:tool-complete', ({ callId }) => callId === '1:0');
    finished.open();
    expect(await ended).toMatchObject(fail);
    expect(journal().slice(-2)).toMatchObject([{ type: 'tool.result', callId: '1:1', fails: fail }, failure]);
  });

  it('counts also where it threw', async () => {
    const afterToolCall = () => Promise.reject(new Error('no room'));
    const toolProviders = [plainTools({ count: () => 2 })];
    const loop = bench.loop([calls('count', 'count')], {
      toolProviders,
      extensions: [{ name: 'guard', afterToolCall }],
      toolConcurrency: 1,
    });
    await expect(loop.startTurn(question, { taskId: 't', contextId: 'c' }).result()).rejects.toMatchObject({
      code: 'EXTENSION_FAILED',
    });
    const failed = journal().at(-1);
    if (failed?.type !== 'turn.failed') throw new Error('the turn has not failed');
    dieBehind(journal().length - 1);
    const { type, code, message, reason } = failed;
    expect(await goOn({ toolProviders })).toMatchObject({ type, code, message, reason });
  });

  const failing = failingResult(0);

  it('fails the turn at once where a question of another call is open', async () => {
    const asked = { id: '1:1', callId: '1:1', kind: 'input', toolName: 'ask' } as const;
    const records = [firstCall, answerOf(['count', 'ask']), intentOf(0), intentOf(1)];
    deadTurn(bench, [...records, { type: 'turn.asked', question: asked }, failing]);
    const toolProviders = [plainTools({ count: () => 2, ask: () => 'asked' })];
    expect(await goOn({ toolProviders })).toMatchObject(failure);
  });

  it('asks nobody about a call in doubt any more', async () => {
    deadTurn(bench, [firstCall, answerOf(['count', 'pay']), intentOf(0), intentOf(1), failing]);
    const toolProviders = [plainTools({ count: () => 2, pay: { onInDoubt: 'ask', execute: () => 'paid' } })];
    expect(await goOn({ toolProviders })).toMatchObject(failure);
    expect(journal().slice(-2)).toMatchObject([
      { type: 'tool.result', callId: '1:1', error: { code: 'OUTCOME_UNKNOWN' } },
      failure,
    ]);
  });

  it('goes before a call that failed later, whatever their order', async () => {
    const stopped = refusedCall('1:0', { code: 'CANCELED', message: 'stopped' });
    const records = [firstCall, answerOf(['count', 'count', 'count']), intentOf(0), intentOf(1)];
    deadTurn(bench, [...records, failingResult(1), stopped]);
    const toolProviders = [plainTools({ count: () => 2 })];
    expect(await goOn({ toolProviders, toolFailureMode: 'fail' })).toMatchObject(failure);
  });

  it('is left behind by a fork of the iteration: the fork goes on', async () => {
    const toolProviders = [plainTools({ count: () => 2 })];
    const extensions = [{ name: 'guard', afterToolCall: () => ({ fail }) }];
    const loop = bench.loop([calls('count')], { toolProviders, extensions });
    await expect(loop.startTurn(question, { taskId: 't' }).result()).rejects.toMatchObject(fail);
    const { taskId } = await AgentLoop.fork('t', { store: bench.store, at: 1, clock: bench.clock });
    expect(bench.store.read(taskId).filter((record) => 'fails' in record)).toEqual([]);
    const forked = AgentLoop.resume(taskId, bench.config(bench.model([{ text: 'Two.' }]), { toolProviders }));
    expect(await forked.result()).toMatchObject({ status: 'completed', text: 'Two.' });
  });

  it('does not outrun a cancel, and is recorded and replayed all the same', async () => {
    const started = gate();
    const toolProviders = [
      plainTools({
        count: async ({ signal }) => {
          const aborted = new Promise((resolve) => signal.addEventListener('abort', resolve));
          started.open();
          await aborted;
          return 2;
        },
      }),
    ];
    const extensions = [{ name: 'guard', afterToolCall: () => ({ fail }) }];
    const turn = bench
      .loop([calls('count')], { toolProviders, extensions })
      .startTurn(question, { taskId: 't', contextId: 'c' });
    const result = turn.result().catch((error) => error);
    await started.pass();
    await turn.cancel('enough');
    expect(await result).toMatchObject({ code: 'CANCELED' });
    expect(journal().slice(-2)).toMatchObject([{ type: 'tool.result', fails: fail }, { type: 'turn.canceled' }]);
    const { deviations } = await replay(journal(), {}, { patienceMs: testLimitMs }).result();
    expect(deviations).toEqual([]);
  });
});
