import { describe, expect, it } from '@jest/globals';
import { foldRecords, type JournalRecord } from 'millrace';
import { CommandIds } from 'millrace/internals';
import { fakeClock } from 'millrace/testing';
import { startedRecord } from './dead-turn.ts';

/** How many elements the iterators of arrays and maps give while that runs. */
function elementsRead(run: () => void): number {
  const iterators = [[][Symbol.iterator](), new Map()[Symbol.iterator]()].map((each) => Object.getPrototypeOf(each));
  const originals = iterators.map(({ next }) => next);
  let count = 0;
  iterators.forEach((iterator, index) => {
    iterator.next = function next(this: unknown) {
      count++;
      return originals[index].call(this);
    };
  });
  try {
    run();
  } finally {
    iterators.forEach((iterator, index) => {
      iterator.next = originals[index];
    });
  }
  return count;
}

describe('the commands that a turn has followed', () => {
  it('cost the same for each one, however many there were', () => {
    const clock = fakeClock();
    const messages = 2_000;
    const records: JournalRecord[] = [startedRecord(clock)];
    for (let index = 0; index < messages; index++)
      records.push({ type: 'x.steer', command: `c${index}`, seq: index + 2, epoch: 1, at: clock.now() });
    let count = 0;
    const read = elementsRead(() => {
      count = foldRecords(records).commands.length;
    });
    expect(count).toBe(messages);
    expect(read).toBeLessThan(20 * messages);
  });

  it('are those of their version, also where an older one is appended to', () => {
    const one = CommandIds.none.append('a');
    const two = one.append('b');
    const other = one.append('c');
    const first = CommandIds.none.append('z');
    const seen = [CommandIds.none, one, two, other, first].map((ids) =>
      ['a', 'b', 'c', 'z'].filter((id) => ids.has(id)),
    );
    expect(seen).toEqual([[], ['a'], ['a', 'b'], ['a', 'c'], ['z']]);
    expect([one.some((id) => id === 'b'), two.some((id) => id === 'b')]).toEqual([false, true]);
    expect([two.append('a'), two.append('b')]).toEqual([two, two]);
    expect([one.length, two.length, other.length]).toEqual([1, 2, 2]);
  });
});
