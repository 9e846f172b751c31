import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { Backoff, pause, settled, Timer, unlessAborted, within } from 'millrace/internals';
import { fakeClock } from 'millrace/testing';

const never = new Promise<never>(() => {});

describe('within', () => {
  it('gives what the work gives, and leaves no timer', async () => {
    const clock = fakeClock();
    expect(await within({ ms: 10, clock, late: () => 'late' }, Promise.resolve('done'))).toBe('done');
    expect(await within({ ms: 10, clock, late: () => 'late' }, () => 'done')).toBe('done');
    expect(clock.pending).toBe(0);
  });

  it('gives what late returns after the limit, or rejects with it where it is an error', async () => {
    const clock = fakeClock();
    const value = within({ ms: 10, clock, late: () => 'late' }, never);
    const error = within({ ms: 10, clock, late: () => new RangeError('late') }, never);
    clock.advance(10);
    expect(await value).toBe('late');
    await expect(error).rejects.toThrow(new RangeError('late'));
  });

  it.each([0, Number.POSITIVE_INFINITY])('sets no timer for a limit of %d', async (ms) => {
    const clock = fakeClock();
    const waiting = within({ ms, clock, late: () => 'late' }, Promise.resolve('done'));
    expect(clock.pending).toBe(0);
    expect(await waiting).toBe('done');
  });

  it('drops an error that comes after the limit', async () => {
    const clock = fakeClock();
    let fail = (_: Error) => {};
    const work = new Promise<never>((_, reject) => {
      fail = reject;
    });
    const waiting = within({ ms: 10, clock, late: () => 'late' }, work);
    clock.advance(10);
    fail(new Error('nobody handles this'));
    expect(await waiting).toBe('late');
  });

  it('rejects with the reason of an abort during the work, and leaves no timer', async () => {
    const clock = fakeClock();
    const controller = new AbortController();
    const work = () => {
      controller.abort(new Error('left'));
      return never;
    };
    await expect(within({ ms: 10, clock, signal: controller.signal, late: () => 'late' }, work)).rejects.toThrow(
      'left',
    );
    expect(clock.pending).toBe(0);
  });

  it('does not call a function for a signal that is aborted already, and handles the error of a promise', async () => {
    const signal = AbortSignal.abort(new Error('left'));
    let calls = 0;
    await expect(unlessAborted(signal, () => ++calls)).rejects.toThrow('left');
    await expect(unlessAborted(signal, Promise.reject(new Error('nobody handles this')))).rejects.toThrow('left');
    expect(calls).toBe(0);
  });

  it('rejects with what the function throws', async () => {
    const fails = (): number => {
      throw new Error('broken');
    };
    await expect(unlessAborted(undefined, fails)).rejects.toThrow('broken');
  });
});

it('settled resolves after an error, and after the limit', async () => {
  const clock = fakeClock();
  await settled(10, clock, Promise.reject(new Error('broken')));
  const waiting = settled(10, clock, never);
  clock.advance(10);
  await waiting;
  expect(clock.pending).toBe(0);
});

it('pause ends with the signal, and leaves no timer', async () => {
  const clock = fakeClock();
  const controller = new AbortController();
  const waiting = pause(10, clock, controller.signal);
  controller.abort();
  await waiting;
  await pause(10, clock, controller.signal);
  expect(clock.pending).toBe(0);
});

it('Backoff doubles up to its limit until it is reset', () => {
  const backoff = new Backoff(100, 300);
  expect([backoff.next(), backoff.next(), backoff.next(), backoff.next()]).toEqual([100, 200, 300, 300]);
  backoff.reset();
  expect(backoff.next()).toBe(100);
});

it('a Timer runs only what it was set to last, and nothing once it is closed', () => {
  const clock = fakeClock();
  const timer = new Timer(clock);
  const ran: string[] = [];
  timer.set(10, () => ran.push('first'));
  timer.set(20, () => ran.push(`second, ${timer.isSet ? 'still set' : 'no longer set'}`));
  expect(clock.pending).toBe(1);
  clock.advance(30);
  timer.close();
  timer.set(10, () => ran.push('third'));
  clock.advance(30);
  expect(ran).toEqual(['second, no longer set']);
});

/**
 * The clocks, the waits that are composed of them, two that every turn has and that make no call more than they need, and two in the bundles for
 * browsers, which bring no RxJS.
 */
const waits = [
  'core/contracts/host.ts',
  'core/model-call/limits.ts',
  'core/streams/wait.ts',
  'core/tool-call/call-limits.ts',
  'ui/chats.ts',
  'ui/event-stream.ts',
];

it('K-07 nothing waits but by core/streams/wait.ts', () => {
  const src = new URL('../../src/', import.meta.url);
  const files = readdirSync(src, { recursive: true, encoding: 'utf8' }).map((file) => file.replaceAll('\\', '/'));
  // The components of a page own their timers: a browser gives them no clock.
  const engine = files.filter((file) => /\.tsx?$/.test(file) && !/^\w+\/page\//.test(file));
  const own = /\.schedule\(|\bsetTimeout\b|\bPromise\s*\.\s*race\b/;
  expect(engine.filter((file) => own.test(readFileSync(new URL(file, src), 'utf8'))).sort()).toEqual(waits);
});
