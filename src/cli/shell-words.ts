import { AgentLoopError } from '../core/contracts/index.ts';

/**
 * The words of a command, quotes and backslashes as a shell has them, and nothing else of a shell: no variables, no pipes. Throws
 * `INVALID_CONFIG` for a quote without an end.
 */
export function shellWords(text: string): readonly string[] {
  const words: string[] = [];
  let word: string | undefined;
  let quote = '';
  for (let index = 0; index < text.length; index++) {
    const char = text.charAt(index);
    if (quote !== "'" && char === '\\' && index + 1 < text.length) word = (word ?? '') + text.charAt(++index);
    else if (quote !== '') {
      if (char === quote) quote = '';
      else word = (word ?? '') + char;
    } else if (char === '"' || char === "'") {
      quote = char;
      word ??= '';
    } else if (!/\s/.test(char)) word = (word ?? '') + char;
    else if (word !== undefined) {
      words.push(word);
      word = undefined;
    }
  }
  if (quote !== '') throw new AgentLoopError('INVALID_CONFIG', `a quote (${quote}) has no end in a command of --mcp`);
  return word === undefined ? words : [...words, word];
}
