import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { retry } from 'millrace';
import { AgentLoop, backoffMs } from 'millrace/internals';
import { LiteLLMProvider } from 'millrace/litellm';
import {
  type FakeClock,
  fakeClock,
  type ModelServer,
  type ScriptedLLM,
  type ScriptStep,
  scriptedLLM,
  startModelServer,
} from 'millrace/testing';
import type { RetryOptions } from 'millrace/types';
import { lastValueFrom, of, throwError, toArray } from 'rxjs';
import { marbles } from '../../core/operators/marbles.ts';
import { chunk, chunksOf, failure, hi, inShort$, short, streaming, streamOf } from './scripted-calls.ts';

let clock: FakeClock;
const random = () => 1;

beforeEach(() => {
  clock = fakeClock();
});

afterEach(() => {
  expect(clock.pending).toBe(0);
});

const serverDown = { error: failure('PROVIDER_SERVER', { status: 503 }) };

/** The pauses before the retries of a call that fails each time, and how it ended. */
async function pausesOf(llm: ScriptedLLM, options: RetryOptions = {}): Promise<readonly number[]> {
  const pauses: number[] = [];
  let over = false;
  const call = lastValueFrom(streamOf(retry({ clock, random, ...options })(llm))).catch((error: unknown) => error);
  const ended = call.then(() => {
    over = true;
  });
  for (;;) {
    await Promise.race([clock.whenPending(), ended]);
    if (over) return pauses;
    const before = clock.now();
    clock.advanceToNext();
    pauses.push(clock.now() - before);
  }
}

