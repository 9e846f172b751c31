import { describe, expect, it } from '@jest/globals';
import { applyRecord, type JournalRecord, type LoopState } from 'millrace';
import { PersistentArray } from 'millrace/internals';
import type { TurnRecord } from 'millrace/types';
import { startedState } from './operators/turn-deps.ts';

describe('PersistentArray', () => {
  it('keeps the elements of every version, whichever is read or changed first', () => {
    const first = new PersistentArray(['a', 'b', 'c']);
    const second = first.with(1, 'B');
    const third = second.with(0, 'A').with(1, 'x');
    const branch = first.with(2, 'C');
    const versions = [first, second, third, branch];
    const elements = versions.map(({ length, at }, which) =>
      Array.from({ length }, (_, index) => at.call(versions[which], index)).join(''),
    );
    expect(elements).toEqual(['abc', 'aBc', 'Axc', 'abC']);
    expect(versions.map(({ list }) => list.join(''))).toEqual(elements);
    expect(third.with(2, 'y').list.join('')).toBe('Axy');
    expect(third.list.join('')).toBe('Axc');
    expect(first.at(3)).toBeUndefined();
  });

  it('copies no element where the newest version is changed', () => {
    const many = 10_000;
    const elements = Array.from({ length: many }, (_, index) => index);
    let version = new PersistentArray(elements);
    for (let index = 0; index < many; index++) version = version.with(index, -index);
    expect(elements[many - 1]).toBe(1 - many);
    expect(version.at(many - 1)).toBe(1 - many);
  });
});

const copying = [
  'slice',
  'concat',
  'map',
  'filter',
  'flatMap',
  'flat',
  'with',
  'toSpliced',
  'toReversed',
  'toSorted',
] as const;
const iterating = ['values', 'entries', Symbol.iterator] as const;

type Method = (this: unknown[], ...given: never[]) => unknown;

/** How many elements of arrays `run` copied, or iterated over, as a spread and `Array.from` do. */
function copiedElements(run: () => void): number {
  const originals = new Map<PropertyKey, PropertyDescriptor>();
  let copied = 0;
  let isRunning = false;
  const count = (elements: number) => {
    if (isRunning) copied += elements;
  };
  const replace = (name: keyof typeof Array.prototype, counting: (own: Method) => Method) => {
    const own = Object.getOwnPropertyDescriptor(Array.prototype, name);
    // Node 20 has all of them.
    if (!own) throw new TypeError(`Arrays have no ${String(name)}.`);
    originals.set(name, own);
    Object.defineProperty(Array.prototype, name, { ...own, value: counting(own.value) });
  };
  for (const name of copying) {
    replace(
      name,
      (own) =>
        function (this: unknown[], ...given: unknown[]) {
          const copy: unknown[] = Reflect.apply(own, this, given);
          count(copy.length);
          return copy;
        },
    );
  }
  for (const name of iterating) {
    replace(
      name,
      (own) =>
        function* (this: unknown[]) {
          const elements = Reflect.apply(own, this, []) as IterableIterator<unknown>;
          for (let next = elements.next(); !next.done; next = elements.next()) {
            count(1);
            yield next.value;
          }
        },
    );
  }
  try {
    isRunning = true;
    run();
  } finally {
    isRunning = false;
    for (const [name, own] of originals) Object.defineProperty(Array.prototype, name, own);
  }
  return copied;
}

describe('the fold of an answer with 10,000 calls', () => {
  const many = 10_000;
  const toolCalls = Array.from({ length: many }, (_, index) => ({
    id: `call_${index}`,
    type: 'function' as const,
    function: { name: 'count', arguments: '{}' },
  }));
  const calls = toolCalls.map((call, index) => ({ callId: `1:${index}`, call }));
  const attempt = { iteration: 1, attempt: 1 };
  const message = { role: 'assistant', content: null, toolCalls } as const;
  const records: readonly TurnRecord[] = [
    { type: 'llm.start', ...attempt },
    { type: 'llm.done', ...attempt, message, calls, finishReason: 'tool_calls' },
    ...calls.flatMap(({ callId }): readonly TurnRecord[] => [
      { type: 'tool.intent', callId, attempt: 1, arguments: {} },
      { type: 'tool.result', callId, content: 'one', success: true, durationMs: 0 },
    ]),
  ];
  const stamped = records.map((record, index): JournalRecord => ({ ...record, seq: index + 2, epoch: 1, at: 0 }));

  it('W-12 copies at most 4 elements of arrays for each', () => {
    const states: LoopState[] = [startedState()];
    const copied = copiedElements(() => {
      for (let index = 0; index < stamped.length; index++) {
        states.push(applyRecord(states[index], stamped[index] as JournalRecord));
      }
    });
    expect(copied).toBeGreaterThanOrEqual(many);
    expect(copied).toBeLessThanOrEqual(4 * many);
    expect(states.at(-1)).toMatchObject({ phase: 'closed', toolCalls: many });
    expect(states[many]?.pendingToolCalls.filter(({ result }) => result)).toHaveLength((many - 2) / 2);
  });

  it('counts what a spread, a slice and Array.from copy', () => {
    const list = [1, 2, 3];
    expect(copiedElements(() => [...list])).toBe(3);
    expect(copiedElements(() => list.slice(1))).toBe(2);
    expect(copiedElements(() => Array.from(list))).toBe(3);
  });
});
