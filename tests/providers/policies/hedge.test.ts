import { describe, expect, it } from '@jest/globals';
import { hedge, retry } from 'millrace';
import { LiteLLMProvider } from 'millrace/litellm';
import { fakeClock, openResources, scriptedLLM, startModelServer } from 'millrace/testing';
import { NEVER } from 'rxjs';
import { marbles } from '../../core/operators/marbles.ts';
import { chunk, chunksOf, failure, inShort$, short, streaming, streamOf } from './scripted-calls.ts';

const down = failure('PROVIDER_SERVER', { status: 503 });

describe('hedge', () => {
  it('makes no second request where the first gives something in time', () => {
    const { fired } = marbles(({ cold, clock, expectObservable }) => {
      expectObservable(inShort$(hedge({ delayMs: 5, clock })(streaming(cold('--a(d|)', chunk))))).toBe(
        '--a(d|)',
        short,
      );
      return clock;
    });
    expect(fired).toEqual([]);
  });

  it('leaves the slower of two at the first piece of the other', () => {
    marbles(({ cold, clock, expectObservable, expectSubscriptions }) => {
      const slow = cold('---------a(d|)', chunk);
      const fast = cold('--b--(d|)', chunk);
      expectObservable(inShort$(hedge({ delayMs: 3, clock })(streaming(slow, fast)))).toBe('-----b--(d|)', short);
      expectSubscriptions(slow.subscriptions).toBe('^----!');
      expectSubscriptions(fast.subscriptions).toBe('---^----!');
    });
  });

  it('keeps the first where it is faster after all', () => {
    marbles(({ cold, clock, expectObservable, expectSubscriptions }) => {
      const first = cold('----r-(d|)', chunk);
      const second = cold('------b(d|)', chunk);
      expectObservable(inShort$(hedge({ delayMs: 3, clock })(streaming(first, second)))).toBe('----r-(d|)', short);
      expectSubscriptions(second.subscriptions).toBe('---^!');
    });
  });

  it('makes no second request where the first has begun to answer, however long it goes on', () => {
    marbles(({ cold, clock, expectObservable, expectSubscriptions }) => {
      const second = cold('b(d|)', chunk);
      const provider = hedge({ delayMs: 3, clock })(streaming(cold('-a------(d|)', chunk), second));
      expectObservable(inShort$(provider)).toBe('-a------(d|)', short);
      expectSubscriptions(second.subscriptions).toBe([]);
    });
  });

  it('fails where the one that leads breaks off: the other is gone', () => {
    marbles(({ cold, clock, expectObservable }) => {
      const provider = hedge({ delayMs: 3, clock })(
        streaming(cold('---------a(d|)', chunk), cold('-b-#', chunk, down)),
      );
      expectObservable(inShort$(provider)).toBe('----b-#', short, down);
    });
  });

  it('leaves the answer to the other where one fails, and fails where both do', () => {
    marbles(({ cold, clock, expectObservable }) => {
      const surviving = hedge({ delayMs: 2, clock })(streaming(cold('---#', chunk, down), cold('---b(d|)', chunk)));
      expectObservable(inShort$(surviving)).toBe('-----b(d|)', short);
      const failing = hedge({ delayMs: 2, clock })(streaming(cold('------#', chunk, down), cold('--#', chunk, down)));
      expectObservable(inShort$(failing)).toBe('------#', short, down);
    });
  });

  it('passes a failure before the second request was made', () => {
    marbles(({ cold, clock, expectObservable }) => {
      expectObservable(inShort$(hedge({ delayMs: 5, clock })(streaming(cold('--#', chunk, down))))).toBe(
        '--#',
        short,
        down,
      );
    });
  });

  it('shows of attempts within a racer only those after it leads', () => {
    marbles(({ cold, clock, expectObservable }) => {
      const retried = retry({ clock, initialDelayMs: 0 })(
        streaming(cold('-#', chunk, down), cold('-----a-#', chunk, down), cold('----b(d|)', chunk)),
      );
      expectObservable(inShort$(hedge({ delayMs: 3, to: streaming(NEVER), clock })(retried))).toBe(
        '------a-(vn)b(d|)',
        short,
      );
    });
  });

  it('leaves both when it is left, and its timer', async () => {
    const clock = fakeClock();
    const llm = scriptedLLM([{ never: true }, { never: true }]);
    const subscription = streamOf(hedge({ delayMs: 10, clock })(llm)).subscribe();
    clock.advance(10);
    expect(llm.active).toBe(2);
    subscription.unsubscribe();
    expect(llm.active).toBe(0);
    const early = streamOf(hedge({ delayMs: 10, clock })(scriptedLLM([{ never: true }]))).subscribe();
    early.unsubscribe();
    expect(clock.pending).toBe(0);
  });

  it('closes the socket of the loser', async () => {
    const ledger = openResources();
    const clock = fakeClock();
    const silent = await startModelServer({ script: [{ text: 'never', stallAfter: 0 }] });
    const quick = await startModelServer({ script: [{ text: 'Hello' }] });
    const provider = hedge({
      delayMs: 100,
      to: new LiteLLMProvider({ baseUrl: quick.baseUrl, model: 'b' }),
      clock,
    })(new LiteLLMProvider({ baseUrl: silent.baseUrl, model: 'a' }));
    const chunks = chunksOf(provider);
    await silent.whenReceived(1);
    clock.advance(100);
    expect(await chunks).toEqual(['Hello', 'done Hello']);
    await silent.whenIdle();
    expect(silent.aborted).toBe(1);
    expect(clock.pending).toBe(0);
    await Promise.all([silent.close(), quick.close()]);
    await ledger.assertNone();
  });
});
