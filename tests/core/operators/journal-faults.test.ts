import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { InMemoryStateStore } from 'millrace';
import { journal } from 'millrace/internals';
import type { Commit, Signal } from 'millrace/operators';
import { fakeClock, faultyStore } from 'millrace/testing';
import { lastValueFrom, map, Subject, toArray } from 'rxjs';
import { answeringStore } from './answering-store.ts';
import { a, b, commitChain, down, fenced, shown } from './journal-diagram.ts';
import { marbles } from './marbles.ts';
import { startedState } from './turn-deps.ts';

describe('journal, behind a store with faults', () => {
  it('tries again where the store throws instead of rejecting', async () => {
    const clock = fakeClock();
    const { appends, journal: target } = answeringStore(clock, [{ throws: down }]);
    const source$ = new Subject<Signal>();
    const seen: Signal[] = [];
    source$.pipe(journal({ journal: target, clock, storeDeadlineMs: 1_000 })).subscribe((each) => seen.push(each));
    source$.next(a);
    await clock.whenPending(2);
    clock.advance(50);
    expect(seen).toEqual([a]);
    expect(appends.map(({ at }) => at)).toEqual([0, 50]);
    expect(clock.pending).toBe(0);
  });

  it('errors where the store throws what no retry mends', async () => {
    const clock = fakeClock();
    const { journal: target } = answeringStore(clock, [{ throws: fenced }]);
    const source$ = new Subject<Signal>();
    const lost = new Promise((resolve) => {
      source$.pipe(journal({ journal: target, clock, storeDeadlineMs: 1_000 })).subscribe({ error: resolve });
    });
    source$.next(a);
    expect(await lost).toBe(fenced);
    expect(source$.observed).toBe(false);
    expect(clock.pending).toBe(0);
  });

  it('writes each record once where only the reply of an append is lost', async () => {
    const clock = fakeClock();
    const memory = new InMemoryStateStore({ clock });
    const start = startedState();
    memory.create('task', {
      type: 'turn.started',
      schema: 1,
      ...start.turn,
      messages: [],
      seq: 1,
      epoch: 0,
      at: 0,
    });
    const store = faultyStore(memory, [{ method: 'append', call: 1, fault: 'fail-after' }]);
    const target = { store, lease: memory.acquire('task', 'owner', 1_000) };
    const source$ = new Subject<Signal>();
    const written = lastValueFrom(
      source$.pipe(journal({ journal: target, clock, storeDeadlineMs: 1_000 }), map(shown), toArray()),
    );
    for (const signal of [a, b]) source$.next(signal);
    source$.complete();
    await clock.whenPending(2);
    clock.advance(50);
    expect(await written).toEqual(['commit 0', 'commit 1']);
    expect(memory.read('task').map(({ seq }) => seq)).toEqual([1, 2, 3]);
  });

  it('lets everything through once and in order, however late and often the store fails', () => {
    const answer = fc.record({ ms: fc.integer({ min: 0, max: 40 }), fails: fc.boolean() });
    const signals = fc.array(fc.constantFrom('commit', 'text', 'reasoning'), { minLength: 1, maxLength: 12 });
    fc.assert(
      fc.property(signals, fc.array(answer, { maxLength: 15 }), (kinds, answers) => {
        const chain = [...commitChain(12)];
        const given = kinds.map((kind, index): Signal => {
          if (kind === 'commit') return chain.shift() as Commit;
          return kind === 'text' ? { type: 'text', text: `${index} ` } : { type: 'reasoning', text: `${index}` };
        });
        const seen: Signal[] = [];
        const end = marbles(({ clock, cold }) => {
          const plan = answers.map(({ ms, fails }) =>
            fails ? cold(`${ms}ms #`, {}, down) : cold<string>(`${ms}ms a`),
          );
          const { journal: target } = answeringStore(clock, plan);
          const ends: string[] = [];
          const letters = [...'abcdefghijkl'].slice(0, given.length);
          const named = Object.fromEntries(letters.map((letter, index) => [letter, given[index] as Signal]));
          const source$ = cold(`${letters.join(' 7ms ')} |`, named);
          source$
            .pipe(journal({ journal: target, clock, storeDeadlineMs: 1_000_000 }))
            .subscribe({ next: (each) => seen.push(each), complete: () => ends.push('complete') });
          return ends;
        });
        expect(end).toEqual(['complete']);
        expect(merged(seen)).toEqual(merged(given));
      }),
      { numRuns: 60 },
    );
  });
});

/** Signals with adjacent text in one piece, as readers of them have it in the end. */
function merged(signals: readonly Signal[]): readonly Signal[] {
  const all: Signal[] = [];
  for (const signal of signals) {
    const last = all.at(-1);
    if (signal.type === 'text' && last?.type === 'text')
      all[all.length - 1] = { type: 'text', text: last.text + signal.text };
    else all.push(signal);
  }
  return all;
}
