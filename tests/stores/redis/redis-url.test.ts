import { expect, it } from '@jest/globals';
import { RedisStateStore } from 'millrace/redis';

it('a URL of another protocol is refused where the store is made', () => {
  expect(() => new RedisStateStore({ redis: 'http://localhost:6379' })).toThrow(
    expect.objectContaining({ code: 'INVALID_CONFIG', message: expect.stringMatching(/"http"; .* redis:\/\//) }),
  );
});
