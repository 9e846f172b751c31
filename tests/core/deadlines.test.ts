import { expect, it } from '@jest/globals';
import { systemClock } from 'millrace';
import { Deadlines } from 'millrace/internals';
import { fakeClock } from 'millrace/testing';

/** A system whose clock is set by `jumpMs` while a call with 1 s and one with 30 s run; gives when each expires. */
function expiriesAfter(jumpMs: number): readonly string[] {
  const time = fakeClock();
  const expired: string[] = [];
  let set = 0;
  const clock = { now: () => time.now() + set, elapsed: () => time.now(), schedule: time.schedule };
  const deadlines = new Deadlines(clock);
  const expiring = (name: string) => ({ expire: () => expired.push(`${name} at ${time.now()}`) });
  deadlines.set(expiring('long'), 30_000);
  deadlines.set(expiring('short'), 1_000);
  time.advance(500);
  set = jumpMs;
  deadlines.set(expiring('later'), 1_000);
  time.advance(60_000);
  return expired;
}

it.each([0, -3_600_000, 3_600_000])(
  'measures limits by a clock that nobody sets: the system jumps by %d ms',
  (jumpMs) => {
    expect(expiriesAfter(jumpMs)).toEqual(['short at 1000', 'later at 1500', 'long at 30000']);
  },
);

it('measures limits by the time that passes on the system clock', () => {
  const before = systemClock.elapsed?.() ?? Number.NaN;
  expect((systemClock.elapsed?.() ?? Number.NaN) - before).toBeGreaterThanOrEqual(0);
});

function limits() {
  const clock = fakeClock();
  const expired: string[] = [];
  const call = (name: string, more = () => {}) => ({
    expire() {
      expired.push(`${name} at ${clock.now()}`);
      more();
    },
  });
  return { clock, deadlines: new Deadlines(clock), expired, call };
}

it('expires no call that has ended, also where the expiry of another one has ended it', () => {
  const { clock, deadlines, expired, call } = limits();
  const [ended, endedByFirst] = [call('ended'), call('ended by first')];
  deadlines.set(ended, 50);
  deadlines.delete(ended);
  deadlines.set(
    call('first', () => deadlines.delete(endedByFirst)),
    100,
  );
  deadlines.set(endedByFirst, 100);
  clock.advance(1_000);
  expect(expired).toEqual(['first at 100']);
});

it('expires nobody once it is stopped, and those who are set after that', () => {
  const { clock, deadlines, expired, call } = limits();
  deadlines.set(call('stopped'), 100);
  deadlines.stop();
  deadlines.set(call('after'), 200);
  clock.advance(1_000);
  expect(expired).toEqual(['after at 200']);
});

it('expires in time where the only clock there is was set back', () => {
  const time = fakeClock();
  const expired: number[] = [];
  let set = 0;
  const deadlines = new Deadlines({ now: () => time.now() + set, schedule: time.schedule });
  deadlines.set({ expire: () => expired.push(time.now()) }, 1_000);
  set = -3_600_000;
  time.advance(60_000);
  expect(expired).toEqual([1_000]);
});
