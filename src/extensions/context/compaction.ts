import { type Message, textOf, type UserMessage } from '../../core/contracts/index.ts';
import { type History, isInstruction } from '../../core/journal/index.ts';
import type { TokenCounter } from '../../core/model-call/index.ts';
import { cutHistory } from './cut-history.ts';

/** A summary, and the part of a history that it replaces. Plain JSON. */
export interface Compaction {
  /** The number of replaced messages, from the start of the history, including instructions. */
  readonly upTo: number;
  /** In the metadata of a context with branches: the place of the last replaced message in the context. */
  readonly last?: number;
  /** Replaces the summarized messages. Empty if `upTo` is 0: then no message is replaced. */
  readonly summary: string;
  /** The context window that a refused request showed, in tokens. */
  readonly window?: number;
  /** The maximum length of the text of each message in requests, if one message alone was too long. Characters. */
  readonly maxChars?: number;
}

/** The member of a turn's `data`, and of a context's metadata, with the compaction. */
export const compactionName = 'compaction';

export function isCompaction(value: unknown): value is Compaction {
  if (typeof value !== 'object' || value === null || !('upTo' in value) || !('summary' in value)) return false;
  return Number.isSafeInteger(value.upTo) && typeof value.summary === 'string';
}

/** Whether a compaction replaces messages; else it only shortens them. */
export function hasSummary({ upTo }: Compaction): boolean {
  return upTo > 0;
}

/** The index of the first message after a compaction in a view of the history; -1 if the view does not contain it. */
export function indexAfterCompaction(view: readonly Message[], history: History, { upTo }: Compaction): number {
  const first = history.at(upTo);
  if (!first) return -1;
  const at = view.lastIndexOf(first, upTo);
  // A repair may add results that the history lacks, and so make the view longer.
  return at < 0 ? view.indexOf(first, upTo) : at;
}

/** The member of `metadata` that marks a summary: the number of replaced messages. */
const compactedUpTo = 'compactedUpTo';

const preface = 'Summary of the conversation so far; the messages themselves are left out here:';

const made = new WeakMap<Compaction, UserMessage>();

/** The message with the summary. The same object for the same compaction. */
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

/** The number of messages that a summary replaces; `undefined` if the message is not a summary. */
export function summarizedUpTo(message: Message | undefined): number | undefined {
  const upTo = message?.role === 'user' ? message.metadata?.[compactedUpTo] : undefined;
  return typeof upTo === 'number' ? upTo : undefined;
}

export function isSummary(message: Message | undefined): message is UserMessage {
  return summarizedUpTo(message) !== undefined;
}

/** The text of a summary, without its preface. */
export function summaryOf(message: UserMessage): string {
  const text = textOf(message.content);
  return text.startsWith(preface) ? text.slice(preface.length).trim() : text;
}

/** The part of a history that a model receives, without its instructions: the summary, and the messages after the replaced ones. */
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
    this.messages = compaction && hasSummary(compaction) ? [summaryMessage(compaction), ...rest] : rest;
  }

  /** The number of messages of the history before the one at that index here. */
  countBefore(index: number): number {
    return this.#places[index - (this.messages.length - this.#places.length)] ?? 0;
  }
}

interface KeptPart {
  readonly maxMessages: number;
  readonly maxTokens: number;
  readonly countTokens: TokenCounter;
}

/** The index of the first kept message. A call and its results are never separated there. */
export function keptFrom(messages: readonly Message[], limits: KeptPart): number {
  const kept = cutHistory(messages, limits).messages;
  // A repair adds and drops results only, so the number of other messages determines the index.
  let left = kept.filter(({ role }) => role !== 'tool').length;
  let from = messages.length;
  while (left > 0 && from > 0) {
    from -= 1;
    if (messages[from]?.role !== 'tool') left -= 1;
  }
  return from;
}
