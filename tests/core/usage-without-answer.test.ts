import { describe, expect, it } from '@jest/globals';
import {
  type AgentLoopConfig,
  AgentLoopError,
  budget,
  composePolicies,
  estimateTokens,
  type LLMCallParams,
  type LLMProvider,
  limits,
  replay,
  retry,
  type Turn,
  timeout,
} from 'millrace';
import { AgentLoop } from 'millrace/internals';
import type { LLMStep } from 'millrace/testing';
import { concat, of, throwError } from 'rxjs';
import { question } from './dead-turn.ts';
import { plainTools } from './plain-tools.ts';
import { turnBench } from './turn-bench.ts';
import { watch } from './watch-events.ts';

const bench = turnBench();
const countCall = { id: 'c1', type: 'function', function: { name: 'count', arguments: '{}' } } as const;
const said = 'About twelve, I think; let me';
const asked = estimateTokens(question[0]);
const guessOf = (requests: number, text: string) => {
  const [promptTokens, completionTokens] = [requests * asked, requests * estimateTokens(text)];
  return { promptTokens, completionTokens, totalTokens: promptTokens + completionTokens, estimated: true };
};

function started(llmProvider: LLMProvider, options: Partial<AgentLoopConfig> = {}) {
  return new AgentLoop(bench.config(llmProvider, options)).startTurn(question, { taskId: 't' });
}

async function usageOf(turn: Turn) {
  const error: unknown = await turn.result().then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  return AgentLoopError.isInstance(error) && 'result' in error ? Reflect.get(Object(error.result), 'usage') : undefined;
}

const none = { promptTokens: 0, completionTokens: 0, totalTokens: 0 };
const known = { promptTokens: 7, completionTokens: 3, totalTokens: 10 };

/** A budget that is large enough, and the options of a turn that it counts. */
function sharedBudget() {
  const shared = budget({ maxTokens: 1_000_000 });
  return { shared, options: { extensions: [shared.extension()] } };
}

async function cancelBehindText(turn: Turn) {
  const watcher = watch(turn);
  await watcher.until('artifact-update');
  await turn.cancel('enough');
  await watcher.ended;
}

/** What the spans of the turn say that was taken: in all, and by the requests. */
function tokensOnSpans() {
  const spans = bench.spans.spans();
  const sum = (name: string, attribute: string) =>
    spans
      .filter((span) => span.name === name)
      .reduce((all, { attributes }) => all + Number(attributes[attribute] ?? 0), 0);
  return {
    turn: sum('agent.execute', 'millrace.usage.input_tokens'),
    requests: sum('llm.call', 'gen_ai.usage.input_tokens'),
    estimated: spans.some(({ attributes }) => 'millrace.usage.estimated' in attributes),
  };
}

/** That replaying the journal, and folding it, give what the turn gave. */
async function expectSame(usage: object) {
  const records = bench.store.read('t');
  if (usage === none) expect(records.at(-1)).not.toHaveProperty('usage');
  else expect(records.at(-1)).toMatchObject({ usage });
  expect(await replay(records).result()).toMatchObject({ deviations: [], usage });
  expect(
    await AgentLoop.resume('t', bench.config(bench.model([])))
      .result()
      .catch((error) => error.result),
  ).toMatchObject({ usage });
}

