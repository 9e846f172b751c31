import type { TokenCounter } from '../../core/count-tokens.ts';
import { headAndTail } from './head-and-tail.ts';

/** A text of at most about so many tokens: its beginning and its end, where it has more. */
export function fitTokens(text: string, maxTokens: number, countTokens: TokenCounter): string {
  const tokens = countTokens(text);
  return tokens <= maxTokens ? text : fitChars(text, Math.floor((text.length * maxTokens) / tokens));
}

/** A text of at most so many characters: its beginning and its end, where it has more. */
export function fitChars(text: string, maxChars: number): string {
  if (text.length <= maxChars) return text;
  return headAndTail(text, maxChars, (leftOut) => `[… ${leftOut} characters left out …]`);
}
