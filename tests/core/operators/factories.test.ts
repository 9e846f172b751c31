import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import * as executeOperators from '../../../src/core/operators/execute-operators.ts';
import * as iterationOperators from '../../../src/core/operators/iteration-operators.ts';
import * as llmOperators from '../../../src/core/operators/llm-operators.ts';

const core = new URL('../../../src/core/', import.meta.url);
const sources = readdirSync(core, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .map((file) => readFileSync(new URL(file, core), 'utf8'));

/** Where a function is called, other than where it is defined or told of. */
function callsOf(name: string): number {
  const call = new RegExp(`(?<!function )\\b${name}\\(`, 'g');
  return sources.reduce((sum, source) => sum + (source.match(call)?.length ?? 0), 0);
}

const factories: readonly [string, object][] = [
  ['tapAfterTurn', executeOperators],
  ['catchTurnError', executeOperators],
  ['startIterationSpan', iterationOperators],
  ['completeIteration', iterationOperators],
  ['catchIterationError', iterationOperators],
  ['prepareLLMCall', llmOperators],
  ['tapLLMResponse', llmOperators],
  ['mapLLMResponseToState', llmOperators],
  ['catchLLMError', llmOperators],
];

describe('the operator factories', () => {
  it.each(factories)('S1-104 %s is exported from its file and called by the running pipeline', (name, file) => {
    expect(Object.entries(file)).toContainEqual([name, expect.any(Function)]);
    expect(callsOf(name)).toBeGreaterThan(0);
  });
});
