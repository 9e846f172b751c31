import { describe, expect, it } from '@jest/globals';
import { AgentLoopError, InMemoryStateStore } from 'millrace';
import { keepLease, LeaseHold, releaseLease } from 'millrace/internals';
import type { Signal } from 'millrace/operators';
import { fakeClock } from 'millrace/testing';
import { NEVER, type Observable, of, Subject, throwError } from 'rxjs';
import { lease } from './answering-store.ts';
import { answerWhen, type MarbleHelpers, marbles } from './marbles.ts';

const values: Record<string, Signal> = { t: { type: 'text', text: 'Two' }, u: { type: 'text', text: ' apples' } };
const down = new AgentLoopError('UNAVAILABLE', 'down', { retryable: true });
const fenced = new AgentLoopError('FENCED', 'fenced');

type Renewal = 'at once' | { readonly throws: Error } | Observable<unknown>;

interface Diagram {
  readonly source: string;
  readonly renewals?: (helpers: MarbleHelpers) => readonly Renewal[];
  readonly out: string;
  readonly error?: unknown;
  readonly subscribed: string;
  readonly leave?: string;
  /** When something wants to know that the lease holds. */
  readonly wanted?: readonly number[];
}

/**
 * Keeps a lease of 300 ms whose renewals are answered by plan, with a deadline of 150 ms, and gives when it was renewed, and when those
 * were called back who wanted it.
 */
function keeping({ source, renewals, out, error, subscribed, leave, wanted = [] }: Diagram) {
  return marbles((helpers) => {
    const { clock, hot, expectObservable, expectSubscriptions } = helpers;
    const plan = renewals?.(helpers) ?? [];
    const renewed: number[] = [];
    const renew = () => {
      const answer = plan[renewed.length] ?? 'at once';
      renewed.push(clock.now());
      if (answer === 'at once') return;
      if ('throws' in answer) throw answer.throws;
      return answerWhen(answer);
    };
    const store = Object.assign(new InMemoryStateStore(), { renew });
    const source$ = hot(source, values);
    const hold = new LeaseHold(clock, lease.leaseMs, { now: 0, elapsed: 0 });
    const deps = { store, lease, clock, hold, storeDeadlineMs: 150 };
    expectObservable(source$.pipe(keepLease(deps)), leave).toBe(out, values, error);
    expectSubscriptions(source$.subscriptions).toBe(subscribed);
    const called: string[] = [];
    for (const at of wanted) {
      clock.schedule(at, () =>
        hold.afterRenewal(() => called.push(`${clock.now()} ${hold.isSure ? 'sure' : 'not sure'}`)),
      );
    }
    return { renewed, called, fired: clock.fired };
  });
}

describe('keepLease', () => {
  it('renews every third of the lease until the source ends, and passes the signals on', () => {
    const { renewed, fired } = keeping({
      source: '    -t 239ms u 109ms |',
      out: '       -t 239ms u 109ms |',
      subscribed: '^- 240ms 109ms !',
    });
    expect(renewed).toEqual([100, 200, 300]);
    expect(fired).toEqual(renewed);
  });

  it('counts from the answer where the store takes its time', () => {
    const { renewed } = keeping({
      source: '    - 399ms |',
      renewals: ({ cold }) => [cold('40ms a'), cold('60ms a')],
      out: '       - 399ms |',
      subscribed: '^ 399ms !',
    });
    expect(renewed).toEqual([100, 240]);
  });

  it('tries again a third later where the store does not answer', () => {
    const { renewed } = keeping({
      source: '    - 449ms |',
      renewals: ({ cold }) => [{ throws: down }, cold('50ms #', {}, down)],
      out: '       - 449ms |',
      subscribed: '^ 449ms !',
    });
    expect(renewed).toEqual([100, 200, 350]);
  });

  it('renews at once where something waits for it, and counts on from there', () => {
    const { renewed, called } = keeping({
      source: '    - 299ms |',
      renewals: ({ cold }) => [cold('20ms a')],
      out: '       - 299ms |',
      subscribed: '^ 299ms !',
      wanted: [40],
    });
    expect(renewed).toEqual([40, 160, 260]);
    expect(called).toEqual(['60 sure']);
  });

  it('makes one renewal for all that wait for it', () => {
    const { renewed, called } = keeping({
      source: '    - 199ms |',
      renewals: ({ cold }) => [cold('20ms a')],
      out: '       - 199ms |',
      subscribed: '^ 199ms !',
      wanted: [40, 50],
    });
    expect(renewed).toEqual([40, 160]);
    expect(called).toEqual(['60 sure', '60 sure']);
  });

  it('calls back who waits behind a renewal whose answer is older than the lease, which is not sure then', () => {
    const { called } = keeping({
      source: '    - 499ms |',
      renewals: ({ cold }) => [cold('320ms a')],
      out: '       - 499ms |',
      subscribed: '^ 499ms !',
      wanted: [380],
    });
    expect(called).toEqual(['420 not sure']);
  });

  it('errors with UNAVAILABLE where something waits longer than the deadline', () => {
    const { called } = keeping({
      source: '    - 499ms |',
      renewals: () => Array.from({ length: 9 }, () => ({ throws: down })),
      out: '       - 189ms #',
      error: expect.objectContaining({ code: 'UNAVAILABLE', retryable: true }),
      subscribed: '^ 189ms !',
      wanted: [40],
    });
    expect(called).toEqual([]);
  });

  it.each([
    ['rejects', (helpers: MarbleHelpers): Renewal => helpers.cold('#', {}, fenced)],
    ['throws', (): Renewal => ({ throws: fenced })],
  ])('errors and leaves the source where the store %s because the turn is somebody else’s', (_, answer) => {
    const { renewed, fired } = keeping({
      source: '    -t 300ms |',
      renewals: (helpers) => [answer(helpers)],
      out: '       -t 98ms #',
      error: fenced,
      subscribed: '^- 98ms !',
    });
    expect(renewed).toEqual([100]);
    expect(fired).toEqual([100]);
  });

  it.each([
    ['the source errors', '- 149ms #', '- 149ms #', undefined],
    ['it is left', '- 300ms |', '', '- 149ms !'],
  ])('renews no more once %s', (_, source, out, leave) => {
    const { renewed, fired } = keeping({
      source,
      out,
      error: 'error',
      subscribed: '^ 149ms !',
      ...(leave === undefined ? {} : { leave }),
    });
    expect(renewed).toEqual([100]);
    expect(fired).toEqual([100]);
  });

  it('takes no answer that comes after it was left', () => {
    const { renewed, called } = keeping({
      source: '    - 300ms |',
      renewals: ({ cold }) => [cold('50ms a')],
      out: '       ',
      leave: '     - 119ms !',
      subscribed: '^ 119ms !',
      wanted: [110],
    });
    expect(renewed).toEqual([100]);
    expect(called).toEqual([]);
  });
});

