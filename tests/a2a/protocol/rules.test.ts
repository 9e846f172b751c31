import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { capabilityRules } from './capability-rules.ts';
import { sendRules } from './send-rules.ts';
import { taskRules } from './task-rules.ts';
import { wireRules } from './wire-rules.ts';

const rules = [...sendRules, ...taskRules, ...capabilityRules, ...wireRules];

beforeEach(() => {
  // The SDK's transports print the errors that they send.
  jest.spyOn(console, 'error').mockImplementation(() => {});
});
afterEach(() => {
  jest.restoreAllMocks();
});

describe('A2A', () => {
  it.each(rules)('$where: $must', ({ check }) => check());

  it('has one test for each rule', () => {
    const names = rules.map(({ where, must }) => `${where}: ${must}`);
    expect(new Set(names).size).toBe(names.length);
  });
});
