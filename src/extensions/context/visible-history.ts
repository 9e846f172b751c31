import type { Message } from '../../core/contracts/index.ts';
import { isInstruction } from '../../core/journal/index.ts';
import type { TokenCounter } from '../../core/model-call/index.ts';
import { cutHistory } from './cut-history.ts';
import { type Compaction, summaryMessage } from './summary-message.ts';

/** What a model sees of a history without its instructions: the summary, and the messages behind what it stands for. */
export class VisibleHistory {
  readonly messages: readonly Message[];
  /** The index in the history of each message after the summary. */
  readonly #places: readonly number[];

  constructor(history: readonly Message[], compaction: Compaction | undefined) {
    const upTo = compaction?.upTo ?? 0;
    const places: number[] = [];
    const behind: Message[] = [];
    for (const [place, message] of history.entries()) {
      if (place < upTo || isInstruction(message)) continue;
      places.push(place);
      behind.push(message);
    }
    this.#places = places;
    this.messages = compaction ? [summaryMessage(compaction), ...behind] : behind;
  }

  /** How many messages of the history stand in front of the one at that index here. */
  countBefore(index: number): number {
    return this.#places[index - (this.messages.length - this.#places.length)] ?? 0;
  }
}

export interface KeptPart {
  readonly maxMessages: number;
  readonly maxTokens: number;
  readonly countTokens: TokenCounter;
}

/** Where the newest messages begin that are not summed up. No call is torn from its results there. */
export function keptFrom(messages: readonly Message[], limits: KeptPart): number {
  const kept = cutHistory(messages, limits).messages;
  // A repair of the cutter adds and drops results only, so what is no result tells where the part begins.
  let left = kept.filter(({ role }) => role !== 'tool').length;
  let from = messages.length;
  while (left > 0 && from > 0) {
    from -= 1;
    if (messages[from]?.role !== 'tool') left -= 1;
  }
  return from;
}
