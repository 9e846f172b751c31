import { describe, expect, it } from '@jest/globals';
import { switchOnce } from 'millrace/internals';
import { Observable, of, take } from 'rxjs';
import { marbles } from './marbles.ts';

describe('switchOnce', () => {
  it('gives what follows from the first value, and keeps the source until what follows ends', () => {
    marbles(({ hot, cold, expectObservable, expectSubscriptions }) => {
      const source$ = hot('-x----x-|');
      const following$ = cold(' a-b--|');
      expectObservable(source$.pipe(switchOnce(() => following$))).toBe('-a-b--|');
      expectSubscriptions(following$.subscriptions).toBe(' -^----!');
      expectSubscriptions(source$.subscriptions).toBe('    ^-----!');
    });
  });

  it('passes the value on to what decides, and an error of what follows to who subscribed', () => {
    marbles(({ cold, hot, expectObservable }) => {
      const given: string[] = [];
      const follow = (value: string) => {
        given.push(value);
        return cold('a-#', undefined, 'lost');
      };
      expectObservable(hot('-x').pipe(switchOnce(follow))).toBe('-a-#', undefined, 'lost');
      return given;
    });
  });

  it.each([
    ['errors with the source', '-#', '-#', 'error'],
    ['completes with a source that gives nothing', '-|', '-|', undefined],
  ])('%s', (_, source, out, error) => {
    marbles(({ cold, hot, expectObservable }) =>
      expectObservable(hot(source).pipe(switchOnce(() => cold('a')))).toBe(out, undefined, error),
    );
  });

  it('errors with what deciding throws, and leaves the source', () => {
    marbles(({ hot, expectObservable, expectSubscriptions }) => {
      const source$ = hot('-x--|');
      const follow = (): Observable<string> => {
        throw 'refused';
      };
      expectObservable(source$.pipe(switchOnce(follow))).toBe('-#', undefined, 'refused');
      expectSubscriptions(source$.subscriptions).toBe('^!');
    });
  });

  it('leaves the source, or what follows, with who leaves it', () => {
    marbles(({ hot, cold, expectObservable, expectSubscriptions }) => {
      const early$ = hot('--x');
      const late$ = hot('-x');
      const following$ = cold('a-b-c');
      expectObservable(early$.pipe(switchOnce(() => following$)), '-!').toBe('');
      expectSubscriptions(early$.subscriptions).toBe('^!');
      expectObservable(late$.pipe(switchOnce(() => following$)), '----!').toBe('-a-b');
      expectSubscriptions(following$.subscriptions).toBe('-^--!');
      expectSubscriptions(late$.subscriptions).toBe('^---!');
    });
  });

  it('stops what follows at once, also in the middle of what it emits synchronously', () => {
    let produced = 0;
    const following$ = new Observable<number>((to) => {
      while (produced < 100 && !to.closed) to.next(++produced);
    });
    of('x')
      .pipe(
        switchOnce(() => following$),
        take(2),
      )
      .subscribe();
    expect(produced).toBe(2);
  });
});
