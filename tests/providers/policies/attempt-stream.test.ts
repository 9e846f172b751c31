import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { propagation } from '@opentelemetry/api';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import {
  composePolicies,
  fallback,
  hedge,
  type LLMChunk,
  type LLMProvider,
  type LLMResponse,
  retry,
  timeout,
} from 'millrace';
import { AgentLoop, addUsage } from 'millrace/internals';
import { LiteLLMProvider } from 'millrace/litellm';
import { fakeClock, recordSpans, type SpanRecorder, scriptedLLM, startModelServer } from 'millrace/testing';
import { EMPTY, firstValueFrom, NEVER, of, throwError } from 'rxjs';
import { failure, hi, streamOf } from './scripted-calls.ts';

let recorder: SpanRecorder;
beforeEach(() => {
  recorder = recordSpans();
});
afterEach(async () => {
  expect(recorder.open()).toEqual([]);
  await recorder.dispose();
});

const at0 = { initialDelayMs: 0 };
const down = { error: failure('PROVIDER_SERVER', { status: 503 }) };
const turnOf = (llmProvider: LLMProvider) =>
  new AgentLoop({ agentId: 'a', llmProvider }).startTurn(hi.messages, { detached: true });
const llmSpans = () => recorder.spans().filter(({ name }) => name === 'llm.call');

describe('the spans of attempts', () => {
  it('are siblings below the iteration, one for each request, each with its own model, outcome and usage', async () => {
    const usage = { promptTokens: 10, completionTokens: 2, totalTokens: 12 };
    const first = scriptedLLM([{ text: 'Hel', ...down }, down], { info: { providerName: 'one', model: 'm1' } });
    const second = scriptedLLM([{ text: 'Hello', usage }], { info: { providerName: 'two', model: 'm2' } });
    await turnOf(
      composePolicies(fallback({ to: second }), retry({ ...at0, maxRetries: 1 }), timeout({ totalMs: 60_000 }))(first),
    ).result();
    expect(recorder.tree()).toBe(
      ['agent.execute', '  iteration[1]', '    llm.call', '    llm.call', '    llm.call'].join('\n'),
    );
    expect(
      llmSpans().map(({ attributes }) => [
        attributes['gen_ai.request.model'],
        attributes['error.type'],
        attributes['gen_ai.usage.input_tokens'],
      ]),
    ).toEqual([
      ['m1', 'PROVIDER_SERVER', undefined],
      ['m1', 'PROVIDER_SERVER', undefined],
      ['m2', undefined, 10],
    ]);
    expect(llmSpans().map(({ attributes }) => 'gen_ai.response.time_to_first_chunk' in attributes)).toEqual([
      false,
      false,
      true,
    ]);
  });

  it('of a race overlap, and the loser’s is cancelled', async () => {
    const clock = fakeClock();
    const llm = scriptedLLM([{ never: true }, { text: 'Hello' }]);
    const result = turnOf(hedge({ delayMs: 5, clock })(llm)).result();
    await clock.whenPending();
    clock.advance(5);
    await result;
    expect(llmSpans().map(({ attributes }) => attributes['millrace.outcome'])).toEqual(['canceled', undefined]);
  });

  it('travel with the request that they belong to', async () => {
    propagation.setGlobalPropagator(new W3CTraceContextPropagator());
    const server = await startModelServer({ script: [{ status: 503 }, { text: 'Hello' }] });
    await turnOf(retry(at0)(new LiteLLMProvider({ baseUrl: server.baseUrl, model: 'm' }))).result();
    const sent = server.headers.map(({ traceparent }) => String(traceparent).split('-')[2]);
    expect(sent).toEqual(llmSpans().map((span) => span.spanContext().spanId));
    await server.close();
    propagation.disable();
  });

  it('end when the turn is cancelled in the middle of a request', async () => {
    const llm = scriptedLLM([{ text: 'Hel', never: true }]);
    const turn = turnOf(retry()(llm));
    await new Promise<void>((resolve) => {
      turn.subscribe((event) => {
        if (event.kind === 'artifact-update') resolve();
      });
    });
    await turn.cancel('enough');
    await turn.settled;
    expect(llmSpans().map(({ attributes }) => attributes['millrace.outcome'])).toEqual(['canceled']);
    expect(llm.active).toBe(0);
  });

  it('are made once where a policy of one’s own hides those within', async () => {
    const inner = retry()(scriptedLLM([{ text: 'Hello' }]));
    const hiding: LLMProvider = { call: (params) => inner.call(params) };
    await turnOf(hiding).result();
    await turnOf(retry()({ call: (params) => retry()(scriptedLLM([{ text: 'Hello' }])).call(params) })).result();
    expect(llmSpans()).toHaveLength(2);
  });
});

