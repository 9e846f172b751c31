import { expect, it } from '@jest/globals';
import { foldOpenText, interruptedMessage } from 'millrace/internals';
import { llmCall, textEvent } from './events.ts';

it('a response that broke off is the first message of the next turn; one without text is none', () => {
  expect(interruptedMessage('Per')).toEqual([{ role: 'assistant', content: 'Per [interrupted]' }]);
  expect(interruptedMessage('')).toEqual([]);
});

it('the open text is that of the last attempt, until its response is complete', () => {
  const events = [
    textEvent('Let me look.', { append: false }),
    textEvent('', { lastChunk: true }),
    llmCall(2),
    textEvent('Becau', { append: false, iteration: 2 }),
    textEvent('Because ', { append: false, iteration: 2 }),
    textEvent('of', { iteration: 2 }),
  ];
  expect(events.slice(0, 2).reduce(foldOpenText, '')).toBe('');
  expect(events.reduce(foldOpenText, '')).toBe('Because of');
});
