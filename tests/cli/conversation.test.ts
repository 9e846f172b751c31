import { expect, it } from '@jest/globals';
import { foldShown, keptOfBrokenTurn } from '../../src/cli/conversation.ts';
import { llmCall, textEvent } from './events.ts';

const question = { role: 'user', content: 'Why?' } as const;

it('a conversation keeps the question and the text that was shown, without discarded attempts', () => {
  const shown = [
    textEvent('Let me look.', { append: false }),
    llmCall(2),
    textEvent('Becau', { append: false, iteration: 2 }),
    textEvent('Because ', { append: false, iteration: 2 }),
    textEvent('of', { iteration: 2 }),
  ].reduce(foldShown, new Map());
  expect(keptOfBrokenTurn(question, shown)).toEqual([
    question,
    { role: 'assistant', content: 'Let me look.\n\nBecause of [interrupted]' },
  ]);
});

it('where nothing was shown, it keeps nothing', () => {
  expect(keptOfBrokenTurn(question, new Map([['answer-1', '']]))).toEqual([]);
});
