import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { Message } from 'millrace';
import { checkChangedMessages, checkMessages } from 'millrace/internals';
import { cleanHistory } from '../extensions/context/random-history.ts';

const wrong = JSON.parse('{"role":"tool","content":"whose?"}') as Message;
const outcomeOf = (check: () => void) => {
  try {
    return check();
  } catch (error) {
    return error;
  }
};

describe('checkChangedMessages', () => {
  it('says of a view what a check of all of it says, however it was cut, lengthened and changed', () => {
    const change = fc.record({ at: fc.nat(12), gone: fc.nat(12), put: fc.constantFrom<Message[]>([], [wrong]) });
    fc.assert(
      fc.property(cleanHistory, fc.array(change, { maxLength: 3 }), (before, changes) => {
        const view = changes.reduce<readonly Message[]>(
          (messages, { at, gone, put }) => messages.toSpliced(at, gone, ...put),
          before,
        );
        expect(outcomeOf(() => checkChangedMessages(view, before))).toEqual(outcomeOf(() => checkMessages(view)));
      }),
    );
  });

  it('refuses what is no list', () => {
    const view: readonly Message[] = JSON.parse('{}');
    expect(() => checkChangedMessages(view, [])).toThrow('messages must be an array');
  });
});
