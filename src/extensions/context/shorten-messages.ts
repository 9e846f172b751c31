import { type Content, type ContentPart, type Message, textOf } from '../../core/contracts/index.ts';
import { estimateTokens, type TokenCounter } from '../../core/model-call/index.ts';
import { headAndTail } from './trim-tool-outputs.ts';

/** Shorter texts are not worth sending. */
const leastChars = 200;

/** By message: its last short form, which is the same object while the limit is. */
const shortForms = new WeakMap<Message, { readonly maxChars: number; readonly message: Message }>();

/**
 * The messages with the text of each but the latest question truncated to its beginning and its end. A truncated message loses its pictures and files. Calls of tools stay
 * whole. All other messages are the same objects; if nothing is truncated, so is the array.
 */
export function shortenMessages(messages: readonly Message[], maxChars: number): readonly Message[] {
  const question = questionIn(messages);
  const isCut = (message: Message): boolean => message !== question && isLonger(message, maxChars);
  return messages.some(isCut)
    ? messages.map((message) => (isCut(message) ? shortForm(message, maxChars) : message))
    : messages;
}

/** The latest question stays whole: a part of it is another question. */
function questionIn(messages: readonly Message[]): Message | undefined {
  return messages.findLast(({ role }) => role === 'user');
}

/**
 * The largest `maxChars` with which the messages have at most so many tokens; `undefined` if even the smallest useful one leaves more.
 * Halves the limit until the messages fit.
 */
export function fittingMaxChars(
  messages: readonly Message[],
  { maxTokens, countTokens }: { readonly maxTokens: number; readonly countTokens: TokenCounter },
): number | undefined {
  const question = questionIn(messages);
  const others = messages.filter((message) => message !== question);
  const whole = question === undefined ? 0 : countTokens(question);
  const sizeAt = (maxChars: number) =>
    others.reduce((sum, message) => sum + sizeOf(message, { maxChars, countTokens }), whole);
  const longest = others.reduce((most, message) => Math.max(most, charsOf(message)), 0);
  for (let maxChars = Math.ceil(longest / 2); maxChars >= leastChars; maxChars = Math.floor(maxChars / 2)) {
    if (sizeAt(maxChars) <= maxTokens) return maxChars;
  }
  return sizeAt(leastChars) <= maxTokens ? leastChars : undefined;
}

function sizeOf(
  message: Message,
  { maxChars, countTokens }: { readonly maxChars: number; readonly countTokens: TokenCounter },
): number {
  if (!isLonger(message, maxChars)) return countTokens(message);
  const chars = Math.max(charsOf(message), 1);
  return Math.ceil((countTokens(message) * Math.min(maxChars, chars)) / chars);
}

function isLonger(message: Message, maxChars: number): boolean {
  return charsOf(message) > maxChars;
}

const lengths = new WeakMap<Message, number>();

/** The length of its text; a picture or a file counts four characters for each token. */
function charsOf(message: Message): number {
  const { content } = message;
  if (content === null || typeof content === 'string') return content?.length ?? 0;
  const known = lengths.get(message) ?? content.reduce((sum, part) => sum + charsOfPart(part), 0);
  lengths.set(message, known);
  return known;
}

function charsOfPart(part: ContentPart): number {
  return part.type === 'text' ? part.text.length : 4 * estimateTokens({ role: 'user', content: [part] });
}

function shortForm(message: Message, maxChars: number): Message {
  const known = shortForms.get(message);
  if (known?.maxChars === maxChars) return known.message;
  const short = { ...message, content: shortContent(message.content, maxChars) } as Message;
  shortForms.set(message, { maxChars, message: short });
  return short;
}

/** The beginning and the end of a content's text, at most `maxChars` characters, with a note of what is left out. */
export function shortContent(content: Content | null, maxChars: number): string {
  const attachments = content === null || typeof content === 'string' ? 0 : content.filter(isAttachment).length;
  const text = textOf(content);
  const more = attachments === 0 ? '' : ` and ${attachments} ${attachments === 1 ? 'attachment' : 'attachments'}`;
  return headAndTail(text, maxChars, (leftOut) => `[… ${leftOut} characters${more} left out …]`);
}

/** The beginning and the end of a string, at most `maxChars` characters, with a note of what is left out; a string that fits is unchanged. */
export function fittingText(text: string, maxChars: number): string {
  if (text.length <= maxChars) return text;
  return headAndTail(text, maxChars, (leftOut) => `[… ${leftOut} characters left out …]`);
}

function isAttachment({ type }: ContentPart): boolean {
  return type !== 'text';
}
