import { describe, expect, it } from '@jest/globals';
import { AgentLoopError } from 'millrace';
import { journal } from 'millrace/internals';
import type { Signal } from 'millrace/operators';
import { fakeClock } from 'millrace/testing';
import { Subject } from 'rxjs';
import { answeringStore } from './answering-store.ts';
import { a, b, down, draw, fenced, silent, values } from './journal-diagram.ts';
import { marbles } from './marbles.ts';

describe('journal', () => {
  it('without a store lets every signal through at once, and calls durable behind its commit', () => {
    const seen: string[] = [];
    const source$ = new Subject<Signal>();
    const deps = { journal: undefined, clock: fakeClock(), storeDeadlineMs: 10 };
    source$.pipe(journal(deps)).subscribe((signal) => seen.push(signal.type));
    source$.next({ ...a, durable: () => seen.push('durable') });
    source$.next(values.t);
    source$.next(b);
    expect(seen).toEqual(['commit', 'durable', 'text', 'commit']);
    expect(deps.clock.pending).toBe(0);
  });

  it('lets every signal through at once where the store answers at once', () => {
    const { appends, fired } = draw({
      source: '    -at-rb-(cp)-|',
      answers: () => [],
      out: '       -at-rb-(cp)-|',
      subscribed: '^-----------!',
    });
    expect(appends).toEqual([
      { at: 1, seqs: [2], status: 'working', barrier: false },
      { at: 5, seqs: [3], status: 'working', barrier: true },
      { at: 7, seqs: [4], status: 'working', barrier: false },
    ]);
    expect(fired).toEqual([]);
  });

  it('sends one append at a time, with all commits that came since the last one was sent', () => {
    const { appends } = draw({
      source: '    -abc---------|',
      answers: ({ cold }) => [cold('-----a'), cold('--a')],
      out: '       ------a-(bc)-|',
      subscribed: '^------------!',
    });
    expect(appends).toEqual([
      { at: 1, seqs: [2], status: 'working', barrier: false },
      { at: 6, seqs: [3, 4], status: 'working', barrier: true },
    ]);
  });

  it('keeps deltas behind the commit before them, and merges adjacent text', () => {
    draw({
      source: '    -atu-rb--t-(up)--------|',
      answers: ({ cold }) => [cold('-----a'), cold('--------a')],
      out: '       ------a-------(mrbmp)--|',
      subscribed: '^----------------------!',
    });
  });

  it('does not merge text across a commit or another delta', () => {
    draw({
      source: '    -atrub-t--------|',
      answers: ({ cold }) => [cold('-------a')],
      out: '       --------(atrubt)|',
      subscribed: '^---------------!',
    });
  });

  it('completes once the last commit is durable', () => {
    draw({
      source: '    -at|',
      answers: ({ cold }) => [cold('-----a')],
      out: '       ------(at|)',
      subscribed: '^--!',
    });
  });

  it('passes an error of the source on once the last commit is durable', () => {
    draw({
      source: '    -at#',
      answers: ({ cold }) => [cold('-----a')],
      out: '       ------(at#)',
      error: 'error',
      subscribed: '^--!',
    });
  });

  it('passes an error of the source on at once where everything is durable, and leaves no timer', () => {
    const { fired } = draw({
      source: '    -a-#',
      answers: ({ cold }) => [cold('(a|)')],
      out: '       -a-#',
      error: 'error',
      subscribed: '^--!',
    });
    expect(fired).toEqual([]);
  });

  it('sends a failed append again, unchanged, before what has come since', () => {
    const { appends, fired } = draw({
      source: '    -abc 60ms |',
      answers: ({ cold }) => [cold('--#', {}, down), cold('-a'), cold('-a')],
      out: '       --- 51ms a(bc) 5ms |',
      subscribed: '^--- 60ms !',
    });
    expect(appends.map(({ at, seqs }) => [at, ...seqs])).toEqual([
      [1, 2],
      [53, 2],
      [54, 3, 4],
    ]);
    expect(fired).toEqual([53]);
  });

  it('tries again after 50 ms, doubling to a second, and after a success after 50 ms anew', () => {
    const failures = 7;
    for (const success of ['at once', 'later'] as const) {
      const { sent } = draw({
        source: '    -a 5s b 1s |',
        answers: ({ cold }) => [
          ...Array.from({ length: failures }, () => cold('#', {}, down)),
          success === 'later' ? cold('a') : 'at once',
          cold('#', {}, down),
        ],
        out: '       - 3550ms a 1500ms b 950ms |',
        subscribed: '^ 5s -- 1s !',
      });
      const times = [1, 51, 151, 351, 751, 1551, 2551, 3551].map((at) => `2@${at}`);
      expect(sent).toEqual([...times, '3@5002', '3@5052']);
    }
  });

  it('sends what comes during an outage once the store answers again', () => {
    const { sent } = draw({
      source: '    -a--bt 60ms |',
      answers: ({ cold }) => [cold('-#', {}, down)],
      out: '       - 51ms (abt) 9ms |',
      subscribed: '^ ----- 60ms !',
    });
    expect(sent).toEqual(['2@1', '2@52', '3@52']);
  });

  it('errors at once with what no retry mends, and leaves the source', () => {
    const { sent, fired } = draw({
      source: '    -ab-------|',
      answers: ({ cold }) => [cold('-----#', {}, fenced)],
      out: '       ------#',
      error: fenced,
      subscribed: '^-----!',
    });
    expect(sent).toEqual(['2@1']);
    expect(fired).toEqual([]);
  });

  it('errors with UNAVAILABLE where the store keeps silent until the deadline', () => {
    const { fired } = draw({
      source: '    -at 3s |',
      answers: ({ cold }) => [cold('4s a')],
      out: '       - 1s #',
      error: silent(1_000),
      subscribed: '^ 1s !',
      storeDeadlineMs: 1_000,
    });
    expect(fired).toEqual([1_001]);
  });

  it('errors with the last failure where retries do not help until the deadline', () => {
    const worse = new AgentLoopError('UNAVAILABLE', 'still down', { retryable: true });
    const { sent } = draw({
      source: '    -a 3s |',
      answers: ({ cold }) => [cold('#', {}, down), ...Array.from({ length: 9 }, () => cold('#', {}, worse))],
      out: '       - 300ms #',
      error: worse,
      subscribed: '^ 300ms !',
      storeDeadlineMs: 300,
    });
    expect(sent).toEqual(['2@1', '2@51', '2@151']);
  });

  it('counts the deadline for each append', () => {
    draw({
      source: '    -a 80ms b 200ms |',
      answers: ({ cold }) => [cold('90ms a'), cold('95ms a')],
      out: '       - 90ms a 94ms b 96ms |',
      subscribed: '^ 81ms - 200ms !',
      storeDeadlineMs: 100,
    });
  });

  it('gives up an append that was sent when another was acknowledged', () => {
    draw({
      source: '    -ab 3s |',
      answers: ({ cold }) => [cold('50ms a'), cold('4s a')],
      out: '       - 50ms a 99ms #',
      error: silent(100),
      subscribed: '^ 150ms !',
      storeDeadlineMs: 100,
    });
  });

  it('drops the deadline of a commit that came from within the release of another once it is durable', () => {
    const { clock, times } = marbles(({ clock, cold, hot, expectObservable }) => {
      const { journal: target } = answeringStore(clock, [cold('-a'), cold('-a')]);
      const inner$ = new Subject<Signal>();
      const times: number[] = [];
      inner$
        .pipe(journal({ journal: target, clock, storeDeadlineMs: 100 }))
        .subscribe({ next: () => times.push(clock.now()), error: () => times.push(-1) });
      const source$ = hot('a', { a: { ...a, durable: () => inner$.next(b) } });
      source$.subscribe(inner$);
      expectObservable(source$).toBe('a', { a: expect.anything() });
      return { clock, times };
    });
    expect(times).toEqual([1, 2]);
    expect(clock.fired).toEqual([]);
  });

  it('stops retries and the deadline when it is left', () => {
    const { sent, fired } = draw({
      source: '    -ab 1s |',
      answers: ({ cold }) => [cold('-#', {}, down)],
      out: '       - 40ms ',
      leave: '     - 40ms !',
      subscribed: '^ 40ms !',
    });
    expect(sent).toEqual(['2@1']);
    expect(fired).toEqual([]);
  });
});
