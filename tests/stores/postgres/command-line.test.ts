import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { runInProcess } from '../../cli/run-in-process.ts';
import { describePostgres } from './describe-postgres.ts';
import { type PostgresProcess, startPostgres } from './postgres-process.ts';

describePostgres('the command line on PostgreSQL', () => {
  let postgres: PostgresProcess;
  beforeAll(async () => {
    postgres = await startPostgres();
  });
  afterAll(() => postgres.remove());

  it('makes the tables when asked to, and says how where they are missing', async () => {
    const store = ['--store', postgres.url];
    const missing = await runInProcess(['tasks', ...store]);
    expect(missing.exitCode).not.toBe(0);
    expect(missing.stderr).toContain('millrace store migrate');
    expect(missing.stderr).not.toContain('\n    at ');
    const migrated = await runInProcess(['store', 'migrate', ...store]);
    expect(migrated).toMatchObject({ exitCode: 0, stderr: expect.stringContaining('are up to date') });
    expect(migrated.stderr).toContain(`PostgreSQL at postgres://127.0.0.1:${postgres.port}/postgres`);
    expect(await runInProcess(['tasks', ...store])).toMatchObject({ exitCode: 0 });
    const journal = await runInProcess(['tasks', '--json', '--store', 'postgres://millrace:hunter2@127.0.0.1:1/x']);
    expect(journal.stderr).toContain('PostgreSQL at postgres://127.0.0.1:1/x does not answer');
    expect(journal.stderr).not.toContain('hunter2');
  });
});