describe('what a model call took that gave no answer', () => {
  const alone = (provider: LLMProvider) => provider;
  const policies = [
    ['alone', alone],
    ['behind a policy', retry({ maxRetries: 1, initialDelayMs: 0 })],
  ] as const;

  it.each(policies)('H-40 is for a budget alone where it failed in the middle of its stream, %s', async (_, policy) => {
    const { shared, options } = sharedBudget();
    const turn = started(policy(bench.model([{ text: said, error: new Error('cable cut') }])), options);
    expect(await usageOf(turn)).toEqual(none);
    expect(shared.used).toEqual(guessOf(1, said));
    expect(tokensOnSpans()).toEqual({ turn: 0, requests: 0, estimated: false });
    await expectSame(none);
  });

  it.each(policies)('H-40 is for a budget alone where a cancel cut it off, %s', async (_, policy) => {
    const { shared, options } = sharedBudget();
    const turn = started(policy(bench.model([{ text: said, never: true }])), options);
    await cancelBehindText(turn);
    expect(await usageOf(turn)).toEqual(none);
    expect(shared.used).toEqual(guessOf(1, said));
    expect(tokensOnSpans()).toEqual({ turn: 0, requests: 0, estimated: false });
    await expectSame(none);
  });

  it('counts every request behind policies for a budget, also where all of them run into a time limit', async () => {
    const { clock } = bench;
    const { shared, options } = sharedBudget();
    const policies = composePolicies(
      retry({ maxRetries: 1, initialDelayMs: 0, clock }),
      timeout({ betweenChunksMs: 1_000, clock }),
    );
    const silent: LLMStep = { text: said, never: true };
    const turn = started(policies(bench.model([silent, silent])), options);
    const watcher = watch(turn);
    await watcher.until('artifact-update');
    await clock.advance(1_000);
    await clock.advance(1_000);
    await watcher.ended;
    expect(await usageOf(turn)).toEqual(none);
    expect(shared.used).toEqual(guessOf(2, said));
  });

  it('counts for a budget every request behind policies where a cancel cut the last one off', async () => {
    const { shared, options } = sharedBudget();
    const broken = new AgentLoopError('PROVIDER_STREAM_CLOSED', 'The stream broke off.', { retryable: true });
    const model = bench.model([{ error: broken }, { text: said, never: true }]);
    await cancelBehindText(started(retry({ initialDelayMs: 0 })(model), options));
    // The first one failed without any output.
    expect(shared.used).toEqual(guessOf(1, said));
  });

  it('counts for a budget with the answer the requests before it that broke off', async () => {
    const { shared, options } = sharedBudget();
    const usage = { promptTokens: 60, completionTokens: 40, totalTokens: 100 };
    const broken = new AgentLoopError('PROVIDER_STREAM_CLOSED', 'The stream broke off.', { retryable: true });
    const model = bench.model([
      { text: said, error: broken },
      { text: said, usage },
    ]);
    expect((await started(retry({ initialDelayMs: 0 })(model), options).result()).usage).toEqual(usage);
    expect(shared.used.totalTokens).toBe(100 + guessOf(1, said).totalTokens);
  });

  it('is no request for a budget where a cancel ends the pause before the next one', async () => {
    const { shared, options } = sharedBudget();
    const { clock } = bench;
    const broken = new AgentLoopError('PROVIDER_STREAM_CLOSED', 'The stream broke off.', { retryable: true });
    const policy = retry({ initialDelayMs: 1_000, random: () => 1, clock });
    const turn = started(policy(bench.model([{ text: said, error: broken }])), options);
    const watcher = watch(turn);
    await watcher.until('internal:llm-attempt-discarded');
    await turn.cancel('enough');
    await watcher.ended;
    expect(shared.used).toEqual(guessOf(1, said));
  });

  it('is added to the usage of a turn with a limit on tokens, which the call that would repeat it reaches', async () => {
    const broken = new AgentLoopError('PROVIDER_STREAM_CLOSED', 'The stream broke off.', { retryable: true });
    const turn = started(bench.model([{ text: said, error: broken }]), {
      extensions: [limits({ maxTokens: asked + 1 })],
      retryPlan: { attempts: 5, delayMs: 0 },
    });
    await expect(turn.result()).rejects.toMatchObject({
      code: 'LIMIT',
      reason: 'max_tokens',
      result: { usage: guessOf(1, said) },
    });
  });

  it('is added to what earlier calls took, and is none where the request was refused', async () => {
    const usage = { promptTokens: 60, completionTokens: 40, totalTokens: 100 };
    const refused = new AgentLoopError('PROVIDER_AUTH', 'The key is wrong.', { status: 401 });
    const toolProviders = [plainTools({ count: () => 2 })];
    const turn = started(bench.model([{ toolCalls: [{ name: 'count' }], usage }, { error: refused }]), {
      toolProviders,
    });
    expect(await usageOf(turn)).toEqual(usage);
    expect(bench.store.read('t').at(-1)).not.toHaveProperty('usage');
    expect(await replay(bench.store.read('t')).result()).toMatchObject({ deviations: [], usage });
  });

  it.each(policies)(
    'H-40 is nothing where the provider throws: on the result, on the spans, for a budget, %s',
    async (_, policy) => {
      const thrown = [
        new Error('no such host'),
        new AgentLoopError('PROVIDER_SERVER', 'The server answered HTTP 503.', { status: 503, retryable: true }),
        new AgentLoopError('PROVIDER_STREAM_CLOSED', 'It ended before it began.', { retryable: true }),
        new AgentLoopError('PROVIDER_PROTOCOL', 'It answered with a page of HTML.'),
      ];
      for (const error of thrown) {
        bench.spans.clear();
        const shared = budget({ maxTokens: 1_000_000 });
        const failing: LLMProvider = { call: () => Promise.reject(error) };
        const turn = new AgentLoop(bench.config(policy(failing), { extensions: [shared.extension()] })).startTurn(
          question,
        );
        expect(await usageOf(turn)).toEqual({ promptTokens: 0, completionTokens: 0, totalTokens: 0 });
        expect(shared.used.totalTokens).toBe(0);
        expect(tokensOnSpans()).toEqual({ turn: 0, requests: 0, estimated: false });
      }
    },
  );

  it('is what the provider tells, where it tells', async () => {
    const telling: LLMProvider = {
      call: async ({ noteUsage }) => {
        noteUsage?.(known);
        throw new AgentLoopError('PROVIDER_FAILED', 'The vendor filtered its own answer.');
      },
    };
    expect(await usageOf(started(telling))).toEqual(known);
    await expectSame(known);
  });

  it('is what the provider tells, also behind a policy', async () => {
    const telling: LLMProvider = {
      call: async ({ noteUsage }) => {
        noteUsage?.(known);
        throw new AgentLoopError('PROVIDER_FAILED', 'The vendor filtered its own answer.');
      },
    };
    expect(await usageOf(started(retry()(telling)))).toEqual(known);
    await expectSame(known);
  });

  it.each(['alone', 'behind a policy'])(
    'counts with the answer what its provider told before it, %s',
    async (place) => {
      const discarded = { promptTokens: 7, completionTokens: 3, totalTokens: 10 };
      const answered = { promptTokens: 60, completionTokens: 40, totalTokens: 100 };
      const own: LLMProvider = {
        call: async ({ noteUsage }) => {
          noteUsage?.(discarded);
          return { message: { role: 'assistant', content: said }, usage: answered };
        },
      };
      const shared = budget({ maxTokens: 1_000_000 });
      const provider = place === 'alone' ? own : retry()(own);
      const { usage } = await started(provider, { extensions: [shared.extension()] }).result();
      const all = { promptTokens: 67, completionTokens: 43, totalTokens: 110 };
      expect([usage, shared.used]).toEqual([all, all]);
      expect(bench.store.read('t').find(({ type }) => type === 'llm.done')).toMatchObject({
        usage: { ...answered, discarded },
      });
    },
  );

  it.each<readonly [string, unknown]>([
    ['nothing', undefined],
    ['null', null],
    ['no numbers', { promptTokens: 'a', completionTokens: 'b', totalTokens: 'c' }],
    ['NaN', { promptTokens: Number.NaN, completionTokens: 1, totalTokens: 1 }],
    ['less than nothing', { promptTokens: -5, completionTokens: -5, totalTokens: -10 }],
    ['a part', { promptTokens: 5 }],
    ['costs that are none', { promptTokens: 5, completionTokens: 5, totalTokens: 10, cost: Number.NaN }],
  ])('is nothing where the provider tells %s', async (_, nonsense) => {
    const telling: LLMProvider = {
      call: () => Promise.reject(new Error('it streams')),
      stream(params) {
        if (params.noteUsage) Reflect.apply(params.noteUsage, undefined, [nonsense]);
        return concat(
          of({ type: 'text' as const, text: said }),
          throwError(() => new Error('cable cut')),
        );
      },
    };
    expect(await usageOf(started(telling))).toEqual(none);
    await expectSame(none);
  });

  it('is not what a provider tells of a call once another has begun', async () => {
    const usage = { promptTokens: 60, completionTokens: 40, totalTokens: 100 };
    const told: LLMCallParams['noteUsage'][] = [];
    const late: LLMProvider = {
      async call({ noteUsage }) {
        told.push(noteUsage);
        told[0]?.({ promptTokens: 7, completionTokens: 3, totalTokens: 10 });
        if (told.length === 1) return { message: { role: 'assistant', content: null }, toolCalls: [countCall], usage };
        return { message: { role: 'assistant', content: said }, usage };
      },
    };
    const turn = started(late, { toolProviders: [plainTools({ count: () => 2 })] });
    expect((await turn.result()).usage.totalTokens).toBe(210);
  });

  it('counts for a budget once where a limit takes what was said as the answer, requests before it too', async () => {
    const { clock } = bench;
    const broken = new AgentLoopError('PROVIDER_STREAM_CLOSED', 'The stream broke off.', { retryable: true });
    const model = bench.model([
      { text: said, error: broken },
      { text: said, never: true },
    ]);
    const shared = budget({ maxTokens: 1_000_000 });
    const turn = started(retry({ initialDelayMs: 0 })(model), {
      extensions: [shared.extension(), limits({ maxWallTimeMs: 1_000, onLimit: 'stop' })],
    });
    const watcher = watch(turn);
    await watcher.until('internal:llm-attempt-discarded');
    await watcher.until('artifact-update', (event) => watcher.of('artifact-update').indexOf(event) > 0);
    await clock.advance(1_000);
    expect((await turn.result()).usage).toEqual(none);
    expect(shared.used).toEqual(guessOf(2, said));
  });

  it('is what the answer says, where an extension refuses the answer', async () => {
    const usage = { promptTokens: 60, completionTokens: 40, totalTokens: 100 };
    const strict = {
      name: 'strict',
      afterLLMCall: () => ({ fail: { code: 'GUARDRAIL' as const, message: 'Not so.' } }),
    };
    expect(await usageOf(started(bench.model([{ text: said, usage }]), { extensions: [strict] }))).toEqual(usage);
    await expectSame(usage);
  });

  it('counts for the closing summary that fails, as reported', async () => {
    const usage = { promptTokens: 60, completionTokens: 40, totalTokens: 100 };
    const failing: LLMProvider = {
      call: async ({ messages, noteUsage }) => {
        if (messages.length === 1)
          return { message: { role: 'assistant', content: null }, toolCalls: [countCall], usage };
        noteUsage?.(known);
        throw new Error('cut');
      },
    };
    const turn = started(failing, {
      toolProviders: [plainTools({ count: () => 2 })],
      maxIterations: 1,
      onLimit: 'summarize',
    });
    const result = await turn.result();
    expect(result.usage).toEqual({ promptTokens: 67, completionTokens: 43, totalTokens: 110 });
    expect(await replay(bench.store.read('t')).result()).toMatchObject({ deviations: [], usage: result.usage });
  });
});
