import { describe, expect, it } from '@jest/globals';
import {
  type AgentLoopConfig,
  AgentLoopError,
  agent,
  agentTools,
  circuitBreaker,
  composePolicies,
  fallback,
  hedge,
  type LLMCallParams,
  type LLMChunk,
  type LLMProvider,
  limitConcurrency,
  rateLimit,
  replay,
  retry,
  type StartOptions,
} from 'millrace';
import { AgentLoop, ModelSilence } from 'millrace/internals';
import { fakeClock } from 'millrace/testing';
import { catchError, concat, defer, EMPTY, finalize, Observable } from 'rxjs';
import { runTurn, wait } from './tools/run-turn.ts';
import { turnBench } from './turn-bench.ts';

function watched(ms: number) {
  const clock = fakeClock();
  const silence = new ModelSilence(clock, ms);
  let noticed = 0;
  silence.start(() => noticed++);
  return { clock, silence, noticed: () => noticed };
}

it('H-13 a call that says something now and then is not silent, however long it takes', () => {
  const { clock, silence, noticed } = watched(800);
  for (let chunk = 0; chunk < 20; chunk++) {
    clock.advance(700);
    silence.heard();
  }
  expect(noticed()).toBe(0);
  // From its last chunk on it has the whole time, and at most an eighth more.
  clock.advance(799);
  expect(noticed()).toBe(0);
  clock.advance(101);
  expect(noticed()).toBe(1);
  clock.advance(10_000);
  expect(noticed()).toBe(1);
});

it('H-13 what it is suspended for is no silence: it has the whole time after that', () => {
  const { clock, silence, noticed } = watched(800);
  clock.advance(700);
  const resumes = [silence.suspend(), silence.suspend()];
  clock.advance(10_000);
  for (const resume of resumes) resume();
  clock.advance(799);
  expect(noticed()).toBe(0);
  clock.advance(1);
  expect(noticed()).toBe(1);
});

it('H-13 a call that has ended is not silent, suspended or not', () => {
  const { clock, silence, noticed } = watched(800);
  const resume = silence.suspend();
  silence.end();
  resume();
  clock.advance(10_000);
  expect([noticed(), clock.pending]).toEqual([0, 0]);
});

const bench = turnBench();
const modelSilenceMs = 400;
const silent = { code: 'PROVIDER_TIMEOUT', message: 'The model was silent for 400 ms (modelSilenceMs).' };
const stalls = { text: 'One, ', never: true } as const;
const answer = { text: 'Two.' };

/** An answer that takes longer than the limit, and is not silent for that long. */
const slowly = () => ({ text: ['One', 300, ', ', 600, 'two', 900, '.'].map(passed) });
const passed = (piece: string | number) => (typeof piece === 'number' ? wait(bench.clock, piece) : piece);

const run = (llmProvider: LLMProvider, options: StartOptions & Partial<AgentLoopConfig> = {}) => {
  const { taskId, ...config } = options;
  const loop = new AgentLoop(bench.config(llmProvider, { modelSilenceMs, ...config }));
  return runTurn(loop, { clock: bench.clock, ...(taskId !== undefined && { taskId }) });
};

const again = (maxRetries: number) => retry({ maxRetries, initialDelayMs: 1_000, random: () => 1, clock: bench.clock });

/** A provider of the caller's own that asks another one, with the parameters that it got. */
const around = (ask: (params: LLMCallParams) => Observable<LLMChunk>): LLMProvider => ({
  call: () => Promise.reject(new Error('it streams')),
  stream: ask,
});
const streamOf = (provider: LLMProvider, params: LLMCallParams) => provider.stream?.({ ...params }) ?? EMPTY;

