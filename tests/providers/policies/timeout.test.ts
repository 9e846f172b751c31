import { describe, expect, it } from '@jest/globals';
import { retry, timeout } from 'millrace';
import { LiteLLMProvider } from 'millrace/litellm';
import { fakeClock, openResources, startModelServer } from 'millrace/testing';
import { NEVER } from 'rxjs';
import { marbles } from '../../core/operators/marbles.ts';
import { chunk, chunksOf, hi, inShort$, short, streaming, streamOf } from './scripted-calls.ts';

const tooLate = (message: RegExp) =>
  expect.objectContaining({ code: 'PROVIDER_TIMEOUT', retryable: true, message: expect.stringMatching(message) });

describe('timeout', () => {
  it('lets an answer pass that keeps its limits, and leaves no timer', () => {
    const { fired } = marbles(({ cold, clock, expectObservable }) => {
      const limits = { firstChunkMs: 5, betweenChunksMs: 4, totalMs: 20, clock };
      expectObservable(inShort$(timeout(limits)(streaming(cold('----a---b--(d|)', chunk))))).toBe(
        '----a---b--(d|)',
        short,
      );
      return clock;
    });
    // Only the timer between chunks ran, to look at the time of the last one.
    expect(fired).toEqual([8]);
  });

  it('ends a request that gives nothing', () => {
    marbles(({ cold, clock, expectObservable, expectSubscriptions }) => {
      const late = cold('------a(d|)', chunk);
      expectObservable(inShort$(timeout({ firstChunkMs: 5, clock })(streaming(late)))).toBe(
        '-----#',
        short,
        tooLate(/gave nothing within 5 ms/),
      );
      expectSubscriptions(late.subscriptions).toBe('^----!');
    });
  });

  it('ends a request that falls silent, counted from its last piece', () => {
    marbles(({ cold, clock, expectObservable, expectSubscriptions }) => {
      const stalled = cold('a--b--------(d|)', chunk);
      expectObservable(inShort$(timeout({ betweenChunksMs: 4, clock })(streaming(stalled)))).toBe(
        'a--b---#',
        short,
        tooLate(/silent for 4 ms/),
      );
      expectSubscriptions(stalled.subscriptions).toBe('^------!');
    });
  });

  it('ends a request that goes on for too long', () => {
    marbles(({ cold, clock, expectObservable }) => {
      const long = cold('a-a-a-a-a-a(d|)', chunk);
      expectObservable(inShort$(timeout({ totalMs: 7, clock })(streaming(long)))).toBe(
        'a-a-a-a#',
        short,
        tooLate(/within 7 ms \(totalMs\)/),
      );
    });
  });

  it('with totalMs alone, around retry, limits all attempts and their pauses', () => {
    const { fired } = marbles(({ clock, cold, expectObservable }) => {
      const down = Object.assign(new Error('down'), { status: 503 });
      const retried = retry({ clock, random: () => 1, initialDelayMs: 100 })(streaming(cold('-#', chunk, down)));
      expectObservable(inShort$(timeout({ totalMs: 50, clock })(retried))).toBe(
        '-v 48ms #',
        short,
        tooLate(/The model m did not answer/),
      );
      return clock;
    });
    expect(fired).toEqual([50]);
  });

  it('takes its timers back when the call is left', () => {
    const clock = fakeClock();
    const limits = { firstChunkMs: 5, betweenChunksMs: 5, totalMs: 5, clock };
    const subscription = streamOf(timeout(limits)(streaming(NEVER))).subscribe();
    expect(clock.pending).toBe(2);
    subscription.unsubscribe();
    expect(clock.pending).toBe(0);
  });

  it('S2-36 over the wire: closes the connection of a silent server, and retry asks again', async () => {
    const ledger = openResources();
    const clock = fakeClock();
    const server = await startModelServer({ script: [{ text: 'x', stallAfter: 0 }, { text: 'Hello' }] });
    const limited = timeout({ firstChunkMs: 10_000, clock })(
      new LiteLLMProvider({ baseUrl: server.baseUrl, model: 'm' }),
    );
    const chunks = chunksOf(retry({ clock, initialDelayMs: 0 })(limited));
    await server.whenReceived(1);
    clock.advance(10_000);
    await server.whenIdle();
    expect(server.aborted).toBe(1);
    await clock.whenPending();
    clock.advance(0);
    expect(await chunks).toEqual(['void PROVIDER_TIMEOUT', 'begin', 'Hello', 'done Hello']);
    await server.close();
    await ledger.assertNone();
  });

  it('limits a provider that does not stream, and aborts the signal that it was given', async () => {
    const clock = fakeClock();
    let given: AbortSignal | undefined;
    const whole = {
      call: ({ signal }: { readonly signal?: AbortSignal }) => {
        given = signal;
        return new Promise<never>(() => {});
      },
    };
    const call = timeout({ firstChunkMs: 10, clock })(whole).call(hi);
    clock.advance(10);
    await expect(call).rejects.toEqual(tooLate(/The model gave nothing within 10 ms/));
    expect(given?.aborted).toBe(true);
  });
});
