import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { type AssistantMessage, estimateTokens, type Message, repairHistory } from 'millrace';
import { cutHistory, type HistoryLimits, isInstruction } from 'millrace/internals';
import { anyHistory, cleanHistory } from './random-history.ts';

const limits: fc.Arbitrary<HistoryLimits> = fc.oneof(
  fc.record({ maxMessages: fc.integer({ min: 1, max: 12 }) }),
  fc.record({ maxTokens: fc.integer({ min: 1, max: 160 }) }),
  fc.record({ maxMessages: fc.integer({ min: 1, max: 12 }), maxTokens: fc.integer({ min: 1, max: 160 }) }),
);

const holds = (
  histories: fc.Arbitrary<readonly Message[]>,
  property: (messages: readonly Message[], limits: HistoryLimits) => void,
) => fc.assert(fc.property(histories, limits, property), { numRuns: 500 });

const tokensOf = (messages: readonly Message[]) => messages.reduce((sum, each) => sum + estimateTokens(each), 0);

/** The first instruction, and all else. */
function parted(messages: readonly Message[]) {
  const first = messages.find(isInstruction);
  return { instruction: first === undefined ? [] : [first], others: messages.filter((each) => each !== first) };
}

function isWithin(messages: readonly Message[], { maxMessages = Infinity, maxTokens = Infinity }: HistoryLimits) {
  return parted(messages).others.length <= maxMessages && tokensOf(messages) <= maxTokens;
}

/** Calls without results and results without calls, but for the calls of a last batch. */
function looseEnds(messages: readonly Message[]): readonly string[] {
  const loose: string[] = [];
  let open: string[] = [];
  for (const [index, each] of messages.entries()) {
    if (each.role === 'tool') {
      if (!open.includes(each.toolCallId)) loose.push(`result ${index}`);
      open = open.toSpliced(open.indexOf(each.toolCallId), 1);
    } else {
      loose.push(...open.map((id) => `call ${id} before ${index}`));
      open = each.role === 'assistant' ? (each.toolCalls ?? []).map(({ id }) => id) : [];
    }
  }
  return loose;
}

describe('cutHistory', () => {
  it('leaves no result without its call and no call without its result, but for a pending last batch', () => {
    holds(anyHistory, (messages, each) => expect(looseEnds(cutHistory(messages, each).messages)).toEqual([]));
  });

  it('keeps to the limits, unless the newest message and what belongs to it is more', () => {
    holds(anyHistory, (messages, each) => {
      const cut = cutHistory(messages, each);
      expect(cut.fits).toBe(isWithin(cut.messages, each));
      if (cut.fits) return;
      const starts = parted(cut.messages).others.filter(({ role }) => role !== 'tool');
      expect(starts.length).toBeLessThanOrEqual(1);
    });
  });

  it('keeps the longest end: one more batch or message would be too much', () => {
    holds(cleanHistory, (messages, each) => {
      const cut = cutHistory(messages, each);
      const { instruction, others } = parted(cut.messages);
      const { others: removed } = parted(cut.removed);
      if (!cut.fits || removed.length === 0) return;
      const last = removed.findLastIndex(({ role }) => role !== 'tool');
      expect(isWithin([...instruction, ...removed.slice(last), ...others], each)).toBe(false);
    });
  });

  it('gives an end of the history itself, with the rest as removed', () => {
    holds(cleanHistory, (messages, each) => {
      const cut = cutHistory(messages, each);
      const { instruction, others } = parted(messages);
      const parts = [...instruction, ...cut.removed, ...parted(cut.messages).others];
      expect(parts).toHaveLength(messages.length);
      for (const [index, part] of parts.entries()) expect(part).toBe([...instruction, ...others][index]);
    });
  });

  it('keeps the first instruction, wherever it stands', () => {
    holds(anyHistory, (messages, each) => {
      const first = messages.find(isInstruction);
      expect(cutHistory(messages, each).messages.find(isInstruction)).toBe(first);
    });
  });

  it('is the repaired history where nothing limits it and nothing is pending', () => {
    fc.assert(
      fc.property(anyHistory, (messages) => {
        const closed = [...messages, { role: 'user' as const, content: 'So?' }];
        expect(cutHistory(closed, {})).toEqual({ messages: repairHistory(closed), removed: [], fits: true });
      }),
    );
  });

  const ask = (...ids: readonly string[]): AssistantMessage => ({
    role: 'assistant',
    content: null,
    toolCalls: ids.map((id) => ({ id, type: 'function', function: { name: 'look', arguments: '{}' } })),
  });
  const found = (id: string): Message => ({ role: 'tool', toolCallId: id, content: 'found' });
  const user: Message = { role: 'user', content: 'Go on.' };

  it('leaves pending calls at the end as they are', () => {
    const pending = [user, ask('a', 'b'), found('b')];
    expect(cutHistory(pending, { maxMessages: 2 }).messages).toEqual([ask('a', 'b'), found('b')]);
    expect(cutHistory([user, ask('a')], { maxMessages: 9 }).messages).toEqual([user, ask('a')]);
  });

  it('puts the results of a last batch in call order once all are there', () => {
    const batch = [ask('a', 'b'), found('b'), found('a')];
    expect(cutHistory(batch, {}).messages).toEqual([ask('a', 'b'), found('a'), found('b')]);
  });

  it('drops results that a pending batch did not ask for', () => {
    expect(cutHistory([ask('a', 'b'), found('b'), found('c'), found('b')], {}).messages).toEqual([
      ask('a', 'b'),
      found('b'),
    ]);
  });

  it('keeps the newest batch even where it alone is over the limit, and says so', () => {
    const batch = [ask('a', 'b', 'c'), found('a'), found('b'), found('c')];
    expect(cutHistory([user, ...batch], { maxMessages: 3 })).toEqual({ messages: batch, removed: [user], fits: false });
  });

  it('asks for the tokens of each message once at most, and of none beyond the limit', () => {
    const messages = Array.from({ length: 1_000 }, (_, index): Message => ({ role: 'user', content: `${index}` }));
    const asked: unknown[] = [];
    const countTokens = (message: unknown) => {
      asked.push(message);
      return 10;
    };
    expect(cutHistory(messages, { maxTokens: 95, countTokens }).messages).toHaveLength(9);
    expect(asked).toHaveLength(10);
    expect(new Set(asked).size).toBe(10);
  });
});
