import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { type Message, repairHistory, type ToolCall, type ToolMessage } from 'millrace';
import { missingResult } from 'millrace/internals';

const id = fc.constantFrom('a', 'b', 'c', 'd');
const call = id.map((callId): ToolCall => ({ id: callId, type: 'function', function: { name: 'f', arguments: '{}' } }));
const text = fc.constantFrom('one', 'two', '');

const message: fc.Arbitrary<Message> = fc.oneof(
  fc.record({ role: fc.constantFrom('user' as const, 'system' as const, 'developer' as const), content: text }),
  fc.record({ role: fc.constant('assistant' as const), content: text }),
  fc.record({
    role: fc.constant('assistant' as const),
    content: fc.constant(null),
    toolCalls: fc.array(call, { maxLength: 4 }),
  }),
  fc.record({ role: fc.constant('tool' as const), toolCallId: id, content: text }),
);
const history = fc.array(message, { maxLength: 14 });

/** An assistant message, or what stands before the first, with the results behind it up to the next one. */
interface Block {
  readonly calls: readonly string[];
  readonly results: readonly ToolMessage[];
}

function blocksOf(messages: readonly Message[]): readonly Block[] {
  const blocks: { calls: readonly string[]; results: ToolMessage[] }[] = [{ calls: [], results: [] }];
  for (const each of messages) {
    if (each.role === 'assistant') blocks.push({ calls: (each.toolCalls ?? []).map((one) => one.id), results: [] });
    else if (each.role === 'tool') blocks.at(-1)?.results.push(each);
  }
  return blocks;
}

const holds = (property: (messages: readonly Message[]) => void) =>
  fc.assert(fc.property(history, property), { numRuns: 500 });

describe('repairHistory of any messages', () => {
  it('gives every call exactly one result, right behind its message, in call order', () => {
    holds((messages) => {
      const repaired = repairHistory(messages);
      for (const [index, each] of repaired.entries()) {
        const calls = each.role === 'assistant' ? (each.toolCalls ?? []) : [];
        const behind = repaired.slice(index + 1, index + 1 + calls.length);
        expect(behind.map((result) => result.role === 'tool' && result.toolCallId)).toEqual(calls.map((one) => one.id));
      }
      const calls = repaired.flatMap((each) => (each.role === 'assistant' ? (each.toolCalls ?? []) : []));
      expect(repaired.filter(({ role }) => role === 'tool')).toHaveLength(calls.length);
    });
  });

  it('changes nothing when it is done again', () => {
    holds((messages) => {
      const repaired = repairHistory(messages);
      expect(repairHistory(repaired)).toEqual(repaired);
    });
  });

  it('keeps every other message as it is, in order', () => {
    holds((messages) => {
      const others = (all: readonly Message[]) => all.filter(({ role }) => role !== 'tool');
      const [kept, given] = [others(repairHistory(messages)), others(messages)];
      expect(kept).toHaveLength(given.length);
      for (const [index, each] of kept.entries()) expect(each).toBe(given[index]);
    });
  });

  it('keeps every result that a call before it asked for, the first ones where there are too many', () => {
    holds((messages) => {
      const repaired = blocksOf(repairHistory(messages));
      for (const [index, { calls, results }] of blocksOf(messages).entries()) {
        for (const callId of new Set(calls)) {
          const asked = calls.filter((each) => each === callId).length;
          const wanted = results.filter(({ toolCallId }) => toolCallId === callId).slice(0, asked);
          const kept = repaired[index]?.results.filter((each) => each.toolCallId === callId && results.includes(each));
          expect(kept).toEqual(wanted);
        }
      }
    });
  });

  it('makes up only what is missing, as an error that says so', () => {
    holds((messages) => {
      for (const each of repairHistory(messages)) {
        if (messages.includes(each)) continue;
        expect(each).toMatchObject({ role: 'tool', content: missingResult, status: 'error' });
      }
    });
  });
});
