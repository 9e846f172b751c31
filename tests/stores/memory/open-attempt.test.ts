import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { JournalRecord } from 'millrace';
import { done, llmAnswer, llmStart, noteRecord as note } from 'millrace/internals';
import { OpenAttempt } from 'millrace/stores';
import type { Delta, TurnRecord } from 'millrace/types';

type LlmDelta = Extract<Delta, { type: 'llm' }>;

function stamped(record: TurnRecord): JournalRecord {
  return { ...record, seq: 2, epoch: 5, at: 0 };
}

function delta(
  chunk: LlmDelta['chunk'],
  at: { readonly iteration?: number; readonly attempt?: number } = {},
): LlmDelta {
  return { type: 'llm', epoch: 5, iteration: at.iteration ?? 1, attempt: at.attempt ?? 1, chunk };
}

const text = (value: string): LlmDelta['chunk'] => ({ type: 'text', text: value });

function opened(record = llmStart(1)): OpenAttempt {
  const attempt = new OpenAttempt();
  attempt.apply(stamped(record));
  return attempt;
}

describe('OpenAttempt', () => {
  it('takes nothing before an llm.start', () => {
    const attempt = new OpenAttempt();
    expect(attempt.accept(delta(text('early')))).toBe(false);
    expect(attempt.soFar()).toBeUndefined();
  });

  it('has no delta where there is no text', () => {
    const attempt = opened();
    expect(attempt.accept(delta({ type: 'reasoning', text: 'hm' }))).toBe(true);
    expect(attempt.accept(delta({ type: 'tool-call', index: 0, arguments: '{' }))).toBe(true);
    expect(attempt.accept(delta(text('')))).toBe(true);
    expect(attempt.soFar()).toBeUndefined();
  });

  it('takes nothing of another iteration or an earlier attempt', () => {
    const attempt = opened(llmStart(2, 3));
    expect(attempt.accept(delta(text('x'), { iteration: 1, attempt: 3 }))).toBe(false);
    expect(attempt.accept(delta(text('x'), { iteration: 3, attempt: 3 }))).toBe(false);
    expect(attempt.accept(delta(text('x'), { iteration: 2, attempt: 2 }))).toBe(false);
    expect(attempt.accept(delta(text('this'), { iteration: 2, attempt: 3 }))).toBe(true);
    expect(attempt.soFar()).toEqual(delta(text('this'), { iteration: 2, attempt: 3 }));
  });

  it('says which attempt the text is of, where a policy counts on within one llm.start', () => {
    const attempt = opened();
    attempt.accept(delta(text('discarded')));
    attempt.accept(delta({ type: 'attempt', state: 'begin' }, { attempt: 2 }));
    attempt.accept(delta(text('second'), { attempt: 2 }));
    expect(attempt.soFar()).toEqual(delta(text('second'), { attempt: 2 }));
  });

  it.each<[string, TurnRecord]>([
    ['llm.done', llmAnswer(1, 'x')],
    ['turn.done', done],
    ['turn.canceled', { type: 'turn.canceled', reason: 'x' }],
    ['turn.suspended', { type: 'turn.suspended', state: 'input-required', reason: 'x', questions: [] }],
    ['turn.resumed', { type: 'turn.resumed' }],
  ])('is closed by %s', (_, record) => {
    const attempt = opened();
    attempt.accept(delta(text('x')));
    attempt.apply(stamped(record));
    expect(attempt.soFar()).toBeUndefined();
    expect(attempt.accept(delta(text('late')))).toBe(false);
  });

  it('stays open over the records of extensions', () => {
    const attempt = opened();
    attempt.accept(delta(text('a')));
    attempt.apply(stamped(note('x')));
    attempt.accept(delta(text('b')));
    expect(attempt.soFar()?.chunk).toEqual(text('ab'));
  });

  it('holds the text since the last void, begin or llm.start, whatever came before', () => {
    const step = fc.oneof(
      { weight: 8, arbitrary: fc.string({ maxLength: 3 }) },
      fc.constantFrom({ cut: 'void' }, { cut: 'begin' }, { cut: 'start' }),
    );
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        const attempt = opened();
        let expected = '';
        for (const each of steps) {
          if (typeof each === 'string') {
            attempt.accept(delta(text(each)));
            expected += each;
            continue;
          }
          expected = '';
          if (each.cut === 'start') attempt.apply(stamped(llmStart(1)));
          else attempt.accept(delta({ type: 'attempt', state: each.cut === 'void' ? 'void' : 'begin' }));
        }
        const soFar = attempt.soFar()?.chunk;
        expect(soFar).toEqual(expected === '' ? undefined : text(expected));
      }),
    );
  });
});
