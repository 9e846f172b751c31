import { describe, expect, it } from '@jest/globals';
import { type AgentEvent, AgentLoopError, agent, agentTools, type LLMProvider, type RetryPlan, replay } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import type { LLMStep } from 'millrace/testing';
import { deadTurn, firstCall, question } from './dead-turn.ts';
import { plainTools } from './plain-tools.ts';
import { refusalOf } from './refusal-of.ts';
import { turnBench } from './turn-bench.ts';
import { ofKind, watch } from './watch-events.ts';

const bench = turnBench();
const away = (options: { readonly retryAfterMs?: number } = {}): LLMStep => ({
  error: new AgentLoopError('PROVIDER_RATE_LIMIT', 'slow down', { retryable: true, status: 429, ...options }),
});
const retryPlan: RetryPlan = { attempts: 4, delayMs: 10_000, maxDelayMs: 60_000 };
const fruit = plainTools({ count: () => 2 });
const asks: LLMStep = { toolCalls: [{ name: 'count' }] };

function pauses(events: readonly AgentEvent[]) {
  return ofKind(events, 'internal:paused').map(({ timestamp, until = '', reason, attempt, error }) => {
    return { waitMs: Date.parse(until) - Date.parse(timestamp), reason, attempt, code: error?.code };
  });
}

/** Lets the time of the pauses pass until a turn is over. */
async function passing<T>(result: Promise<T>): Promise<T> {
  const over = result.then(
    () => true,
    () => true,
  );
  for (;;) {
    if (await Promise.race([over, new Promise<false>((resolve) => setImmediate(() => resolve(false)))])) return result;
    bench.clock.advance(5_000);
  }
}

