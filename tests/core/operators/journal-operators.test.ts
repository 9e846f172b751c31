import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { AgentLoopError, InMemoryStateStore, type LoopState } from 'millrace';
import { commitOf, journal, publishDeltas } from 'millrace/internals';
import type { Commit, Signal } from 'millrace/operators';
import { fakeClock, faultyStore } from 'millrace/testing';
import type { Delta } from 'millrace/types';
import { lastValueFrom, map, Subject, toArray } from 'rxjs';
import { type AppendAnswer, answeringStore } from './answering-store.ts';
import { type MarbleHelpers, marbles } from './marbles.ts';
import { startedState, turnDeps } from './turn-deps.ts';

const stamper = { epoch: 1, now: () => 0 };
const down = new AgentLoopError('UNAVAILABLE', 'down', { retryable: true });
const fenced = new AgentLoopError('FENCED', 'fenced');

/** Commits that follow each other, of one record each, from record 2 on. */
function commitChain(length: number, start: LoopState = startedState()): readonly Commit[] {
  const chain: Commit[] = [];
  for (let state = start; chain.length < length; state = chain.at(-1)?.after ?? state) {
    chain.push(commitOf(stamper, state, [{ type: 'x.note', data: chain.length }], chain.length === 1));
  }
  return chain;
}

const [a, b, c] = commitChain(3) as [Commit, Commit, Commit];
const values = {
  a,
  b,
  c,
  t: { type: 'text', text: 'Two ' },
  u: { type: 'text', text: 'apples' },
  m: { type: 'text', text: 'Two apples' },
  r: { type: 'reasoning', text: 'hm' },
  p: { type: 'tool-progress', callId: '1:0', toolName: 'count', update: 50 },
} satisfies Record<string, Signal>;

/** A signal in short; a commit by its own name, so that it has to be the very same. */
function shown(signal: Signal): string {
  if (signal.type !== 'commit') return JSON.stringify(signal);
  return `commit ${[a, b, c].indexOf(signal)}`;
}

const expected = Object.fromEntries(Object.entries(values).map(([letter, signal]) => [letter, shown(signal)]));

interface Diagram {
  readonly source: string;
  /** How the store answers, append by append; those beyond it at once. */
  readonly answers: (helpers: MarbleHelpers) => readonly AppendAnswer[];
  readonly out: string;
  readonly error?: unknown;
  readonly subscribed: string;
  readonly leave?: string;
  readonly storeDeadlineMs?: number;
}

/** Writes a source to a store, and gives what the store was sent and when timers ran that nobody cancelled. */
function draw(diagram: Diagram) {
  const { appends, fired } = marbles((helpers) => {
    const { clock, hot, expectObservable, expectSubscriptions } = helpers;
    const { appends, journal: target } = answeringStore(clock, diagram.answers(helpers));
    const source$ = hot<Signal>(diagram.source, values);
    const { storeDeadlineMs = 10_000 } = diagram;
    const written$ = source$.pipe(journal({ journal: target, clock, storeDeadlineMs }), map(shown));
    expectObservable(written$, diagram.leave).toBe(diagram.out, expected, diagram.error);
    expectSubscriptions(source$.subscriptions).toBe(diagram.subscribed);
    return { appends, fired: clock.fired };
  });
  return { appends, fired, sent: appends.map(({ at, seqs }) => `${seqs.join()}@${at}`) };
}

