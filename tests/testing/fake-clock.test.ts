import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { fakeClock } from 'millrace/testing';

describe('fakeClock', () => {
  it('stands still until it is moved', () => {
    const clock = fakeClock({ startAt: 1_000 });
    let ran = false;
    clock.schedule(1, () => {
      ran = true;
    });
    expect([clock.now(), clock.pending, ran]).toEqual([1_000, 1, false]);
    clock.advance(1);
    expect([clock.now(), clock.pending, ran]).toEqual([1_001, 0, true]);
  });

  it('shows each callback its own time, and runs what it schedules on the way', () => {
    const clock = fakeClock();
    const times: number[] = [];
    const again = (): void => {
      times.push(clock.now());
      clock.schedule(10, again);
    };
    clock.schedule(10, again);
    clock.advance(35);
    expect(times).toEqual([10, 20, 30]);
    expect([clock.now(), clock.pending]).toEqual([35, 1]);
  });

  it('runs callbacks in the order of their times, and of scheduling where they are due together', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(20)), (delays) => {
        const clock = fakeClock();
        const ran: number[] = [];
        for (const [index, ms] of delays.entries()) clock.schedule(ms, () => ran.push(index));
        clock.advance(20);
        const expected = delays.map((ms, index) => ({ ms, index })).sort((a, b) => a.ms - b.ms || a.index - b.index);
        expect(ran).toEqual(expected.map(({ index }) => index));
      }),
    );
  });

  it('forgets what is cancelled, also by a callback that is due at the same time', () => {
    const clock = fakeClock();
    const ran: string[] = [];
    clock.schedule(5, () => {
      ran.push('first');
      cancel();
    });
    const cancel = clock.schedule(5, () => ran.push('second'));
    clock.advance(5);
    expect(ran).toEqual(['first']);
    expect(clock.pending).toBe(0);
  });

  it('goes on after a callback that throws', () => {
    const clock = fakeClock();
    let ran = false;
    clock.schedule(1, () => {
      throw new Error('broken');
    });
    clock.schedule(2, () => {
      ran = true;
    });
    expect(() => clock.advance(5)).toThrow('broken');
    expect([clock.now(), ran]).toEqual([1, false]);
    clock.advance(1);
    expect(ran).toBe(true);
  });

  it('does not take a watchdog for a sleep: neither waits for it nor moves to it while there is one', async () => {
    const clock = fakeClock();
    const ran: string[] = [];
    const bark = (): void => {
      ran.push(`watchdog at ${clock.now()}`);
      clock.schedule(10, bark, { watchdog: true });
    };
    clock.schedule(10, bark, { watchdog: true });
    const asleep = clock.whenPending().then(() => ran.push('asleep'));
    await new Promise(setImmediate);
    expect([ran, clock.pending]).toEqual([[], 1]);
    clock.schedule(25, () => ran.push('awake'));
    await asleep;
    clock.advanceToNext();
    clock.advanceToNext();
    expect(ran).toEqual(['asleep', 'watchdog at 10', 'watchdog at 20', 'awake', 'watchdog at 30']);
  });

  it('moves to the next callback', () => {
    const clock = fakeClock();
    const ran: number[] = [];
    for (const ms of [60_000, 60_000, 60_001]) clock.schedule(ms, () => ran.push(ms));
    clock.advanceToNext();
    expect([clock.now(), ran]).toEqual([60_000, [60_000, 60_000]]);
    clock.advanceToNext();
    expect(clock.now()).toBe(60_001);
    expect(() => clock.advanceToNext()).toThrow(/Nothing is scheduled/);
  });

  it('tells when something begins to wait', async () => {
    const clock = fakeClock();
    const order: string[] = [];
    const two = clock.whenPending(2).then(() => order.push('two'));
    const one = clock.whenPending().then(() => order.push('one'));
    clock.schedule(1, () => undefined);
    await one;
    expect(order).toEqual(['one']);
    clock.schedule(1, () => undefined);
    await two;
    expect(order).toEqual(['one', 'two']);
  });

  it('does not go back', () => {
    expect(() => fakeClock().advance(-1)).toThrow(/0 or more/);
    expect(() => fakeClock().advance(Number.NaN)).toThrow(/0 or more/);
  });
});
