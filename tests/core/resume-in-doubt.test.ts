import { describe, expect, it } from '@jest/globals';
import type { AgentLoopConfig, Message, ToolContext, ToolPolicy } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import type { OnInDoubt } from 'millrace/types';
import { answerOf, deadTurn, firstCall, intentOf } from './dead-turn.ts';
import { plainTools } from './plain-tools.ts';
import { turnBench } from './turn-bench.ts';
import { watch } from './watch-events.ts';

const bench = turnBench();

/** A turn whose process died while the tool `pay` ran, resumed with a tool of this policy. */
function resumeInDoubt(policy: ToolPolicy, options: Partial<AgentLoopConfig> = {}) {
  deadTurn(bench, [firstCall, answerOf(['pay']), intentOf(0)]);
  const runs: ToolContext[] = [];
  const execute = (context: ToolContext) => {
    runs.push(context);
    return 'paid now';
  };
  const toolProviders = [plainTools({ pay: { ...policy, execute } })];
  const model = bench.model([{ text: 'Done.' }]);
  const turn = AgentLoop.resume('t', bench.config(model, { toolProviders, ...options }));
  return { turn, runs, model };
}

async function outcomeOf(policy: ToolPolicy) {
  const { turn, runs, model } = resumeInDoubt(policy);
  const watcher = watch(turn);
  await turn.result();
  return { runs, watcher, told: model.calls[0]?.messages.at(-1) };
}

const unknown = { role: 'tool', status: 'error', content: expect.stringContaining('OUTCOME_UNKNOWN') };
const asked: { key: string; callId: string; authContext: unknown }[] = [];

function reconciling(answer: Awaited<ReturnType<Extract<OnInDoubt, (...given: never[]) => unknown>>>): ToolPolicy {
  return {
    onInDoubt: async (key, { callId, authContext }) => {
      asked.push({ key, callId, authContext });
      return answer;
    },
  };
}

describe('a tool that is asked what became of a call', () => {
  it.each([
    undefined,
    null,
    'applied',
    { outcome: 'applied' },
    { outcome: 'applied', content: { a: 1 } },
    { outcome: 'Applied!', content: 'paid' },
  ])('and says %j has said nothing', async (said) => {
    const { runs, told } = await outcomeOf({ onInDoubt: async () => JSON.parse(JSON.stringify(said) ?? 'null') });
    expect(runs).toEqual([]);
    expect(told).toMatchObject(unknown);
  });
});

describe('a call whose process died while it ran', () => {
  it('S1-79 is not run again by default: the model is told that its outcome is unknown', async () => {
    const { runs, told, watcher } = await outcomeOf({});
    expect(runs).toEqual([]);
    expect(told).toMatchObject(unknown);
    expect(watcher.of('internal:tool-start')).toHaveLength(1);
    expect(watcher.of('internal:tool-complete')).toMatchObject([{ callId: '1:0', error: { code: 'OUTCOME_UNKNOWN' } }]);
  });

  it.each(['idempotent', 'readOnly'] as const)('S1-79 runs again where a tool that is %s says retry', async (safe) => {
    const { runs, told, watcher } = await outcomeOf({ onInDoubt: 'retry', [safe]: true });
    expect(runs).toMatchObject([{ attempt: 2, callId: '1:0', idempotencyKey: 't:1:0' }]);
    expect(told).toMatchObject({ content: 'paid now' });
    expect(watcher.of('internal:tool-start').map(({ attempt }) => attempt)).toEqual([1, 2]);
  });

  it.each(['idempotent', 'readOnly'] as const)('R-42 runs again where a tool is %s and says no more', async (safe) => {
    const { runs, told } = await outcomeOf({ [safe]: true });
    expect(runs).toMatchObject([{ attempt: 2, idempotencyKey: 't:1:0' }]);
    expect(told).toMatchObject({ content: 'paid now' });
  });

  it.each([
    { readOnly: true, onInDoubt: 'fail' },
    { idempotent: true, onInDoubt: 'fail' },
    { readOnly: false, idempotent: false },
  ] as const)('R-42 is not run again where a tool says %j', async (policy) => {
    const { runs, told } = await outcomeOf(policy);
    expect(runs).toEqual([]);
    expect(told).toMatchObject(unknown);
  });

  it('is not run again where a tool says retry and is neither idempotent nor read-only', async () => {
    const { runs, told } = await outcomeOf({ onInDoubt: 'retry' });
    expect(runs).toEqual([]);
    expect(told).toMatchObject(unknown);
  });

  it('S1-79 has the result that its own tool tells of, found by the idempotency key', async () => {
    asked.length = 0;
    const { runs, told } = await outcomeOf(reconciling({ outcome: 'applied', content: 'paid before' }));
    expect(asked).toEqual([{ key: 't:1:0', callId: '1:0', authContext: undefined }]);
    expect(runs).toEqual([]);
    expect(told).toEqual({ role: 'tool', toolCallId: 'id-0', content: 'paid before' } satisfies Message);
  });

  it('S1-79 runs where its own tool says that it was not applied', async () => {
    const { runs, told } = await outcomeOf(reconciling({ outcome: 'not-applied' }));
    expect(runs).toMatchObject([{ attempt: 2 }]);
    expect(told).toMatchObject({ content: 'paid now' });
  });

  it('is not run again where its own tool does not know', async () => {
    const { runs, told } = await outcomeOf(reconciling({ outcome: 'unknown' }));
    expect(runs).toEqual([]);
    expect(told).toMatchObject(unknown);
  });

  it('is not run again where asking its tool fails, and the model reads why', async () => {
    const { runs, told } = await outcomeOf({ onInDoubt: () => Promise.reject(new Error('ledger is down')) });
    expect(runs).toEqual([]);
    expect(told).toMatchObject({ status: 'error', content: expect.stringContaining('ledger is down') });
  });

  it('lets a cancel end the turn after abortGraceMs, where its tool does not answer what became of it', async () => {
    const silent = (): Promise<never> => new Promise(() => {});
    deadTurn(bench, [firstCall, answerOf(['pay']), intentOf(0)]);
    const toolProviders = [plainTools({ pay: { onInDoubt: silent, execute: () => 'paid' } })];
    const options = { toolProviders, abortGraceMs: 200, toolTimeoutMs: 0 };
    const turn = AgentLoop.resume('t', bench.config(bench.model([]), options));
    await watch(turn).until('internal:resumed');
    const settled = turn.cancel('enough');
    bench.clock.advance(200);
    await settled;
    expect(bench.store.read('t').at(-1)).toMatchObject({ type: 'turn.canceled', reason: 'enough' });
  });

  it('has an unknown outcome where its tool does not answer within the tool’s timeout', async () => {
    deadTurn(bench, [firstCall, answerOf(['pay']), intentOf(0)]);
    let signal: AbortSignal | undefined;
    const silent = (_key: string, context: ToolContext): Promise<never> => {
      signal = context.signal;
      return new Promise(() => {});
    };
    const model = bench.model([{ text: 'Done.' }]);
    const toolProviders = [plainTools({ pay: { onInDoubt: silent, timeoutMs: 700, execute: () => 'paid' } })];
    const result = AgentLoop.resume('t', bench.config(model, { toolProviders })).result();
    await bench.clock.whenPending(2);
    bench.clock.advance(700);
    expect(await result).toMatchObject({ status: 'completed' });
    expect(model.calls[0]?.messages.at(-1)).toMatchObject(unknown);
    expect(signal?.aborted).toBe(true);
  });
});
