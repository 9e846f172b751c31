import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { ToolCall } from 'millrace';
import { CallIds, CallNames } from 'millrace/internals';

const nineLetters = /^[a-zA-Z0-9]{9}$/;
const plain = /^[a-zA-Z0-9_-]{1,40}$/;

function calls(...ids: readonly string[]): readonly ToolCall[] {
  return ids.map((id) => ({ id, type: 'function', function: { name: 'f', arguments: '{}' } }));
}

describe('CallIds', () => {
  it('M-11 keeps the ids that this server gave, whatever their form', () => {
    const given = ['functions.Read:0', 'call_1__thought__Ab+/c==', 'a'.repeat(300)];
    const ids = new CallIds(nineLetters);
    expect(ids.ofCalls(calls(...given), true)).toEqual(given);
    expect(ids.ofResult('functions.Read:0')).toBe('functions.Read:0');
  });

  it('M-11 keeps ids of other servers that this one takes', () => {
    const ids = new CallIds(plain);
    expect(ids.ofCalls(calls('call_00_Ab-9', 'toolu_1'), false)).toEqual(['call_00_Ab-9', 'toolu_1']);
  });

  it.each(['', '1:0', '3:1.7', 'a/1:1', `call_${'x'.repeat(40)}`, 'é', '\ud83d'])(
    'M-11 makes nine letters of %j, in the call and in its result',
    (id) => {
      const ids = new CallIds(plain);
      const [sent] = ids.ofCalls(calls(id), false);
      expect(sent).toMatch(nineLetters);
      expect(ids.ofResult(id)).toBe(sent);
      expect(new CallIds(plain).ofCalls(calls(id), false)).toEqual([sent]);
    },
  );

  it('M-11 makes an id of our own fit also where this server gave the message', () => {
    expect(new CallIds(nineLetters).ofCalls(calls('2:0'), true)[0]).toMatch(nineLetters);
  });

  it('M-11 makes an id of half a surrogate pair fit for a server that takes any text', () => {
    expect(new CallIds(/./s).ofCalls(calls('call_\ud83d'), true)[0]).toMatch(nineLetters);
  });

  it('M-11 makes an id of each call of 20,000 with one id, in time that grows with their number', () => {
    const ids = new CallIds(plain);
    const sent = Array.from({ length: 20_000 }, () => ids.ofCalls(calls('call_0'), true)[0]);
    expect(new Set(sent).size).toBe(20_000);
  });

  it('gives the results of calls with one id to them in their order', () => {
    const ids = new CallIds(plain);
    const sent = ids.ofCalls(calls('x', 'x'), false);
    expect(new Set(sent).size).toBe(2);
    expect([ids.ofResult('x'), ids.ofResult('x')]).toEqual(sent);
  });

  it('does not give the result of a later call to an earlier one that has none', () => {
    const ids = new CallIds(plain);
    ids.ofCalls(calls('x'), false);
    const [later] = ids.ofCalls(calls('x'), false);
    expect(ids.ofResult('x')).toBe(later);
  });

  it('M-11 gives distinct acceptable ids that results agree with, and the same ones again when the history grows', () => {
    const batches = fc.array(fc.uniqueArray(fc.string({ maxLength: 3 }), { minLength: 1, maxLength: 4 }), {
      maxLength: 6,
    });
    fc.assert(
      fc.property(batches, fc.boolean(), (history, own) => {
        const ids = new CallIds(plain);
        const given = history.map((batch) => {
          const sent = ids.ofCalls(calls(...batch), own);
          expect(batch.map((id) => ids.ofResult(id))).toEqual(sent);
          return sent;
        });
        expect(new Set(given.flat()).size).toBe(given.flat().length);
        if (!own) for (const id of given.flat()) expect(id).toMatch(plain);

        const again = new CallIds(plain);
        expect(history.slice(0, -1).map((batch) => again.ofCalls(calls(...batch), own))).toEqual(given.slice(0, -1));
      }),
    );
  });
});

describe('CallNames', () => {
  const taken = /^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$/;

  it('M-09 gives a made-up name a form that servers take, and never the name of a tool', () => {
    const names = new CallNames(taken, ['look_at_it', 'pay']);
    expect(names.sent('look_at_it')).toBe('look_at_it');
    expect(names.sent('look.at it')).toBe('look_at_it_2');
    expect(names.sent('')).toBe('unnamed_tool');
    expect(names.sent('...')).toBe('unnamed_tool_2');
    expect(names.sent('9lives')).toBe('_9lives');
    expect(names.sent('x'.repeat(100))).toBe('x'.repeat(64));
    expect(names.sent(`${'x'.repeat(100)}y`)).toBe(`${'x'.repeat(62)}_2`);
  });

  it('M-09 makes another name of one that every object has, which packages of vendors look up in objects', () => {
    const names = new CallNames(taken, ['toString']);
    expect(names.sent('__proto__')).toBe('__proto___2');
    expect(names.sent('constructor')).toBe('constructor_2');
    expect(names.sent('toString')).toBe('toString_2');
    expect(names.original('toString_2')).toBe('toString');
  });

  it('M-09 makes a name of each of 20,000 that begin alike, in time that grows with their number', () => {
    const names = new CallNames(taken, []);
    const sent = Array.from({ length: 20_000 }, (_, index) => names.sent(`${'x'.repeat(100)}${index}`));
    expect(new Set(sent).size).toBe(20_000);
  });

  it('M-09 reads the name under which a tool was offered as that of the tool', () => {
    const names = new CallNames(taken, ['look.at']);
    const sent = names.sent('look.at');
    expect(sent).toBe('look_at');
    expect(names.original(sent)).toBe('look.at');
    expect(names.original(names.sent('look at'))).toBe('look_at_2');
  });
});
