import { describe, expect, it } from '@jest/globals';
import { extended, foldOpenText } from '../../src/cli/conversation.ts';
import type { Message } from '../../src/core/messages.ts';
import { llmCall, textEvent } from './events.ts';

const before: readonly Message[] = [{ role: 'user', content: 'Hi' }];
const question: Message = { role: 'user', content: 'Why?' };
const answer: Message = { role: 'assistant', content: 'Because.' };

describe('a conversation', () => {
  it('goes on with the question and what the turn added', () => {
    expect(extended(before, { question, added: [answer], openText: '' })).toEqual([...before, question, answer]);
  });

  it('keeps what was shown of a response that broke off', () => {
    const broken = { role: 'assistant', content: 'Per [interrupted]' };
    expect(extended(before, { question, added: [answer], openText: 'Per' })).toEqual([
      ...before,
      question,
      answer,
      broken,
    ]);
  });

  it('is as before where nothing was answered', () => {
    expect(extended(before, { question, added: [], openText: '' })).toEqual(before);
  });
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
