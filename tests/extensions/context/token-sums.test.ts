import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { compactHistory, type Extension, isCompactionEvent, type Message, textOf } from 'millrace';
import { AgentLoop, isInstruction } from 'millrace/internals';
import { scriptedLLM } from 'millrace/testing';
import { turnBench } from '../../core/turn-bench.ts';
import { watch } from '../../core/watch-events.ts';

const bench = turnBench();

/** A token for each character; the names of what was counted are noted. */
function counter() {
  const counted: string[] = [];
  const countTokens = (what: string | Message) => {
    const text = typeof what === 'string' ? what : textOf(what.content);
    counted.push(text);
    return text.length;
  };
  return { counted, countTokens };
}

const say = (text: string): Message => ({ role: 'user', content: text });

type Change =
  | { readonly kind: 'append' | 'instruct'; readonly length: number }
  | { readonly kind: 'replace' | 'remove' | 'edit'; readonly at: number; readonly length: number }
  | { readonly kind: 'summarize'; readonly count: number }
  | { readonly kind: 'restart' };

const length = fc.integer({ min: 1, max: 60 });
const at = fc.nat(30);
const change: fc.Arbitrary<Change> = fc.oneof(
  fc.record({ kind: fc.constantFrom('append', 'append', 'instruct'), length }),
  fc.record({ kind: fc.constantFrom('replace', 'remove', 'edit'), at, length }),
  fc.record({ kind: fc.constant('summarize'), count: fc.integer({ min: 1, max: 5 }) }),
  fc.record({ kind: fc.constant('restart') }),
);

const summary = (upTo: number): Message => ({ role: 'user', content: 'Sum', metadata: { compactedUpTo: upTo } });

function changed(list: readonly Message[], next: Change): readonly Message[] {
  switch (next.kind) {
    case 'append':
      return [...list, say('a'.repeat(next.length))];
    case 'instruct':
      return [...list, { role: 'system', content: 'i'.repeat(next.length) }];
    case 'replace':
      return list.map((message, index) => (index === next.at ? say('r'.repeat(next.length)) : message));
    case 'remove':
      return list.filter((_, index) => index !== next.at);
    case 'summarize':
      return next.count < list.length ? [summary(next.count), ...list.slice(next.count)] : list;
    default:
      return list;
  }
}

const isSummary = ({ metadata }: Message) => metadata?.['compactedUpTo'] !== undefined;
const endlessly = (text: string, model?: string) =>
  scriptedLLM(
    Array.from({ length: 100 }, () => ({ text })),
    model ? { info: { model } } : {},
  );

interface Size {
  /** At which the turn compacted its history, if it did. */
  readonly seen: number | undefined;
  /** As counted here. */
  readonly is: number;
  /** The number of messages that a summary can replace. */
  readonly old: number;
}

/** Turns with lists that share messages. */
async function turnsOf(changes: readonly Change[], limit: number): Promise<readonly Size[]> {
  const { countTokens } = counter();
  const sizes: Size[] = [];
  let list: readonly Message[] = [say('Hello')];
  let edit: Extract<Change, { readonly at: number }> | undefined;
  let is = 0;
  let old = 0;
  const editing: Extension = {
    name: 'editing',
    prepareIteration({ messages, systemPrompt }) {
      const edited = messages.map((each, index) => (index === edit?.at ? say('e'.repeat(edit.length)) : each));
      const overhead = systemPrompt === undefined ? 0 : 4 + systemPrompt.length;
      is = edited.reduce((sum, message) => sum + textOf(message.content).length, overhead);
      old = edited.slice(0, -1).filter((each) => !isSummary(each)).length;
      return { view: { messages: edited } };
    },
  };
  const make = () => {
    const provider = endlessly('S', 'gpt-4o');
    const compaction = compactHistory({ contextWindow: limit, threshold: 1, keepLast: 1, provider, countTokens });
    return new AgentLoop({ agentId: 'a', llmProvider: endlessly('Done.'), extensions: [editing, compaction] });
  };
  let loop = make();
  for (const next of changes) {
    if (next.kind === 'restart') loop = make();
    edit = next.kind === 'edit' ? next : undefined;
    list = changed(list, next);
    if (list.every(isInstruction)) list = [...list, say('Hello')];
    const watcher = watch(loop.startTurn(list));
    await watcher.ended;
    const seen = watcher.events.find(isCompactionEvent)?.payload.tokensBefore;
    sizes.push({ seen, is, old });
  }
  return sizes;
}

describe('the sum of the tokens of a conversation', () => {
  it('C-07 agrees with a count of its messages, whatever was appended, edited, removed or summarized between turns', async () => {
    let compactions = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(change, { minLength: 5, maxLength: 20 }), async (changes) => {
        const limit = 40;
        for (const { seen, is, old } of await turnsOf(changes, limit)) {
          expect(seen).toBe(is > limit && old >= 2 ? is : undefined);
          if (seen !== undefined) compactions++;
        }
      }),
      { numRuns: 100 },
    );
    expect(compactions).toBeGreaterThan(100);
  });

  it('C-07 is made by counting what is new', async () => {
    const { counted, countTokens } = counter();
    const loop = new AgentLoop(
      bench.config(bench.model([{ text: 'Done.' }, { text: 'Done.' }]), {
        extensions: [compactHistory({ contextWindow: 1_000_000, countTokens })],
      }),
    );
    const before = Array.from({ length: 100 }, (_, index) => say(`Message ${index}.`));
    await loop.startTurn(before).result();
    counted.length = 0;
    await loop.startTurn([...before, say('One more.')]).result();
    expect(counted).toEqual(['One more.']);
  });
});