describe('releaseLease', () => {
  /** A source that is released to a store which answers with `answer`, and what became of it. */
  function releasing(source$: Observable<Signal>, answer: () => void | Promise<void> = () => {}) {
    const seen: string[] = [];
    const clock = fakeClock();
    const release = () => {
      seen.push('release');
      return answer();
    };
    const store = Object.assign(new InMemoryStateStore(), { release });
    let finish = () => {};
    const ended = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const subscription = source$.pipe(releaseLease({ store, lease, clock })).subscribe({
      next: ({ type }) => seen.push(type),
      error: (error) => {
        seen.push(`error ${error}`);
        finish();
      },
      complete: () => {
        seen.push('complete');
        finish();
      },
    });
    return { seen, clock, subscription, ended };
  }

  const text: Signal = { type: 'text', text: 'Two' };

  it('gives the lease back behind the last signal, once, and completes when that is done', async () => {
    let answer = () => {};
    const { seen, ended } = releasing(
      of(text),
      () =>
        new Promise<void>((resolve) => {
          answer = resolve;
        }),
    );
    await Promise.resolve();
    expect(seen).toEqual(['text', 'release']);
    answer();
    await ended;
    expect(seen).toEqual(['text', 'release', 'complete']);
  });

  it.each([
    ['rejects', () => Promise.reject(down)],
    [
      'throws',
      () => {
        throw fenced;
      },
    ],
  ])('completes all the same where the store %s', async (_, answer) => {
    const { seen, ended } = releasing(of(text), answer);
    await ended;
    expect(seen).toEqual(['text', 'release', 'complete']);
  });

  it('waits for a store that does not answer until the lease has run out by itself', async () => {
    const { seen, clock, ended } = releasing(of(text), () => new Promise(() => {}));
    await clock.whenPending();
    clock.advance(lease.leaseMs - 1);
    expect(seen).toEqual(['text', 'release']);
    clock.advance(1);
    await ended;
    expect(seen).toEqual(['text', 'release', 'complete']);
    expect(clock.pending).toBe(0);
  });

  it('gives the lease back without waiting where the source errors', () => {
    const { seen } = releasing(
      throwError(() => 'lost'),
      () => new Promise(() => {}),
    );
    expect(seen.toSorted()).toEqual(['error lost', 'release']);
  });

  it('gives the lease back without waiting where it is left', () => {
    const source$ = new Subject<Signal>();
    const { seen, clock, subscription } = releasing(source$, () => Promise.reject(down));
    expect(seen).toEqual([]);
    subscription.unsubscribe();
    expect(seen).toEqual(['release']);
    expect(source$.observed).toBe(false);
    expect(clock.pending).toBe(0);
  });

  it('keeps the lease while the source runs', () => {
    const { seen, subscription } = releasing(NEVER);
    expect(seen).toEqual([]);
    subscription.unsubscribe();
  });
});
