import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { rateLimit } from 'millrace';
import { RateWindow } from 'millrace/internals';
import { fakeClock, type ScriptedLLM, scriptedLLM } from 'millrace/testing';
import { hi, streamOf } from './scripted-calls.ts';

const usageOf = (totalTokens: number) => ({ promptTokens: totalTokens, completionTokens: 0, totalTokens });

/** Calls that are made at once; gives the times at which their requests were sent. */
async function sentAt(
  calls: number,
  options: Parameters<typeof rateLimit>[0],
  llm: ScriptedLLM,
): Promise<readonly number[]> {
  const clock = fakeClock();
  const sent: number[] = [];
  const provider = rateLimit({ ...options, clock })({
    call: llm.call,
    stream: (params) => {
      sent.push(clock.now());
      return streamOf(llm, params);
    },
  });
  const answers = Array.from({ length: calls }, () => provider.call(hi));
  for (const answer of answers) {
    let over = false;
    const ended = answer.then(() => {
      over = true;
    });
    while (!over) {
      await Promise.race([ended, clock.whenPending()]);
      // What has been sent answers before time goes on.
      await new Promise((resolve) => setImmediate(resolve));
      if (!over && clock.pending > 0) clock.advanceToNext();
    }
  }
  expect(clock.pending).toBe(0);
  return sent;
}

const answers = (count: number, totalTokens = 1) =>
  scriptedLLM(Array(count).fill({ text: 'x', usage: usageOf(totalTokens) }));

describe('rateLimit', () => {
  it('sends so many requests a minute, the others in their order in the minutes behind', async () => {
    expect(await sentAt(5, { requestsPerMinute: 2 }, answers(5))).toEqual([0, 0, 60_000, 60_000, 120_000]);
  });

  it('sends so many tokens a minute, by the usage of the answers where it is known', async () => {
    // The guess for a request is 5 tokens, so that three are sent; their answers took 40 each, so the fourth waits.
    expect(await sentAt(4, { tokensPerMinute: 19 }, answers(4, 40))).toEqual([0, 0, 0, 60_000]);
    expect(await sentAt(4, { tokensPerMinute: 19 }, answers(4, 1))).toEqual([0, 0, 0, 0]);
  });

  it('sends a request that is larger than the whole limit, in a minute of its own', async () => {
    expect(await sentAt(2, { tokensPerMinute: 3 }, answers(2, 8))).toEqual([0, 60_000]);
  });

  it('is shared by the providers that the same policy is put around', async () => {
    const clock = fakeClock();
    const limited = rateLimit({ requestsPerMinute: 1, clock });
    const [one, two] = [answers(1), answers(1)];
    await limited(one).call(hi);
    const second = limited(two).call(hi);
    // Its minute, and the end of its wait.
    expect(clock.pending).toBe(2);
    expect(two.calls).toHaveLength(0);
    clock.advance(60_000);
    await second;
  });

  it('gives its place in the queue back when it is left, to whoever can go', async () => {
    const clock = fakeClock();
    const llm = answers(2);
    const provider = rateLimit({ requestsPerMinute: 1, clock })(llm);
    await provider.call(hi);
    const left = streamOf(provider).subscribe();
    const controller = new AbortController();
    const aborted = provider.call({ ...hi, signal: controller.signal });
    const last = provider.call(hi);
    left.unsubscribe();
    controller.abort();
    await expect(aborted).rejects.toMatchObject({ code: 'CANCELED' });
    clock.advance(60_000);
    await last;
    expect(llm.calls).toHaveLength(2);
    expect(clock.pending).toBe(0);
  });

  it('sends what waited only for its turn at once when the one in front of it leaves', () => {
    const clock = fakeClock();
    const llm = scriptedLLM([{ never: true }, { never: true }]);
    const provider = rateLimit({ tokensPerMinute: 100, clock })(llm);
    const send = (maxTokens: number) => streamOf(provider, { ...hi, maxTokens }).subscribe();
    const first = send(50);
    const large = send(70);
    const small = send(20);
    expect(llm.active).toBe(1);
    large.unsubscribe();
    expect(llm.calls.map(({ maxTokens }) => maxTokens)).toEqual([50, 20]);
    expect([clock.now(), clock.pending]).toEqual([0, 0]);
    first.unsubscribe();
    small.unsubscribe();
  });
});

describe('RateWindow', () => {
  it('has no minute, wherever it begins, with more than the limits, and makes nobody wait longer than needed', () => {
    const request = fc.record({ pause: fc.nat(40_000), tokens: fc.integer({ min: 1, max: 30 }) });
    fc.assert(
      fc.property(fc.array(request, { maxLength: 40 }), fc.integer({ min: 1, max: 5 }), (requests, most) => {
        const limits = { requests: most, tokens: 50 };
        const window = new RateWindow(limits);
        const taken: { at: number; tokens: number }[] = [];
        let now = 0;
        const fits = (at: number, tokens: number): boolean => {
          const recent = taken.filter((each) => each.at + 60_000 > at);
          const sum = recent.reduce((total, each) => total + each.tokens, 0);
          return recent.length < limits.requests && sum + tokens <= limits.tokens;
        };
        for (const { pause, tokens } of requests) {
          now += pause;
          const waitMs = window.waitMs(now, tokens);
          if (waitMs > 0) expect(fits(now + waitMs - 1, tokens)).toBe(false);
          now += waitMs;
          expect(window.waitMs(now, tokens)).toBe(0);
          expect(fits(now, tokens)).toBe(true);
          window.take(now, tokens);
          taken.push({ at: now, tokens });
        }
      }),
    );
  });
});
