import type { TokenCounter } from '../../core/model-call/index.ts';
import { headAndTail } from './head-and-tail.ts';

/** Truncates a string to about so many tokens, keeping its beginning and its end. */
export function fitTokens(text: string, maxTokens: number, countTokens: TokenCounter): string {
  const tokens = countTokens(text);
  return tokens <= maxTokens ? text : fitChars(text, Math.floor((text.length * maxTokens) / tokens));
}

/** Truncates a string to so many characters, keeping its beginning and its end. */
export function fitChars(text: string, maxChars: number): string {
  if (text.length <= maxChars) return text;
  return headAndTail(text, maxChars, (leftOut) => `[… ${leftOut} characters left out …]`);
}
