import { readFileSync } from 'node:fs';
import { expect, it } from '@jest/globals';
import { resolveConfig } from '../../src/core/resolve-config.ts';
import { scriptedLLM } from '../../src/testing/scripted-llm.ts';

const page = readFileSync('docs/time-limits.md', 'utf8');

it.each([
  'modelSilenceMs',
  'toolListTimeoutMs',
  'toolTimeoutMs',
  'abortGraceMs',
  'leaseMs',
  'storeDeadlineMs',
] as const)('H-13 the page of time limits has the default of %s', (name) => {
  const row = page.split('\n').find((line) => line.includes(`\`${name}\``));
  const value = resolveConfig({ agentId: 'a', llmProvider: scriptedLLM([]) })[name];
  expect(row).toContain(value.toLocaleString('en-US'));
});
