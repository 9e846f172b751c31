import { spawnSync } from 'node:child_process';
import { describe, it } from '@jest/globals';

const installed = spawnSync('redis-server', ['--version']).status === 0;
const required = process.env['MILLRACE_REQUIRE_REDIS'] === '1';

/**
 * Tests that start a `redis-server`. Where none is installed they are skipped by name; with `MILLRACE_REQUIRE_REDIS=1`, as in CI, they
 * fail instead.
 */
export function describeRedis(title: string, define: () => void): void {
  if (installed) return void describe(title, define);
  if (!required) return void describe.skip(title, define);
  describe(title, () => {
    it('needs a redis-server', () => {
      throw new Error(
        'MILLRACE_REQUIRE_REDIS is 1, but there is no redis-server; install it, e.g. apt-get install redis-server.',
      );
    });
  });
}
