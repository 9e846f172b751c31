import { afterAll, describe, expect, it } from '@jest/globals';
import { ChildPrograms } from '../stores/lmdb/child-programs.ts';
import { clientBaseline, requiredOfClients, saidOfClient } from './mcp-conformance-suite.ts';
import { describeReal } from './real-part.ts';

const programs = new ChildPrograms('tests/conformance');
afterAll(() => programs.clear());

describeReal(['mcp-conformance'], 'mcpTools and the conformance suite of MCP', () => {
  const passed = requiredOfClients.filter(({ name }) => !clientBaseline.includes(name) && !name.startsWith('auth/'));

  it('has no exception in its baseline that no revision requires', () => {
    expect(clientBaseline.filter((each) => !requiredOfClients.some(({ name }) => name === each))).toEqual([]);
    expect(passed.length).toBeGreaterThan(8);
  });

  describe.each(passed)('P-07 of $revision', (scenario) => {
    it(`passes ${scenario.name}`, async () => {
      expect(await saidOfClient(programs.bundleOf('client'), scenario)).toContain('OVERALL: PASSED');
    });
  });
});
