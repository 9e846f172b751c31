import { describe, expect, it } from '@jest/globals';
import { commitOf, journal } from 'millrace/internals';
import type { Signal } from 'millrace/operators';
import type { Delta } from 'millrace/types';
import { answeringStore } from './answering-store.ts';
import { stamper, values } from './journal-diagram.ts';
import { marbles } from './marbles.ts';
import { startedState } from './turn-deps.ts';

describe('the deltas of a journal', () => {
  it('are published to the followers of the store as they pass, with their place in the turn, and no record is', () => {
    const published: { readonly at: number; readonly taskId: string; readonly delta: Delta }[] = [];
    marbles(({ clock, cold, hot, expectObservable, expectSubscriptions }) => {
      const publish = (taskId: string, delta: Delta) => published.push({ at: clock.now(), taskId, delta });
      const { journal: target } = answeringStore(clock, ['at once', cold('--(r|)')]);
      Object.assign(target.store, { publish });
      const start = startedState();
      const first = commitOf(stamper, start, [{ type: 'llm.start', iteration: 1, attempt: 1 }]);
      const again = commitOf(stamper, first.after, [{ type: 'llm.start', iteration: 1, attempt: 2 }]);
      const signals = { ...values, a: first, b: again };
      const source$ = hot<Signal>('-atrbup--|', signals);
      const journaled$ = source$.pipe(journal({ journal: target, clock, storeDeadlineMs: 10_000 }));
      expectObservable(journaled$, '--------!').toBe('-atr--(bup)', signals);
      expectSubscriptions(source$.subscriptions).toBe('^-------!');
    });
    const { t, u, r, p } = values;
    const llm = (attempt: number, chunk: Signal) => ({ type: 'llm', epoch: 1, iteration: 1, attempt, chunk });
    expect(published).toEqual([
      { at: 2, taskId: 'task', delta: llm(1, t) },
      { at: 3, taskId: 'task', delta: llm(1, r) },
      { at: 6, taskId: 'task', delta: llm(2, u) },
      { at: 6, taskId: 'task', delta: { type: 'tool-progress', epoch: 1, callId: p.callId, update: p.update } },
    ]);
  });
});