describe('a request that is silent for modelSilenceMs', () => {
  it('H-13 falls back, also in the middle of its answer, which is void', async () => {
    const { result, seen } = await run(fallback({ to: bench.model([answer]) })(bench.model([stalls])));
    expect(result).toMatchObject({ status: 'completed', text: 'Two.' });
    expect(seen.of('internal:llm-attempt-discarded')).toMatchObject([{ reason: 'PROVIDER_TIMEOUT' }]);
  });

  it('H-13 falls back where it does not stream, and is aborted', async () => {
    let reason: unknown;
    const call: LLMProvider['call'] = ({ signal }) =>
      new Promise((_, reject) =>
        signal?.addEventListener('abort', () => {
          reason = signal.reason;
          reject(reason);
        }),
      );
    const { result } = await run(fallback({ to: bench.model([answer], { streaming: false }) })({ call }));
    expect(result).toMatchObject({ text: 'Two.' });
    expect(reason).toMatchObject({ code: 'CANCELED' });
  });

  it('H-13 is made again, after pauses that are longer than the limit', async () => {
    const { result } = await run(again(2)(bench.model([stalls, { never: true }, answer])));
    expect(result).toMatchObject({ status: 'completed', text: 'Two.' });
  });

  it('H-13 fails the turn once all were silent, and counts as a failure for the circuit', async () => {
    const guarded = composePolicies(circuitBreaker({ failures: 1, clock: bench.clock }), again(1));
    const model = guarded(bench.model([stalls, stalls]));
    expect((await run(model)).result).toMatchObject(silent);
    expect((await run(model)).result).toMatchObject({ code: 'PROVIDER_UNREACHABLE' });
  });

  it('H-13 leaves the answer to the other request of a hedge', async () => {
    const hedged = hedge({ delayMs: 200, clock: bench.clock })(bench.model([{ never: true }, slowly]));
    expect((await run(hedged)).result).toMatchObject({ text: 'One, two.' });
  });

  it('H-13 is made again by the plan of the turn, and by a sub-agent', async () => {
    const plan = { attempts: 2, delayMs: 1_000 };
    const model = bench.model([stalls, answer]);
    expect((await run(model, { retryPlan: plan })).result).toMatchObject({ status: 'completed', text: 'Two.' });
    const provider = again(1)(bench.model([stalls, slowly]));
    const bo = agent({ name: 'bo', description: 'Knows it.', provider, clock: bench.clock, modelSilenceMs });
    const ask = { toolCalls: [{ name: 'bo', arguments: { message: 'Which?' } }] };
    const asking = bench.model([ask, answer]);
    await run(asking, { toolProviders: [agentTools([bo])] });
    expect(asking.calls[1]?.messages.at(-1)).toMatchObject({ role: 'tool', content: 'One, two.' });
  });
});

describe('what is no silence of a request', () => {
  it.each([
    ['limitConcurrency', () => limitConcurrency({ max: 1, clock: bench.clock })],
    ['rateLimit', () => rateLimit({ requestsPerMinute: 1, clock: bench.clock })],
    [
      'a provider of the caller around limitConcurrency',
      () => {
        const limit = limitConcurrency({ max: 1, clock: bench.clock });
        return (model: LLMProvider) => around((params) => streamOf(limit(model), params));
      },
    ],
  ])('H-13 the queue of %s', async (_, policyOf) => {
    const model = policyOf()(bench.model([slowly, slowly]));
    const both = await Promise.all([run(model), run(model)]);
    expect(both.map(({ result }) => result.status)).toEqual(['completed', 'completed']);
  });

  it('H-13 and a turn that waited and was tried again is replayed as it was', async () => {
    const { result } = await run(again(1)(bench.model([stalls, slowly])), { taskId: 't' });
    expect(result).toMatchObject({ status: 'completed' });
    const records = bench.store.read('t');
    expect(await replay(records, { modelSilenceMs }).result()).toMatchObject({ deviations: [], records });
  });
});

it('H-13 a provider of the caller that falls silent once its policies are over is noticed', async () => {
  const policed = again(0)(bench.model([{ error: new AgentLoopError('PROVIDER_SERVER', 'down') }]));
  const model = bench.model([stalls]);
  const own = around((params) => streamOf(policed, params).pipe(catchError(() => streamOf(model, params))));
  expect((await run(own)).result).toMatchObject(silent);
});

it('H-13 a request of a provider of the caller between policies is limited, without the queue in it', async () => {
  const limit = limitConcurrency({ max: 1, clock: bench.clock });
  const limited = limit(bench.model([slowly, slowly, stalls, answer]));
  const model = again(1)(around((params) => streamOf(limited, params)));
  const both = await Promise.all([run(model), run(model)]);
  expect(both.map(({ result }) => result.status)).toEqual(['completed', 'completed']);
  expect((await run(model)).result).toMatchObject({ text: 'Two.' });
});

it.each([
  ['suspended', true, { status: 'completed', text: 'Two.' }],
  ['not suspended', false, silent],
] as const)('H-13 what a provider of the caller waits for: the limit is %s', async (_, suspends, expected) => {
  const model = bench.model(suspends ? [answer] : []);
  const place$ = new Observable<never>((to) => bench.clock.schedule(2 * modelSilenceMs, () => to.complete()));
  const queued = (params: LLMCallParams) => {
    const resume = suspends ? params.silence?.suspend() : undefined;
    return concat(
      place$.pipe(finalize(() => resume?.())),
      defer(() => streamOf(model, params)),
    );
  };
  expect((await run(around(queued))).result).toMatchObject(expected);
});
