import { describe, expect, it } from '@jest/globals';
import { questionsOf } from '../../../src/testing/demo-model/questions-of.ts';

const kinds = (prompt: string) => questionsOf(prompt).map(({ kind, text }) => `${kind}: ${text}`);

describe('questionsOf', () => {
  it.each([
    [
      'What is 1 + 1, what time is it in Tokyo, and which files mention x?',
      ['calculate: What is 1 + 1', 'time: what time is it in Tokyo', 'search: which files mention x?'],
    ],
    ['Read a.ts. Then list src', ['read: Read a.ts.', 'list: list src']],
    ['- read a.ts\n- read b.ts', ['read: read a.ts', 'read: read b.ts']],
    ['1. What is 2 + 2?\n2. Who are you?', ['calculate: What is 2 + 2?', 'other: Who are you?']],
    ['What is 17 mod 5 and 2 * 3?', ['calculate: What is 17 mod 5', 'calculate: 2 * 3?']],
    ['Search for "what is this, and how" in src', ['search: Search for "what is this, and how" in src']],
    [
      'What time is it in Tokyo, London and New York?',
      ['time: What time is it in Tokyo?', 'time: What time is it in London?', 'time: What time is it in New York?'],
    ],
    ['The weather in Paris, France', ['other: The weather in Paris, France']],
    ['Read a.ts and src/b.ts', ['read: Read a.ts', 'read: Read src/b.ts']],
    ['Hi, could you please tell me what time it is in Rome?', ['other: Hi', 'time: what time it is in Rome?']],
    ['What is in src/core?', ['list: What is in src/core?']],
    ['How many files are in docs?', ['list: How many files are in docs?']],
    ['How many lines does a.ts have?', ['read: How many lines does a.ts have?']],
    ['Delete the file a.ts', ['other: Delete the file a.ts']],
    ['?!', []],
    ['', []],
  ])('takes “%s” apart', (prompt, expected) => {
    expect(kinds(prompt)).toEqual(expected);
  });

  it.each([
    ['which files mention shareTurn', 'shareTurn', undefined],
    ['search the code for TODO comments', 'TODO', undefined],
    ['Where is AgentLoop defined?', 'AgentLoop', undefined],
    ['What files import rxjs in src/core?', 'rxjs', 'src/core'],
    ['grep for `a b` in tests', 'a b', 'tests'],
    ['Find all *.test.ts files', '*.test.ts', undefined],
    ['Find the definition of Clock', 'Clock', undefined],
  ])('finds in “%s” what is searched for, and where', (prompt, pattern, path) => {
    const { facets } = questionsOf(prompt)[0] ?? {};
    expect([facets?.pattern, facets?.path]).toEqual([pattern, path]);
  });

  it('knows a question that takes up the one before', () => {
    expect(questionsOf('And in Paris?')[0]?.goesOn).toBe(true);
    expect(questionsOf('What time is it? And where?').map(({ goesOn }) => goesOn)).toEqual([false, false]);
  });
});
