import type { Content, ContentPart, Message } from '../contracts/messages.ts';
import { textTokens } from './text-tokens.ts';

/** The number of tokens of a string or a message. Synchronous; an integer ≥ 0. */
export type TokenCounter = (what: string | Message) => number;

/** What a chat message costs beside its content: its role and its separators. */
const messageOverhead = 4;
const callOverhead = 8;
const imageTokens = { low: 85, high: 1_100, auto: 1_100 };
/** For a file whose content is not in the message. */
const unseenFileTokens = 1_000;

/**
 * Estimates tokens by characters, for any model: a quarter of a token for each ASCII character, a half for the other
 * characters of alphabets (Latin, Greek, Cyrillic, Arabic, …), a whole one from U+2E80 on (Chinese, Japanese, Korean,
 * each half of an emoji). See {@link tokenCounter} for what a message adds.
 */
export const estimateTokens: TokenCounter = tokenCounter(textTokens);

/**
 * Makes a counter of texts into one of messages as well. A message counts its text, its calls, its reasoning, 4 for
 * itself and 8 for each call; an image counts 1,100 (85 with `detail: 'low'`), a file a quarter of a token for each byte,
 * 1,000 where only its id is there.
 *
 * Each message object is counted once and remembered for as long as it lives, so counting a growing history again and
 * again stays linear. Messages must not be changed after they were counted.
 */
export function tokenCounter(countText: (text: string) => number): TokenCounter {
  const counted = new WeakMap<Message, number>();
  return (what) => {
    if (typeof what === 'string') return countText(what);
    const known = counted.get(what);
    if (known !== undefined) return known;
    const count = messageTokens(what, countText);
    counted.set(what, count);
    return count;
  };
}

function messageTokens(message: Message, countText: (text: string) => number): number {
  let count = messageOverhead + contentTokens(message.content, countText);
  if (message.role !== 'assistant') return count;
  if (message.reasoning !== undefined) count += countText(message.reasoning);
  for (const call of message.toolCalls ?? []) {
    count += callOverhead + countText(call.function.name) + countText(call.function.arguments);
  }
  return count;
}

function contentTokens(content: Content | null, countText: (text: string) => number): number {
  if (content === null) return 0;
  if (typeof content === 'string') return countText(content);
  return content.reduce((count, part) => count + partTokens(part, countText), 0);
}

function partTokens(part: ContentPart, countText: (text: string) => number): number {
  if (part.type === 'text') return countText(part.text);
  if (part.type === 'image_url') return imageTokens[part.image_url.detail ?? 'auto'];
  const base64 = part.file.file_data;
  return base64 === undefined ? unseenFileTokens : Math.ceil((base64.length * 3) / 16);
}
