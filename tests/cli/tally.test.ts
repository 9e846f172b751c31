import { expect, it } from '@jest/globals';
import { addToTally, emptyTally, tallyLine } from 'millrace/internals';
import { below, finalStatus, iterationStart, llmResponse, taskEvent, toolComplete } from './events.ts';

it('sums a turn up from its events', () => {
  const final = finalStatus('completed', { timestamp: '2026-01-01T00:00:01.200Z' });
  const tally = [
    taskEvent(),
    iterationStart(1),
    llmResponse(1800),
    toolComplete('1:0', 'a'),
    iterationStart(2),
    llmResponse(12, 2),
    final,
  ].reduce(addToTally, emptyTally);
  expect(tally.final).toBe(final);
  expect(tallyLine(tally, '·')).toBe('2 iterations · 1 tool call · 1,812 tokens · 1.2 s');
});

it('counts the tokens of sub-agents, once, also where a child turn is shown again', () => {
  const child = [below('bo', llmResponse(100), '4-1.1'), below('bo/cy', llmResponse(7), '4-1.1')];
  const tally = [taskEvent(), llmResponse(10), ...child, ...child].reduce(addToTally, emptyTally);
  expect(tally).toMatchObject({ tokens: 117, iterations: 0, toolCalls: 0 });
});

it('leaves out what the model did not tell', () => {
  expect(tallyLine([taskEvent(), iterationStart(1)].reduce(addToTally, emptyTally), '-')).toBe(
    '1 iteration - 0 tool calls',
  );
});
