import { randomInt } from 'node:crypto';

/** Without those that are mistaken for each other, and without vowels, so that no words come out. */
const letters = '23456789bcdfghjkmnpqrstvwxz';
const length = 10;

/** A new id that can be read out and typed: 10 letters and digits, 47 bits of chance. */
export function newId(): string {
  return Array.from({ length }, () => letters[randomInt(letters.length)]).join('');
}
