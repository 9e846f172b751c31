import { describe, expect, it } from '@jest/globals';
import type { AgentEvent } from 'millrace';
import { commitOf, eventsAfter } from 'millrace/internals';
import { projectEvents, type Signal } from 'millrace/operators';
import { from, map, toArray } from 'rxjs';
import { marbles } from './marbles.ts';
import { startedState } from './turn-deps.ts';

const stamper = { epoch: 2, now: () => 0 };
const first = commitOf(stamper, startedState(), [{ type: 'llm.start', iteration: 1, attempt: 1 }]);
const answer = commitOf(stamper, first.after, [
  {
    type: 'llm.done',
    iteration: 1,
    attempt: 1,
    message: { role: 'assistant', content: 'Two.' },
    calls: [],
    finishReason: 'stop',
  },
  { type: 'turn.done', text: 'Two.', reason: 'stop' },
]);
const signals: Readonly<Record<string, Signal>> = { a: first, t: { type: 'text', text: 'Two.' }, b: answer };

function project(checkpoints: boolean) {
  return projectEvents({ checkpoints, now: () => 0 });
}

/** An event in short: its cursor, where it has one, and its kind. */
const shown = map(({ cursor, kind }: AgentEvent) => `${cursor ?? 'delta'} ${kind.replace('internal:', '')}`);

describe('projectEvents', () => {
  it('gives the events of each signal when it comes, and ends with the source', () => {
    marbles(({ hot, expectObservable, expectSubscriptions }) => {
      const source$ = hot<Signal>('-a------t-b----------|', signals);
      const expected = {
        i: '2-2.1 iteration-start',
        c: '2-2.2 llm-call',
        t: 'delta artifact-update',
        l: '3-2.1 artifact-update',
        r: '3-2.2 llm-response',
        e: '4-2.1 iteration-complete',
        s: '4-2.2 status-update',
      };
      expectObservable(source$.pipe(project(false), shown)).toBe('-(ic)---t-(lres)-----|', expected);
      expectObservable(source$.pipe(project(false), shown), '--!').toBe('-(ic)', expected);
      expectSubscriptions(source$.subscriptions).toBe(['^--------------------!', '^-!']);
    });
  });

  it('counts anew for each subscriber', () => {
    const events$ = from(Object.values(signals)).pipe(project(true), shown, toArray());
    const seen: (readonly string[])[] = [];
    events$.subscribe((events) => seen.push(events));
    events$.subscribe((events) => seen.push(events));
    expect(seen[0]).toContain('3-2.3 checkpoint');
    expect(seen[1]).toEqual(seen[0]);
  });
});

describe('eventsAfter', () => {
  const events$ = from(Object.values(signals)).pipe(project(false));
  const behind = (cursor: string | undefined) => {
    const seen: string[] = [];
    events$.pipe(eventsAfter(cursor), shown).subscribe((each) => seen.push(each));
    return seen;
  };

  it('lets all events through without a cursor, and those behind one, with all deltas', () => {
    const all = behind(undefined);
    expect(all).toHaveLength(7);
    const deltas = all.filter((each) => each.startsWith('delta'));
    expect(behind('1-0.9')).toEqual(all);
    expect(behind('2-2.1')).toEqual(all.slice(1));
    expect(behind('3-2.1')).toEqual([...deltas, ...all.slice(4)]);
    expect(behind('4-2.2')).toEqual(deltas);
    expect(behind('99-1.1')).toEqual(deltas);
  });

  it.each(['', '7', '1-1', 'a-b.c', '1-1.1.1', '-1-1.1', `${'9'.repeat(100)}`])('refuses %j at once', (cursor) => {
    expect(() => eventsAfter(cursor)).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }));
  });
});
