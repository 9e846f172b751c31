import { execFileSync } from 'node:child_process';
import { expect, it } from '@jest/globals';

it('K-01 turns call each operator factory that is exported', () => {
  const script = new URL('factories.mjs', import.meta.url).pathname;
  const { called, others } = JSON.parse(execFileSync(process.execPath, [script], { encoding: 'utf8' }));
  expect(called).toEqual([
    'callModel',
    'catchIterationError',
    'catchLLMError',
    'catchTurnError',
    'completeIteration',
    'executeTools',
    'loopIterations',
    'mapLLMResponseToState',
    'prepareLLMCall',
    'requestLLM',
    'startIterationSpan',
    'tapAfterTurn',
    'tapLLMResponse',
    'withTools',
  ]);
  // What begins a turn that is composed by hand, and the events of one.
  expect(others).toEqual(['beginLLMCall', 'operatorTurn', 'projectEvents']);
});