function silent(ms: number): AgentLoopError {
  const message = `The store did not answer an append within ${ms} ms (storeDeadlineMs); the task can be resumed once it is back.`;
  return new AgentLoopError('UNAVAILABLE', message);
}

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

  it('sends each append when it comes, and lets commits through in their order once they are acknowledged', () => {
    const { sent } = draw({
      source: '    -abc---------|',
      answers: ({ cold }) => [cold('-----a'), cold('--a'), cold('-------a')],
      out: '       ------(ab)c--|',
      subscribed: '^------------!',
    });
    expect(sent).toEqual(['2@1', '3@2', '4@3']);
  });

  it('keeps deltas behind the commit before them, and merges adjacent text', () => {
    draw({
      source: '    -atu-rb--t-(up)----|',
      answers: ({ cold }) => [cold('-----a'), cold('--------a')],
      out: '       ------(amr)---(bmp)|',
      subscribed: '^------------------!',
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

  it('sends a failed append and all behind it again, unchanged, and none before it', () => {
    const { appends, fired } = draw({
      source: '    -a-bc 60ms |',
      answers: ({ cold }) => [cold('--a'), cold('----#', {}, down), cold('-----#', {}, down)],
      out: '       ---a 53ms (bc) 4ms |',
      subscribed: '^---- 60ms !',
    });
    expect(appends.map(({ at, seqs }) => [at, ...seqs])).toEqual([
      [1, 2],
      [3, 3],
      [4, 4],
      [57, 3],
      [57, 4],
    ]);
    expect(appends[3]).toEqual({ ...appends[1], at: 57 });
    expect(fired).toEqual([57]);
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

  it('goes on at once where the store acknowledges an append before the failed one', () => {
    const { sent } = draw({
      source: '    -ab-------|',
      answers: ({ cold }) => [cold('-----a'), cold('--#', {}, down)],
      out: '       ------(ab)|',
      subscribed: '^---------!',
    });
    expect(sent).toEqual(['2@1', '3@2', '3@6']);
  });

  it('passes over an answer to an append that was sent again since', () => {
    const { sent } = draw({
      source: '    -ab 80ms |',
      answers: ({ cold }) => [cold('-#', {}, down), cold('60ms a'), cold('-a'), cold('20ms a')],
      out: '       --- 50ms a 18ms b 10ms |',
      subscribed: '^-- 80ms !',
    });
    expect(sent).toEqual(['2@1', '3@2', '2@52', '3@52']);
  });

  it('passes over the refusal of an append that went wrong because one before it failed', () => {
    const rewound = new AgentLoopError('REWOUND', 'record 2 is missing');
    const { sent } = draw({
      source: '    -ab 60ms |',
      answers: ({ cold }) => [cold('-#', {}, down), cold('-#', {}, rewound)],
      out: '       - 51ms (ab) 7ms |',
      subscribed: '^ -- 60ms !',
    });
    expect(sent).toEqual(['2@1', '3@2', '2@52', '3@52']);
  });

  it('errors at once with what no retry mends, and leaves the source', () => {
    const { sent, fired } = draw({
      source: '    -ab-------|',
      answers: ({ cold }) => [cold('-----#', {}, fenced)],
      out: '       ------#',
      error: fenced,
      subscribed: '^-----!',
    });
    expect(sent).toEqual(['2@1', '3@2']);
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

  it('counts the deadline for the oldest commit that is not durable', () => {
    draw({
      source: '    -a 80ms b 200ms |',
      answers: ({ cold }) => [cold('90ms a'), cold('95ms a')],
      out: '       - 90ms a 85ms b 105ms |',
      subscribed: '^ 81ms - 200ms !',
      storeDeadlineMs: 100,
    });
  });

  it('gives up a commit that is the oldest since another was acknowledged', () => {
    draw({
      source: '    -ab 3s |',
      answers: ({ cold }) => [cold('50ms a'), cold('4s a')],
      out: '       - 50ms a 99ms #',
      error: silent(100),
      subscribed: '^ 150ms !',
      storeDeadlineMs: 100,
    });
  });

  it('gives the oldest commit no more time because a later one was acknowledged before it', () => {
    draw({
      source: '    -ab 3s |',
      answers: ({ cold }) => [cold('4s a'), cold('50ms a')],
      out: '       - 100ms #',
      error: silent(100),
      subscribed: '^ 100ms !',
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
    expect(sent).toEqual(['2@1', '3@2']);
    expect(fired).toEqual([]);
  });

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

describe('publishDeltas', () => {
  it('shows each delta to the followers of the store as it passes, with its place in the turn, and no record', () => {
    const deps = turnDeps();
    const published: { readonly at: number; readonly taskId: string; readonly delta: Delta }[] = [];
    marbles(({ clock, hot, expectObservable, expectSubscriptions }) => {
      const publish = (taskId: string, delta: Delta) => published.push({ at: clock.now(), taskId, delta });
      const store = Object.assign(new InMemoryStateStore(), { publish });
      const start = startedState();
      const first = commitOf(stamper, start, [{ type: 'llm.start', iteration: 1, attempt: 1 }]);
      const again = commitOf(stamper, first.after, [{ type: 'llm.start', iteration: 1, attempt: 2 }]);
      const signals = { ...values, a: first, b: again };
      const source$ = hot<Signal>('-atrbup--|', signals);
      expectObservable(source$.pipe(publishDeltas(deps, store)), '-------!').toBe('-atrbup', signals);
      expectSubscriptions(source$.subscriptions).toBe('^------!');
    });
    const { t, u, r, p } = values;
    const llm = (attempt: number, chunk: Signal) => ({ type: 'llm', epoch: 1, iteration: 1, attempt, chunk });
    expect(published).toEqual([
      { at: 2, taskId: 'task', delta: llm(1, t) },
      { at: 3, taskId: 'task', delta: llm(1, r) },
      { at: 5, taskId: 'task', delta: llm(2, u) },
      { at: 6, taskId: 'task', delta: { type: 'tool-progress', epoch: 1, callId: p.callId, update: p.update } },
    ]);
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
