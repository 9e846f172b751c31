import { describe, it } from '@jest/globals';
import { postgresPrograms } from './postgres-process.ts';

const required = process.env['MILLRACE_REQUIRE_POSTGRES'] === '1';

/**
 * Tests that start a PostgreSQL server. Where none is installed they are skipped by name; with `MILLRACE_REQUIRE_POSTGRES=1`, as in CI, they fail
 * instead.
 */
export function describePostgres(title: string, define: () => void): void {
  if (postgresPrograms !== undefined) return void describe(title, define);
  if (!required) return void describe.skip(title, define);
  describe(title, () => {
    it('needs PostgreSQL', () => {
      throw new Error(
        'MILLRACE_REQUIRE_POSTGRES is 1, but there is no PostgreSQL; install it, e.g. apt-get install postgresql.',
      );
    });
  });
}
