import { afterAll, describe, expect, it } from '@jest/globals';
import { ChildPrograms } from '../stores/lmdb/child-programs.ts';
import { clientBaseline, requiredOfClients, saidOfClient } from './mcp-conformance-suite.ts';
import { describeReal } from './real-part.ts';

const programs = new ChildPrograms('tests/conformance');
afterAll(() => programs.clear());

describeReal(['mcp-conformance'], 'the sign-in of mcpTools and the conformance suite of MCP', () => {
  const passed = requiredOfClients.filter(({ name }) => !clientBaseline.includes(name) && name.startsWith('auth/'));

  it('runs all 25 scenarios of 2026-07-28', () => {
    expect(passed.filter(({ revision }) => revision === '2026-07-28')).toHaveLength(25);
  });

  describe.each(passed)('P-08 of $revision', (scenario) => {
    it(`passes ${scenario.name}`, async () => {
      expect(await saidOfClient(programs.bundleOf('client'), scenario)).toContain('OVERALL: PASSED');
    });
  });
});