describe('a turn with a retry plan', () => {
  it('R-04 does not count crashes of processes that only waited for its time', async () => {
    const error = { code: 'PROVIDER_RATE_LIMIT', message: 'away' } as const;
    const hold = { until: bench.clock.now() + 60_000, attempt: 1, error };
    const backsOff = { type: 'turn.suspended', state: 'working', reason: 'backoff', questions: [], hold } as const;
    const crashed = () => ({ type: 'turn.resumed', lostAt: bench.clock.now() }) as const;
    deadTurn(bench, [firstCall, backsOff, crashed(), crashed()]);
    const config = bench.config(bench.model([{ text: 'Two.' }]), { maxResumes: 2, retryPlan });
    expect(await passing(AgentLoop.resume('t', config).result())).toMatchObject({ text: 'Two.' });
    const resumed = bench.store.read('t').filter(({ type }) => type === 'turn.resumed');
    expect(resumed.at(-1)).toMatchObject({ waited: true });
  });

  it('H-32 keeps its id through failures that pass: suspended with growing pauses, then done, with no call repeated', async () => {
    const steps = [asks, away(), away(), { text: 'Two.' }];
    const turn = bench.loop(steps, { toolProviders: [fruit], retryPlan }).startTurn(question, { taskId: 't' });
    const seen = watch(turn);
    expect(await passing(turn.result())).toMatchObject({
      taskId: 't',
      status: 'completed',
      text: 'Two.',
      toolCalls: 1,
    });
    const [first, second, ...others] = pauses(seen.events);
    expect(others).toEqual([]);
    expect(first).toMatchObject({ reason: 'backoff', attempt: 1, code: 'PROVIDER_RATE_LIMIT' });
    expect(second).toMatchObject({ reason: 'backoff', attempt: 2, code: 'PROVIDER_RATE_LIMIT' });
    expect(first?.waitMs).toBeGreaterThanOrEqual(5_000);
    expect(second?.waitMs).toBeGreaterThanOrEqual(first?.waitMs ?? 0);
    const finals = ofKind(seen.events, 'status-update').filter(({ final }) => final);
    expect(finals).toMatchObject([{ status: { state: 'completed' } }]);
    const suspended = (await bench.store.read('t')).filter(({ type }) => type === 'turn.suspended');
    expect(suspended).toMatchObject([
      { reason: 'backoff', state: 'working', hold: { until: expect.any(Number), attempt: 1 } },
      { reason: 'backoff', state: 'working', hold: { until: expect.any(Number), attempt: 2 } },
    ]);
  });

  it('H-32 doubles the pause after each failure, up to the longest, and shortens it by less than half', async () => {
    const plan: RetryPlan = { attempts: 7, delayMs: 1_000, maxDelayMs: 10_000 };
    const steps = [...Array.from({ length: 5 }, () => away()), { text: 'Two.' }];
    const turn = bench.loop(steps, { retryPlan: plan }).startTurn(question);
    const seen = watch(turn);
    await passing(turn.result());
    const waits = pauses(seen.events).map(({ waitMs }) => waitMs);
    expect(waits).toHaveLength(5);
    for (const [index, longest] of [1_000, 2_000, 4_000, 8_000, 10_000].entries()) {
      expect(waits[index]).toBeGreaterThanOrEqual(longest / 2);
      expect(waits[index]).toBeLessThanOrEqual(longest);
    }
  });

  it('H-32 waits exactly as long as the server asks for', async () => {
    const turn = bench.loop([away({ retryAfterMs: 42_000 }), { text: 'Two.' }], { retryPlan }).startTurn(question);
    const seen = watch(turn);
    await passing(turn.result());
    expect(pauses(seen.events)).toMatchObject([{ waitMs: 42_000 }]);
  });

  it.each<readonly [string, readonly LLMStep[], object]>([
    ['the attempts are used up', [away(), away()], { code: 'PROVIDER_RATE_LIMIT', reason: 'retries', status: 429 }],
    [
      'the server asks for more than the longest pause',
      [away({ retryAfterMs: 60_001 })],
      { reason: 'provider_rate_limit' },
    ],
    ['the failure does not pass', [{ error: new AgentLoopError('PROVIDER_AUTH', 'no') }], { reason: 'provider_auth' }],
  ])('H-32 fails where %s', async (_, steps, failure) => {
    const loop = bench.loop(steps, { retryPlan: { ...retryPlan, attempts: 2 } });
    await expect(passing(loop.startTurn(question).result())).rejects.toMatchObject(failure);
  });

  it('H-32 counts the attempts of each call, and retries only the codes that it names', async () => {
    const plan: RetryPlan = { attempts: 2, delayMs: 1_000, on: ['PROVIDER_SERVER'] };
    const busy: LLMStep = { error: new AgentLoopError('PROVIDER_SERVER', 'busy') };
    const steps = [busy, asks, busy, asks, away()];
    const turn = bench.loop(steps, { toolProviders: [fruit] }).startTurn(question, { retryPlan: plan });
    const seen = watch(turn);
    await expect(passing(turn.result())).rejects.toMatchObject({ code: 'PROVIDER_RATE_LIMIT' });
    expect(pauses(seen.events)).toMatchObject([{ attempt: 1 }, { attempt: 1 }]);
  });

  it('H-32 waits the rest of its pause in the process that resumes it', async () => {
    const dead = bench.loop([away({ retryAfterMs: 50_000 })], { retryPlan }).startTurn(question, { taskId: 't' });
    const lost = dead.settled;
    const seen = watch(dead);
    await seen.until('internal:paused');
    const thief = bench.leases;
    thief.advance(30_000);
    const config = bench.config(bench.model([{ text: 'Two.' }]));
    const again = AgentLoop.resume('t', config);
    const resumed = watch(again);
    await resumed.until('internal:resumed');
    bench.clock.advance(30_000);
    await expect(lost).rejects.toMatchObject({ code: 'FENCED' });
    expect(ofKind(resumed.events, 'internal:llm-call')).toHaveLength(1);
    bench.clock.advance(20_000);
    expect(await again.result()).toMatchObject({ text: 'Two.' });
    const state = again.state;
    expect(state).toMatchObject({ suspendedMs: 50_000, failedAttempts: 0, hold: undefined });
  });

  it.each(['cancel', 'pause'] as const)('H-32 does not wait where it is told to %s', async (what) => {
    const turn = bench.loop([away()], { retryPlan }).startTurn(question, { taskId: 't' });
    const seen = watch(turn);
    await seen.until('internal:paused');
    const outcome = turn.result().catch((error: unknown) => error);
    if (what === 'cancel') void turn.cancel('enough');
    else turn.pause('lunch');
    const end = { cancel: { code: 'CANCELED' }, pause: { status: 'input-required', reason: 'lunch' } };
    expect(await outcome).toMatchObject(end[what]);
    if (what === 'cancel') return;
    const again = AgentLoop.resume('t', bench.config(bench.model([{ text: 'Two.' }])));
    expect(await passing(again.result())).toMatchObject({ status: 'completed' });
  });

  it('H-32 is left to another process at once where its own shuts down', async () => {
    const leaving = new AbortController();
    const turn = bench.loop([away()], { retryPlan, shutdown: leaving.signal }).startTurn(question, { taskId: 't' });
    const seen = watch(turn);
    await seen.until('internal:paused');
    leaving.abort();
    await expect(turn.settled).rejects.toMatchObject({ code: 'SHUTDOWN' });
    expect(bench.store.list()).toMatchObject([{ state: 'working', held: false }]);
    const again = AgentLoop.resume('t', bench.config(bench.model([{ text: 'Two.' }])));
    expect(await passing(again.result())).toMatchObject({ status: 'completed' });
  });

  it('H-32 counts what failed calls used, as their provider reports it', async () => {
    const usage = { promptTokens: 10, completionTokens: 0, totalTokens: 10 };
    let calls = 0;
    const reporting: LLMProvider = {
      call: async ({ noteUsage }) => {
        if (calls++ > 0) return { message: { role: 'assistant', content: 'Two.' }, usage };
        noteUsage?.(usage);
        throw new AgentLoopError('PROVIDER_RATE_LIMIT', 'slow down', { retryable: true, status: 429 });
      },
    };
    const turn = new AgentLoop(bench.config(reporting, { retryPlan })).startTurn(question, { taskId: 't' });
    await passing(turn.result());
    expect(bench.store.read('t')[2]).toMatchObject({ type: 'turn.suspended', usage });
    expect(turn.state?.usage.totalTokens).toBe(20);
  });

  it('H-32 holds for its sub-agents too, and the parent turn waits for them', async () => {
    const ada = agent({
      id: 'ada',
      description: 'asks',
      provider: bench.model([away(), { text: 'Fruit.' }]),
      clock: bench.clock,
      retry: null,
    });
    const askAda: LLMStep = { toolCalls: [{ name: 'ada', arguments: { message: 'Which?' } }] };
    const loop = bench.loop([askAda, { text: 'Two.' }], { toolProviders: [agentTools([ada])], retryPlan });
    const turn = loop.startTurn(question, { taskId: 't' });
    const seen = watch(turn);
    expect(await passing(turn.result())).toMatchObject({ text: 'Two.', toolCalls: 1 });
    const below = ofKind(seen.events, 'internal:sub-agent').map(({ event }) => event);
    expect(pauses(below)).toMatchObject([{ reason: 'backoff', attempt: 1 }]);
  });

  it('H-32 can be replayed', async () => {
    const steps = [asks, away(), away(), { text: 'Two.' }];
    const turn = bench.loop(steps, { toolProviders: [fruit], retryPlan }).startTurn(question, { taskId: 't' });
    await passing(turn.result());
    expect(await replay(await bench.store.read('t')).result()).toMatchObject({ text: 'Two.', deviations: [] });
  });

  it.each<readonly [unknown, string]>([
    [null, 'must be an object'],
    [{ tries: 3 }, 'unknown property tries'],
    [{ attempts: 0 }, 'attempts, an integer ≥ 1, not 0'],
    [{ delayMs: -1 }, 'delayMs, milliseconds ≥ 0'],
    [{ on: ['OOPS'] }, 'an array of error codes'],
  ])('refuses the plan %j', (plan, words) => {
    const config = Object.assign(bench.config(bench.model([])), { retryPlan: plan });
    expect(refusalOf(() => new AgentLoop(config)).message).toContain(words);
  });
});

