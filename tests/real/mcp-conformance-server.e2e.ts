import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { ChildPrograms } from '../stores/lmdb/child-programs.ts';
import { revisions, saidOfServer } from './mcp-conformance-suite.ts';
import { describeReal } from './real-part.ts';

const programs = new ChildPrograms('tests/conformance');
afterAll(() => programs.clear());

describeReal(['mcp-conformance'], 'mcpServer and the conformance suite of MCP', () => {
  let server: ChildProcess;
  let url = '';
  beforeAll(async () => {
    server = spawn(process.execPath, [programs.bundleOf('server')], { stdio: ['pipe', 'pipe', 'inherit'] });
    const [written] = await once(server.stdout ?? server, 'data');
    url = String(written).trim();
  });
  afterAll(async () => {
    const ended = once(server, 'exit');
    server.stdin?.end();
    await ended;
  });

  const baseline = ['--expected-failures', 'tests/conformance/server-baseline.yml'];
  const scenario = (name: string, revision: string) => ['--scenario', name, '--spec-version', revision];

  it.each(revisions)('P-09 fails nothing of %s that the baseline does not name, with its reason', async (revision) => {
    const said = await saidOfServer(url, ['--requirements', revision, ...baseline]);
    expect(said).toMatch(/Total: \d+ passed/);
    expect(said).not.toMatch(/Unexpected failures|Stale/i);
  });

  it('P-09 passes the 14 checks of headers', async () => {
    const said = await saidOfServer(url, scenario('http-header-validation', '2026-07-28'));
    expect(said).toContain('Passed: 14/14, 0 failed');
  });

  it.each([
    ['server-stateless', 'Passed: 24/28, 4 failed'],
    ['caching', 'Passed: 4/7, 3 failed'],
    ['tools-list', 'Passed: 3/3, 0 failed'],
    ['dns-rebinding-protection', 'Passed: 2/2, 0 failed'],
  ])('P-09 passes of %s what can be tested without tools of the suite: %s', async (name, passed) => {
    expect(await saidOfServer(url, scenario(name, '2026-07-28'))).toContain(passed);
  });
});
