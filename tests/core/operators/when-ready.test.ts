import { describe, expect, it } from '@jest/globals';
import { AgentLoopError } from 'millrace';
import { whenReady } from 'millrace/internals';
import { answerWhen, marbles } from './marbles.ts';

const fenced = new AgentLoopError('FENCED', 'fenced');
const late = new AgentLoopError(
  'UNAVAILABLE',
  'The store did not answer within 50 ms (storeDeadlineMs); is it running?',
  { retryable: true },
);

describe('whenReady', () => {
  it('asks at each subscription, and gives an answer that is there at once, without a timer', () => {
    let asked = 0;
    const fired = marbles(({ clock, expectObservable }) => {
      const answer$ = whenReady(() => ++asked, { clock, ms: 50 });
      expect(asked).toBe(0);
      expectObservable(answer$).toBe('(a|)', { a: 1 });
      expectObservable(answer$, '--^').toBe('--(a|)', { a: 2 });
      return clock.fired;
    });
    expect(fired).toEqual([]);
  });

  it('errors at once with what is thrown', () => {
    const ask = () => {
      throw fenced;
    };
    marbles(({ clock, expectObservable }) => expectObservable(whenReady(ask, { clock, ms: 50 })).toBe('#', {}, fenced));
  });

  it.each([
    ['gives the answer of a promise', '--a', '--(a|)', undefined],
    ['errors with the rejection of a promise', '--#', '--#', fenced],
  ])('%s, and drops the deadline', (_, answer, out, error) => {
    const fired = marbles(({ clock, cold, expectObservable }) => {
      const answer$ = whenReady(() => answerWhen(cold(answer, undefined, error)), { clock, ms: 50 });
      expectObservable(answer$).toBe(out, undefined, error);
      return clock.fired;
    });
    expect(fired).toEqual([]);
  });

  it('errors with UNAVAILABLE where the answer takes longer than the deadline, and takes no later one', () => {
    const fired = marbles(({ clock, cold, expectObservable }) => {
      const answer$ = whenReady(() => answerWhen(cold('60ms a')), { clock, ms: 50 });
      expectObservable(answer$).toBe('50ms #', {}, late);
      return clock.fired;
    });
    expect(fired).toEqual([50]);
  });

  it('drops the answer and the deadline when it is left', () => {
    const fired = marbles(({ clock, cold, expectObservable }) => {
      const answer$ = whenReady(() => answerWhen(cold('20ms a')), { clock, ms: 50 });
      expectObservable(answer$, '10ms !').toBe('');
      return clock.fired;
    });
    expect(fired).toEqual([]);
  });
});