describe('usage of attempts', () => {
  const usage = { promptTokens: 10, completionTokens: 2, totalTokens: 12 };

  it('H-40 counts nothing that the provider did not report for what was streamed and discarded', async () => {
    const llm = scriptedLLM([
      { text: 'x'.repeat(40), error: failure('PROVIDER_STREAM_CLOSED') },
      { text: 'Hello', usage },
    ]);
    expect((await turnOf(retry(at0)(llm)).result()).usage).toEqual(usage);
  });

  it('passes on once what requests within the innermost policy report', async () => {
    const nested = composePolicies(
      timeout({ totalMs: 60_000 }),
      retry(at0),
      timeout({ totalMs: 60_000 }),
      timeout({ totalMs: 60_000 }),
    );
    let requests = 0;
    const reporting: LLMProvider = {
      call: async ({ noteUsage }) => {
        if (requests++ > 0) return { message: { role: 'assistant', content: 'Hello' }, usage };
        noteUsage?.(usage);
        throw failure('PROVIDER_STREAM_CLOSED');
      },
    };
    expect((await turnOf(nested(reporting)).result()).usage).toEqual(addUsage(usage, usage));
  });

  it('counts nothing for a request that was refused', async () => {
    expect((await turnOf(retry(at0)(scriptedLLM([down, down, { text: 'Hello', usage }]))).result()).usage).toEqual(
      usage,
    );
  });

  it('addUsage sums discarded tokens with the others, on both sides', () => {
    const discarded = { promptTokens: 5, completionTokens: 1, totalTokens: 6, estimated: true };
    const sum = { promptTokens: 25, completionTokens: 5, totalTokens: 30, estimated: true };
    expect(addUsage({ ...usage, discarded }, usage)).toEqual(sum);
    expect(addUsage(usage, { ...usage, discarded })).toEqual(sum);
    expect(addUsage(usage, usage)).toEqual({ promptTokens: 20, completionTokens: 4, totalTokens: 24 });
  });
});

describe('a provider behind a policy', () => {
  it('gives the same answer by call and by stream, and shows what the provider is', async () => {
    const info = { providerName: 'test', model: 'm' };
    const llm = scriptedLLM([{ text: 'Hello' }], {
      streaming: false,
      info,
      capabilities: { streaming: false, toolChoice: false },
    });
    const provider = retry()(llm);
    expect(provider.info).toEqual(info);
    expect(provider.capabilities).toEqual({ toolChoice: false });
    expect((await provider.call(hi)).message).toEqual({ role: 'assistant', content: 'Hello' });
  });

  it('has errors with codes also where it says that it traces its requests itself', async () => {
    const thrown = Object.assign(new Error('overloaded'), { status: 503 });
    const own = (stream: NonNullable<LLMProvider['stream']>): LLMProvider => ({
      tracesAttempts: true,
      call: () => Promise.reject(new Error('only streams are asked for here')),
      stream,
    });
    const other = scriptedLLM([{ text: 'Hello' }, { text: 'Hello' }]);
    for (const source of [throwError(() => thrown), EMPTY]) {
      expect((await fallback({ to: other })(own(() => source)).call(hi)).message.content).toBe('Hello');
    }
    await expect(retry({ maxRetries: 0 })(own(() => throwError(() => thrown))).call(hi)).rejects.toMatchObject({
      code: 'PROVIDER_SERVER',
      cause: thrown,
    });
    await turnOf(
      retry()(own(() => of<LLMChunk>({ type: 'done', response: { message: { role: 'assistant', content: 'x' } } }))),
    ).result();
    expect(llmSpans()).toEqual([]);
  });

  it('is told to stop by its signal where it does not stream and the call is left, and not behind its answer', async () => {
    const signals: (AbortSignal | undefined)[] = [];
    const answers = [NEVER, of<LLMResponse>({ message: { role: 'assistant', content: 'x' } })];
    const provider = retry()({
      call: ({ signal }) => firstValueFrom(answers[signals.push(signal) - 1] ?? NEVER),
    });
    const left = streamOf(provider).subscribe();
    left.unsubscribe();
    await provider.call(hi);
    expect(signals.map((signal) => signal?.aborted)).toEqual([true, false]);
    expect(signals[0]?.reason).toMatchObject({ code: 'CANCELED' });
  });

  it('fails with PROVIDER_PROTOCOL where the provider ends without an answer', async () => {
    const empty = { call: () => Promise.reject(new Error('not asked')), stream: () => EMPTY };
    await expect(retry()(empty).call(hi)).rejects.toMatchObject({ code: 'PROVIDER_PROTOCOL' });
  });
});
