import { readFileSync } from 'node:fs';
import { expect, it } from '@jest/globals';
import { resolveConfig } from 'millrace/internals';
import { scriptedLLM } from 'millrace/testing';

const [, section = ''] = readFileSync('docs/errors.md', 'utf8').split('\n## Time limits\n');
const rows = section.split('\n## ', 1).join('').split('\n');

const limits = Object.entries(resolveConfig({ agentId: 'a', llmProvider: scriptedLLM([]) })).filter(([name]) =>
  name.endsWith('Ms'),
);

it.each(limits)('H-13 the table of time limits has the default of %s', (name, value) => {
  const row = rows.find((line) => line.includes(`\`${name}\``));
  expect(row).toContain(value.toLocaleString('en-US'));
});

it('H-13 all limits of a loop are compared', () => {
  expect(limits.map(([name]) => name).sort()).toEqual([
    'abortGraceMs',
    'leaseMs',
    'modelSilenceMs',
    'storeDeadlineMs',
    'toolListTimeoutMs',
    'toolTimeoutMs',
  ]);
});