describe('retry', () => {
  it('S2-36 S2-09 waits 1, 2, 4, 8 and 16 s before five retries, and makes six requests', async () => {
    const llm = scriptedLLM(Array(6).fill(serverDown));
    expect(await pausesOf(llm)).toEqual([1_000, 2_000, 4_000, 8_000, 16_000]);
    llm.assertDone();
  });

  it('S2-09 never waits longer than maxDelayMs, by default 60 s', async () => {
    expect(await pausesOf(scriptedLLM(Array(9).fill(serverDown)), { maxRetries: 8 })).toEqual([
      1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000,
    ]);
    expect(await pausesOf(scriptedLLM(Array(4).fill(serverDown)), { maxRetries: 3, maxDelayMs: 1_500 })).toEqual([
      1_000, 1_500, 1_500,
    ]);
  });

  it('S2-09 counts maxRetries and initialDelayMs as it is told', async () => {
    expect(await pausesOf(scriptedLLM(Array(3).fill(serverDown)), { maxRetries: 2, initialDelayMs: 10 })).toEqual([
      10, 20,
    ]);
    expect(await pausesOf(scriptedLLM([serverDown]), { maxRetries: 0 })).toEqual([]);
  });

  it.each([408, 409, 429, 500, 502, 503, 504])('S2-09 makes a request again that failed with %d', async (status) => {
    const llm = scriptedLLM([{ error: failure('PROVIDER_FAILED', { status }) }, { text: 'Hello' }]);
    const call = retry({ clock, random })(llm).call(hi);
    await clock.whenPending();
    clock.advanceToNext();
    expect((await call).message.content).toBe('Hello');
  });

  it.each([400, 401, 404, 422, 501])(
    'S2-09 does not make a request again that fails for good with %d',
    async (status) => {
      const lasting = failure('PROVIDER_FAILED', { status, retryable: false });
      expect(await pausesOf(scriptedLLM([{ error: lasting }]))).toEqual([]);
    },
  );

  it('M-15 asks the error alone whether it passes, whatever its status', async () => {
    for (const status of [400, 425, 520, 522, 524, 529, 530]) {
      const llm = scriptedLLM([{ error: failure('PROVIDER_SERVER', { status }) }, { text: 'Hello' }]);
      expect(await pausesOf(llm)).toEqual([1_000]);
    }
  });

  it('S2-09 makes those again that statusCodes names, besides those that pass by waiting', async () => {
    const notFound = failure('PROVIDER_NOT_FOUND', { status: 404, retryable: false });
    const options = { statusCodes: [404, 429], maxRetries: 1 };
    expect(await pausesOf(scriptedLLM([{ error: notFound }, { error: notFound }]), options)).toEqual([1_000]);
    expect(await pausesOf(scriptedLLM([serverDown, { text: 'Hello' }]), options)).toEqual([1_000]);
    const emptyAccount = failure('PROVIDER_RATE_LIMIT', { status: 429, retryable: false });
    expect(await pausesOf(scriptedLLM([{ error: emptyAccount }]), options)).toEqual([]);
  });

  it('M-15 asks twice more for an answer that cannot be used, also between other failures', async () => {
    const unusable = { error: failure('PROVIDER_SERVER', { reason: 'unusable_answer' }) };
    expect(await pausesOf(scriptedLLM([unusable, unusable, unusable]))).toEqual([1_000, 2_000]);
    expect(await pausesOf(scriptedLLM([unusable, serverDown, unusable, unusable]))).toEqual([1_000, 2_000, 4_000]);
    expect(await pausesOf(scriptedLLM([unusable, unusable]), { maxRetries: 1 })).toEqual([1_000]);
  });

  it('asks again where a connection broke, and not where the request itself was wrong or a quota is used up', async () => {
    const broken = { error: failure('PROVIDER_STREAM_CLOSED') };
    expect(await pausesOf(scriptedLLM([broken, { text: 'Hello' }]))).toEqual([1_000]);
    for (const error of [
      failure('PROVIDER_PROTOCOL', { retryable: false }),
      failure('PROVIDER_RATE_LIMIT', { status: 429, retryable: false }),
      failure('CANCELED', { retryable: false }),
      new Error('a bug'),
    ]) {
      expect(await pausesOf(scriptedLLM([{ error }]))).toEqual([]);
    }
  });

  it('takes the status from the error of a vendor’s SDK', async () => {
    const thrown = Object.assign(new Error('overloaded'), { status: 503 });
    expect(await pausesOf(scriptedLLM([{ error: thrown }, { text: 'Hello' }]))).toEqual([1_000]);
  });

  it('S2-36 waits exactly as long as the server asks, and gives up where that is longer than maxDelayMs', async () => {
    const busy = (retryAfterMs: number) => ({ error: failure('PROVIDER_RATE_LIMIT', { status: 429, retryAfterMs }) });
    expect(await pausesOf(scriptedLLM([busy(7_000), busy(0), { text: 'Hello' }]), { random: () => 0.1 })).toEqual([
      7_000, 0,
    ]);
    expect(await pausesOf(scriptedLLM([busy(60_001)]))).toEqual([]);
  });

  it('makes four thousand tries as it makes two: none stands upon the others', async () => {
    const soon = {
      now: () => 0,
      schedule(_: number, goOn: () => void) {
        queueMicrotask(goOn);
        return () => {};
      },
    };
    let requests = 0;
    const stream = () => (++requests <= 4_000 ? throwError(() => serverDown.error) : of(chunk.a, chunk.d));
    const provider = retry({ clock: soon, initialDelayMs: 0, maxRetries: 4_000 })({ ...scriptedLLM([]), stream });
    expect((await provider.call(hi)).message.content).toBe('answer');
    expect(requests).toBe(4_001);
  });

  it('voids what an attempt streamed at once, and begins the next when the pause is over', async () => {
    const llm = scriptedLLM([{ text: ['Hel', 'lo'], error: failure('PROVIDER_STREAM_CLOSED') }, { text: 'Hi there' }]);
    const chunks = chunksOf(retry({ clock, random })(llm));
    await clock.whenPending();
    clock.advanceToNext();
    expect(await chunks).toEqual(['Hel', 'lo', 'void PROVIDER_STREAM_CLOSED', 'begin', 'Hi there', 'done Hi there']);
  });

  it('subscribes to the next attempt when the pause is over, and to nothing before', () => {
    const { fired } = marbles(({ cold, clock: time, expectObservable, expectSubscriptions }) => {
      const first = cold('a-#', chunk, serverDown.error);
      const second = cold('-b(d|)', chunk);
      const provider = retry({ clock: time, random, initialDelayMs: 3 })(streaming(first, second));
      expectObservable(inShort$(provider)).toBe('a-v--nb(d|)', short);
      expectSubscriptions(first.subscriptions).toBe('^-!');
      expectSubscriptions(second.subscriptions).toBe('-----^-!');
      return time;
    });
    expect(fired).toEqual([5]);
  });

  it('passes the error of the last attempt as it came', async () => {
    const last = failure('PROVIDER_SERVER', { status: 500 });
    const call = retry({ clock, maxRetries: 1, initialDelayMs: 0 })(scriptedLLM([serverDown, { error: last }])).call(
      hi,
    );
    await clock.whenPending();
    clock.advanceToNext();
    await expect(call).rejects.toBe(last);
  });

  it('S2-36 ends its pause when the call is left', async () => {
    const llm = scriptedLLM([serverDown]);
    const subscription = streamOf(retry({ clock })(llm)).subscribe();
    await clock.whenPending();
    subscription.unsubscribe();
    expect(clock.pending).toBe(0);
    llm.assertDone();
  });

  it('S2-36 ends its pause when the signal is aborted, with CANCELED', async () => {
    const controller = new AbortController();
    const call = retry({ clock })(scriptedLLM([serverDown])).call({ ...hi, signal: controller.signal });
    await clock.whenPending();
    controller.abort();
    expect(clock.pending).toBe(0);
    await expect(call).rejects.toMatchObject({ code: 'CANCELED' });
  });

  it('makes no request where the signal was aborted before', async () => {
    const llm = scriptedLLM([]);
    await expect(retry({ clock })(llm).call({ ...hi, signal: AbortSignal.abort() })).rejects.toMatchObject({
      code: 'CANCELED',
    });
    llm.assertDone();
  });

  it('counts the tries of each call for itself', async () => {
    const provider = retry({ clock, random, maxRetries: 1 })(
      scriptedLLM([serverDown, { text: 'one' }, serverDown, { text: 'two' }]),
    );
    for (const answer of ['one', 'two']) {
      const call = provider.call(hi);
      await clock.whenPending();
      clock.advanceToNext();
      expect((await call).message.content).toBe(answer);
    }
  });
});

