import {
  addUsage,
  type Content,
  type ContentPart,
  type LLMCallParams,
  type LLMResponse,
  type Message,
  noUsage,
  type ToolDefinition,
  type Usage,
} from '../contracts/index.ts';
import { fileTokens, imageTokens } from './attachment-tokens.ts';

/** The sum of the reported usage of one call's requests without an answer. */
export class ReportedUsage {
  #sum: Usage | undefined;

  /** Ignores invalid usage: a broken report must not fail the call. */
  add(usage: Usage): void {
    if (isUsage(usage)) this.#sum = addUsage(this.#sum ?? noUsage, usage);
  }

  /** `undefined` if the provider reported nothing. */
  get sum(): Usage | undefined {
    return this.#sum;
  }

  /** Adds the sum to the answer as `discarded`, unless the answer has its own. */
  answered(response: LLMResponse): LLMResponse {
    if (this.#sum === undefined || this.#sum.totalTokens === 0 || response.usage?.discarded) return response;
    return { ...response, usage: { ...(response.usage ?? noUsage), discarded: this.#sum } };
  }
}

const counts = ['promptTokens', 'completionTokens', 'totalTokens'] as const;
const parts = ['cachedTokens', 'cacheWriteTokens', 'reasoningTokens', 'cost'] as const;

/** Whether a value from outside is a valid usage. */
export function isUsage(usage: Usage | undefined | null): boolean {
  if (typeof usage !== 'object' || usage === null) return false;
  return counts.every((name) => isCount(usage[name])) && parts.every((name) => isCount(usage[name] ?? 0));
}

function isCount(value: number): boolean {
  return Number.isFinite(value) && value >= 0;
}

/** Each tool is estimated once, as each message is: a history grows by a few messages a call. */
const measured = new WeakMap<ToolDefinition, number>();

/** Estimates the tokens of a request's messages and tools, by the rule of `estimateTokens`. */
export function estimatePromptTokens({ messages, tools = [] }: LLMCallParams): number {
  let tokens = 0;
  for (const message of messages) tokens += estimateTokens(message);
  for (const tool of tools) tokens += toolTokens(tool);
  return tokens;
}

function toolTokens(tool: ToolDefinition): number {
  const known = measured.get(tool);
  if (known !== undefined) return known;
  const tokens = estimateTokens(JSON.stringify(tool.function));
  measured.set(tool, tokens);
  return tokens;
}

/** The number of tokens of a string or a message. Synchronous; an integer ≥ 0. */
export type TokenCounter = (what: string | Message) => number;

/** The tokens of a chat message beside its content: its role and its separators. */
const messageOverhead = 4;
const callOverhead = 8;

/**
 * Estimates tokens by characters, for any model: a quarter of a token for each ASCII character, a half for the other
 * characters of alphabets (Latin, Greek, Cyrillic, Arabic, …), a whole one from U+2E80 on (Chinese, Japanese, Korean,
 * each half of an emoji). A message adds its calls, its reasoning, 4 for itself and 8 for each call. Attachments count as vendors count them: an
 * image by its tiles of 512 pixels, 85 with `detail: 'low'`, 1,100 if its size is unknown; a PDF 1,500 for each page; audio 32 for each second,
 * video 300; a text file by its text; any other file a quarter of a token for each byte, 1,000 if only its id is present. The count of a message is
 * cached for the lifetime of the message, so it must not be changed afterwards.
 */
export const estimateTokens: TokenCounter = tokenCounter(textTokens);

/** Extends a counter of strings to messages, by the rule of `estimateTokens`, with a cache: repeated counts of a growing history stay linear. */
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
  return part.type === 'image_url' ? imageTokens(part) : fileTokens(part, countText);
}

/** Estimates the tokens of a string by its characters; see `estimateTokens` for the rule. Rounds up. Linear. */
function textTokens(text: string): number {
  return Math.ceil(quartersOf(text) / 4);
}

/** Tokens times four. Of a string in pieces it is the sum of the pieces. */
export function quartersOf(text: string): number {
  let quarters = 0;
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index);
    quarters += unit < 0x80 ? 1 : unit < 0x2e80 ? 2 : 4;
  }
  return quarters;
}