describe('a turn without a store that is paused', () => {
  it('H-35 waits in its process, starts no call, and continues in the same stream when it is resumed', async () => {
    const runs: string[] = [];
    const tools = plainTools({ count: () => runs.push('count') });
    const turn = bench
      .loop([asks, { text: 'Two.' }], { toolProviders: [tools], store: false })
      .startTurn(question, { taskId: 't' });
    const seen = watch(turn);
    await seen.until('internal:llm-call');
    turn.pause('lunch');
    await seen.until('internal:paused');
    const late = watch(turn);
    expect(ofKind(late.events, 'status-update').at(-1)).toMatchObject({
      status: { state: 'input-required' },
      final: false,
    });
    await new Promise((resolve) => setImmediate(resolve));
    expect([runs, seen.end]).toEqual([[], undefined]);
    turn.resume();
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'Two.', toolCalls: 1 });
    const kinds = seen.events.map(({ kind }) => kind);
    expect(kinds.indexOf('internal:paused')).toBeLessThan(kinds.indexOf('internal:resumed'));
    expect(kinds.filter((kind) => kind === 'task')).toHaveLength(1);
    expect(ofKind(seen.events, 'status-update').filter(({ final }) => final)).toHaveLength(1);
    expect(() => turn.resume()).toThrow(expect.objectContaining({ code: 'TERMINAL' }));
  });

  it('H-35 is cancelled where its readers leave meanwhile', async () => {
    const turn = bench.loop([asks], { toolProviders: [fruit], store: false }).startTurn(question);
    const seen = watch(turn);
    turn.pause();
    await seen.until('internal:paused');
    const outcome = turn.result().catch((error: unknown) => error);
    seen.leave();
    expect(await outcome).toMatchObject({ code: 'CANCELED' });
  });

  it('H-35 waits where an extension pauses it, and is not asked again', async () => {
    let asked = 0;
    const extensions = [{ name: 'brake', shouldPause: () => ++asked === 2 && { reason: 'look' } }];
    const loop = bench.loop([asks, { text: 'Two.' }], { toolProviders: [fruit], extensions, store: false });
    const turn = loop.startTurn(question);
    const seen = watch(turn);
    await seen.until('internal:paused');
    expect(ofKind(seen.events, 'internal:paused')).toMatchObject([{ reason: 'look' }]);
    turn.resume();
    expect(await turn.result()).toMatchObject({ text: 'Two.' });
    expect(asked).toBe(2);
  });

  it('H-35 does not pause where that is taken back in time', async () => {
    const turn = bench.loop([asks, { text: 'Two.' }], { toolProviders: [fruit], store: false }).startTurn(question);
    const seen = watch(turn);
    turn.pause();
    turn.resume();
    await turn.result();
    expect(ofKind(seen.events, 'internal:paused')).toEqual([]);
  });

  it('H-35 is resumed by its agent', async () => {
    const ada = agent({ id: 'ada', provider: bench.model([{ text: 'Two.' }]), clock: bench.clock });
    const turn = ada.startTurn('How many?', { taskId: 't' });
    const seen = watch(turn);
    await ada.pause('t');
    await seen.until('internal:paused');
    expect(ada.resume('t')).toBe(turn);
    expect(await turn.result()).toMatchObject({ text: 'Two.' });
    await ada.close();
  });
});
