import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, describe, expect, it } from '@jest/globals';
import { ChildPrograms } from '../stores/lmdb/child-programs.ts';
import { describeReal, realPart } from './real-part.ts';

const run = promisify(execFile);
const programs = new ChildPrograms('tests/conformance');
afterAll(() => programs.clear());

const { bin = '' } = realPart('mcp-conformance');
const revisions = ['2026-07-28', '2025-11-25'] as const;

/** The scenarios that a list of a YAML file names: below `client:`, a line each. */
function scenariosIn(file: string): readonly string[] {
  const [, list = ''] = /^client:\n((?:[ ]+.*\n|\n|#.*\n)*)/m.exec(readFileSync(file, 'utf8')) ?? [];
  return [...list.matchAll(/^ +- ([\w/-]+)/gm)].map(([, name = '']) => name);
}

const baseline = scenariosIn('tests/conformance/client-baseline.yml');
const required = (revision: string) => scenariosIn(join(dirname(bin), '../requirements', `${revision}.yaml`));

describeReal(['mcp-conformance'], 'mcpTools and the conformance suite of MCP', () => {
  // Where parts are missing nothing is read.
  const rows =
    bin === '' ? [] : revisions.flatMap((revision) => required(revision).map((name) => ({ revision, name })));
  const passed = rows.filter(({ name }) => !baseline.includes(name));

  it('has no exception in its baseline that no revision requires', () => {
    expect(baseline.filter((each) => !rows.some(({ name }) => name === each))).toEqual([]);
    expect(passed.length).toBeGreaterThan(8);
  });

  describe.each(passed)('P-07 of $revision', ({ revision, name }) => {
    it(`passes ${name}`, async () => {
      const client = `${process.execPath} ${programs.bundleOf('client')}`;
      const suite = [bin, 'client', '--command', client, '--scenario', name, '--spec-version', revision];
      const said = await run('npx', ['-y', '-p', 'node@22', 'node', ...suite, '--verbose']).then(
        ({ stdout, stderr }) => stdout + stderr,
        (error: { readonly stdout?: string; readonly stderr?: string }) => `${error.stdout}${error.stderr}`,
      );
      expect(said).toContain('OVERALL: PASSED');
    });
  });
});