describe('a turn behind retry', () => {
  it('S3-39 num_retries 3 from 1 s: three times 503, then an answer, is four requests and completes', async () => {
    const llm = scriptedLLM([serverDown, serverDown, serverDown, { text: 'Hello' }]);
    const llmProvider = retry({ maxRetries: 3, initialDelayMs: 1_000, clock, random })(llm);
    const loop = new AgentLoop({ agentId: 'a', llmProvider });
    const last = lastValueFrom(loop.startTurn(hi.messages));
    for (const pauseMs of [1_000, 2_000, 4_000]) {
      await clock.whenPending();
      clock.advance(pauseMs);
    }
    expect(await last).toMatchObject({ kind: 'status-update', status: { state: 'completed' }, final: true });
    expect(llm.calls).toHaveLength(4);
  });

  it('shows its reader that the text of an attempt is void, and the text of the next as a new one', async () => {
    const llm = scriptedLLM([{ text: ['Hel', 'lo'], error: failure('PROVIDER_STREAM_CLOSED') }, { text: ['Hi', '!'] }]);
    const turn = new AgentLoop({ agentId: 'a', llmProvider: retry({ initialDelayMs: 0 })(llm) }).startTurn(hi.messages);
    const events = await lastValueFrom(turn.pipe(toArray()));
    const shown = events.flatMap((event): readonly (boolean | string)[] => {
      if (event.kind === 'internal:llm-attempt-discarded') return [`discarded ${event.attempt} ${event.reason}`];
      return event.kind === 'artifact-update' && !event.lastChunk ? [event.append] : [];
    });
    expect(shown).toEqual([false, true, 'discarded 1 PROVIDER_STREAM_CLOSED', false, true]);
  });

  it('cancelled in the pause makes no further request and leaves no timer', async () => {
    const llm = scriptedLLM([serverDown]);
    const turn = new AgentLoop({ agentId: 'a', llmProvider: retry({ clock })(llm) }).startTurn(hi.messages, {
      detached: true,
    });
    await clock.whenPending();
    await turn.cancel('enough');
    await turn.settled;
    expect(clock.pending).toBe(0);
    llm.assertDone();
  });
});

describe('retry over the wire', () => {
  let server: ModelServer;
  const serve = async (script: readonly ScriptStep[]): Promise<LiteLLMProvider> => {
    server = await startModelServer({ script });
    return new LiteLLMProvider({ baseUrl: server.baseUrl, model: 'm' });
  };
  afterEach(() => server.close());

  it('S2-36 honours Retry-After: the second request comes when the server asked for it', async () => {
    const provider = await serve([{ status: 429, headers: { 'retry-after': '3' } }, { text: 'Hello' }]);
    const call = retry({ clock, random: () => 0 })(provider).call(hi);
    await clock.whenPending();
    clock.advance(2_999);
    expect(server.received).toBe(1);
    clock.advance(1);
    expect((await call).message.content).toBe('Hello');
    server.assertDone();
  });

  it('asks again after a connection that broke in the middle of the answer', async () => {
    const provider = await serve([{ text: 'one two three', closeAfter: 2 }, { text: 'four' }]);
    const chunks = chunksOf(retry({ clock, random })(provider));
    await clock.whenPending();
    clock.advanceToNext();
    expect(await chunks).toEqual(['one', ' two', 'void PROVIDER_STREAM_CLOSED', 'begin', 'four', 'done four']);
  });
});

describe('backoffMs', () => {
  const options = {
    initialDelayMs: fc.nat(120_000),
    maxDelayMs: fc.nat(120_000),
    random: fc.double({ min: 0, max: 1, noNaN: true }),
  };

  it('is from 0 to the limit, which doubles up to maxDelayMs, for all delays and any number of retries', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 5_000 }),
        fc.record(options),
        (retryNumber, { random: share, ...delays }) => {
          const limit = backoffMs(retryNumber, { ...delays, random: () => 1 });
          const next = backoffMs(retryNumber + 1, { ...delays, random: () => 1 });
          const delay = backoffMs(retryNumber, { ...delays, random: () => share });
          expect(delay).toBeGreaterThanOrEqual(0);
          expect(delay).toBeLessThanOrEqual(limit);
          expect(limit).toBeLessThanOrEqual(delays.maxDelayMs);
          expect(next).toBe(Math.min(delays.maxDelayMs, 2 * limit));
        },
      ),
    );
  });
});
