import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';

/** Runs a module in a process in which no program is installed. */
async function run(code: string, env: Readonly<Record<string, string>> = {}) {
  const args = ['--input-type=module', '-e', code];
  const cwd = new URL('..', import.meta.url);
  return promisify(execFile)(process.execPath, args, { cwd, env: { PATH: '/nowhere', NO_COLOR: '1', ...env } });
}

describe('a part that is not installed', () => {
  const find = `
    import { findParts, localParts } from './tests/real/local-parts.mjs';
    await findParts(localParts).catch((error) => console.log(error.message));
    console.log(process.env.MILLRACE_REAL_PARTS);`;

  it('R-29 is found missing, with the reason', async () => {
    const parts = JSON.parse((await run(find)).stdout);
    expect(parts).toMatchObject({
      redis: { missing: 'redis-server is not installed' },
      sentinel: { missing: 'redis-sentinel is not installed' },
    });
  });

  it('R-29 stops the run where it is required', async () => {
    const { stdout } = await run(find, { MILLRACE_REQUIRE_PARTS: 'sentinel,swift' });
    expect(stdout).toContain(
      'MILLRACE_REQUIRE_PARTS requires unavailable parts: sentinel: redis-sentinel is not installed; swift: not known',
    );
  });
});

describe('the end of a run', () => {
  const report = (testResults: readonly object[]) => `
    import ReportRun from './tests/report-run.mjs';
    new ReportRun().onRunComplete(undefined, { testResults: ${JSON.stringify(testResults)} });`;
  const failed = (fullName: string) => ({
    fullName,
    status: 'failed',
    failureMessages: [`Error: it is 2\n${'    at somewhere\n'.repeat(50)}`],
  });

  it('R-29 names the tests that were skipped, once for each part, with the reason', async () => {
    const skipped = (fullName: string) => ({ fullName, status: 'pending', failureMessages: [] });
    const testResults = [skipped('a turn [redis] ends'), skipped('a turn [redis][sentinel] moves')];
    const MILLRACE_REAL_PARTS = JSON.stringify({
      redis: { version: '7.0.15' },
      sentinel: { missing: 'redis-sentinel is not installed' },
      postgres: { version: '15.18' },
    });
    const { stderr } = await run(report([{ testFilePath: '/t', testResults }]), { MILLRACE_REAL_PARTS });
    expect(stderr.trim().split('\n')).toEqual([
      'Real parts:',
      '  redis     7.0.15   0 passed, 0 failed',
      '  sentinel  SKIPPED  1 tests: redis-sentinel is not installed',
    ]);
  });

  it('R-30 names failed tests and files in less than 25 lines, which leaves room for the totals', async () => {
    const tests = Array.from({ length: 40 }, (_, index) => failed(`sum ${index}`));
    const broken = {
      testFilePath: `${process.cwd()}/tests/b.test.ts`,
      testResults: [],
      testExecError: { message: 'no' },
    };
    const file = { testFilePath: `${process.cwd()}/tests/a.test.ts`, testResults: tests };
    const lines = (await run(report([broken, file]))).stderr.trim().split('\n');
    expect(lines.slice(0, 5)).toEqual([
      'Failed tests: 41',
      '  tests/b.test.ts',
      '    no',
      '  tests/a.test.ts › sum 0',
      '    Error: it is 2',
    ]);
    expect(lines.at(-1)).toBe('  and 33 more');
    expect(lines.length).toBeLessThan(25);
  });
});
