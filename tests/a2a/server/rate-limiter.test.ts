import { expect, it } from '@jest/globals';
import { RateLimiter } from 'millrace/internals';

it('fills evenly, and says to the millisecond when the next request may be made', () => {
  let now = 0;
  const limiter = new RateLimiter({ requests: 2, perMs: 1_024 }, () => now);
  expect([limiter.take('a'), limiter.take('a'), limiter.take('a'), limiter.take('b')]).toEqual([0, 0, 512, 0]);
  now = 384;
  expect(limiter.take('a')).toBe(128);
  now = 512;
  expect([limiter.take('a'), limiter.take('a')]).toEqual([0, 512]);
});
