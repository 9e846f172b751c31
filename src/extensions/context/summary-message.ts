import type { Message, UserMessage } from '../../core/messages.ts';
import { textOf } from '../../core/messages.ts';

/** A summary, and what of a history it stands for. Plain JSON. */
export interface Compaction {
  /** How many messages it stands for, counted from the start of the history, instructions among them included. */
  readonly upTo: number;
  readonly summary: string;
}

export function isCompaction(value: unknown): value is Compaction {
  if (typeof value !== 'object' || value === null || !('upTo' in value) || !('summary' in value)) return false;
  return Number.isSafeInteger(value.upTo) && typeof value.summary === 'string';
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
