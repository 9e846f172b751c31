import { type Message, textOf, type UserMessage } from '../../core/contracts/index.ts';
import { type History, isInstruction } from '../../core/journal/index.ts';
import type { TokenCounter } from '../../core/model-call/index.ts';
import { cutHistory } from './cut-history.ts';

/** A summary, and what of a history it stands for. Plain JSON. */
export interface Compaction {
  /** How many messages it stands for, counted from the start of the history, instructions among them included. */
  readonly upTo: number;
  /** What takes the place of the messages that it sums up. */
  readonly summary: string;
}

/** The member of a turn's `data`, and of a context's metadata, that holds the compaction. */
export const compactionName = 'compaction';

export function isCompaction(value: unknown): value is Compaction {
  if (typeof value !== 'object' || value === null || !('upTo' in value) || !('summary' in value)) return false;
  return Number.isSafeInteger(value.upTo) && typeof value.summary === 'string';
}

/** Where the messages behind what a compaction stands for begin in a view of the history; -1 where it has not the first of them. */
export function indexAfterCompaction(view: readonly Message[], history: History, { upTo }: Compaction): number {
  const first = history.at(upTo);
  if (!first) return -1;
  const at = view.lastIndexOf(first, upTo);
  // Results that the history lacks make the view longer.
  return at < 0 ? view.indexOf(first, upTo) : at;
}

/** The member of `metadata` that marks a summary: the number of messages that it stands for. */
const compactedUpTo = 'compactedUpTo';

const preface = 'Summary of the conversation so far; the messages themselves are left out here:';

const made = new WeakMap<Compaction, UserMessage>();

/** What the model reads in place of the messages. The same object for the same compaction. */
export function summaryMessage(compaction: Compaction): UserMessage {
  const { upTo, summary } = compaction;
  const message = made.get(compaction) ?? {
    role: 'user',
    content: `${preface}\n\n${summary}`,
    metadata: { [compactedUpTo]: upTo },
  };
  made.set(compaction, message);
  return message;
}

/** How many messages a summary stands for; undefined where the message is none. */
export function summarizedUpTo(message: Message | undefined): number | undefined {
  const upTo = message?.role === 'user' ? message.metadata?.[compactedUpTo] : undefined;
  return typeof upTo === 'number' ? upTo : undefined;
}

export function isSummary(message: Message | undefined): message is UserMessage {
  return summarizedUpTo(message) !== undefined;
}

/** The text of a summary, without what stands in front of it for the model. */
export function summaryOf(message: UserMessage): string {
  const text = textOf(message.content);
  return text.startsWith(preface) ? text.slice(preface.length).trim() : text;
}

/** What a model sees of a history without its instructions: the summary, and the messages behind what it stands for. */
export class VisibleHistory {
  readonly messages: readonly Message[];
  /** The index in the history of each message after the summary. */
  readonly #places: readonly number[];

  constructor(history: readonly Message[], compaction: Compaction | undefined) {
    const upTo = compaction?.upTo ?? 0;
    const places: number[] = [];
    const rest: Message[] = [];
    for (const [place, message] of history.entries()) {
      if (place < upTo || isInstruction(message)) continue;
      places.push(place);
      rest.push(message);
    }
    this.#places = places;
    this.messages = compaction ? [summaryMessage(compaction), ...rest] : rest;
  }

  /** How many messages of the history stand in front of the one at that index here. */
  countBefore(index: number): number {
    return this.#places[index - (this.messages.length - this.#places.length)] ?? 0;
  }
}

interface KeptPart {
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
