import { describe, expect, it } from '@jest/globals';
import { expressionIn } from '../../../src/testing/demo-model/expression-in.ts';

describe('expressionIn', () => {
  it.each([
    ['What is 12 * 7?', '12 * 7'],
    ['12*7', '12*7'],
    ['what’s 12 times 7', '12 * 7'],
    ['Calculate (3 + 4) * 2^3.', '(3 + 4) * 2^3'],
    ['How much is 15% of 240?', '(15 / 100) * 240'],
    ['What is the square root of 144 plus 5?', 'sqrt(144) + 5'],
    ['Multiply 6 by 7', '6 * 7'],
    ['Subtract 3 from 10', '10 - 3'],
    ['What is 1,234,567 + 1?', '1234567 + 1'],
    ['What is 3 squared?', '3^2'],
    ['What is 17 modulo 5?', '17 mod 5'],
    ['What is 2 * pi?', '2 * pi'],
    ['What is 5 − 2 × 3 ÷ 4?', '5 - 2 * 3 / 4'],
    ['What is (1 + 2?', '1 + 2'],
  ])('finds in “%s” %s', (question, expression) => {
    expect(expressionIn(question)).toBe(expression);
  });

  it.each([
    'What happened on 2026-10-09?',
    'Who wrote Hamlet?',
    'Read lines 3-4 of a.ts',
    'What is in src/2/3?',
    'What is version 1.2.3?',
    'Tell me 7 things',
    'How many times did I ask?',
  ])('finds none in “%s”', (question) => {
    expect(expressionIn(question)).toBeUndefined();
  });
});
