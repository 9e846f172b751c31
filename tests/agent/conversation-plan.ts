import { Random, seedOf } from '../crash/random.ts';

/** A turn of a conversation of {@link planOf}. */
export interface PlannedTurn {
  readonly taskId: string;
  /** The word that it asks about; a turn that answers another one anew has that one's. */
  readonly word: string;
  /** The turn whose question it answers once more, in its place. */
  readonly again?: string;
  /** The turn that it follows: by default the one before it, `null` for the start. */
  readonly after?: string | null;
  /** Whether its model calls a tool before it answers. */
  readonly hasCall: boolean;
  /** The words that its model gets, its own included. */
  readonly words: readonly string[];
}

export const contextIds = ['c0', 'c1'];
const turnsOfContext = 8;

/** The turns of a context, one after the other: most continue it, some follow an earlier turn or answer it anew. The last one continues it. */
export function planOf(contextId: string, seed: number): readonly PlannedTurn[] {
  const random = new Random(seedOf(seed, contextId));
  const turns: PlannedTurn[] = [];
  /** What the turns before one said, by task id. */
  const before = (taskId: string | null | undefined) => turns.find((turn) => turn.taskId === taskId)?.words ?? [];
  for (let index = 0; index < turnsOfContext; index++) {
    const taskId = `${contextId}-${index}`;
    const last = turns.at(-1);
    const earlier = turns[random.int(0, Math.max(turns.length - 1, 0))];
    const hasCall = random.chance(0.4);
    const word = `w${contextId}-${index}`;
    const isLast = index === turnsOfContext - 1;
    const kind = earlier && !isLast ? random.pick(['next', 'next', 'next', 'after', 'again', 'start']) : 'next';
    if (kind === 'again' && earlier)
      turns.push({ taskId, word: earlier.word, again: earlier.taskId, hasCall, words: earlier.words });
    else if (kind === 'after' && earlier)
      turns.push({ taskId, word, after: earlier.taskId, hasCall, words: [...earlier.words, word] });
    else if (kind === 'start') turns.push({ taskId, word, after: null, hasCall, words: [word] });
    else turns.push({ taskId, word, hasCall, words: [...before(last?.taskId), word] });
  }
  return turns;
}

/** The words that are asked about in a text, each once, in their order. */
export function wordsIn(text: string): readonly string[] {
  return [...new Set(text.match(/\bw\w+-\d+/g))];
}

/** What the model answers: the words that it got, in another spelling, which it does not take for words. Long enough to be summarized. */
export function answerFor(words: readonly string[]): string {
  return `Seen: ${words.map((word) => word.slice(1)).join(' ')}${'.'.repeat(60)}`;
}
