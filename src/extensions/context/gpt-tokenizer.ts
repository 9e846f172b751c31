import { missingPackage } from '../../core/contracts/index.ts';
import { type TokenCounter, tokenCounter } from '../../core/model-call/index.ts';

/** Options of `gptTokenizer`. */
export interface GptTokenizerOptions {
  /** Default `o200k_base`, of GPT-4o and all later models; GPT-4 and GPT-3.5 use `cl100k_base`. */
  readonly encoding?: 'o200k_base' | 'cl100k_base' | undefined;
}

/** The encoder's time is quadratic in a run of letters, so at most this many characters are encoded at once. */
const pieceLength = 1_000;

/** Text that looks like a special token is counted as plain text. */
const asPlainText = { disallowedSpecial: new Set<string>() };

/**
 * Counts with OpenAI's own encoding, through the optional package `gpt-tokenizer`: exact for the text of OpenAI's models,
 * approximate for others. For the overhead of messages see {@link estimateTokens}.
 *
 * The first call of a process loads the package and its table (about 20 MB of memory, a third of a second). Texts
 * of more than 1,000 characters are counted in pieces, cut at spaces; a string without spaces may count a token more per
 * 1,000. Rejects with `MISSING_PACKAGE` if the package is not installed.
 */
export async function gptTokenizer({ encoding = 'o200k_base' }: GptTokenizerOptions = {}): Promise<TokenCounter> {
  const { countTokens } = await load(encoding);
  return tokenCounter((text) => {
    let count = 0;
    for (const piece of piecesOf(text)) count += countTokens(piece, asPlainText);
    return count;
  });
}

async function load(encoding: 'o200k_base' | 'cl100k_base') {
  try {
    if (encoding === 'cl100k_base') return await import('gpt-tokenizer/encoding/cl100k_base');
    return await import('gpt-tokenizer/encoding/o200k_base');
  } catch (cause) {
    throw missingPackage('gpt-tokenizer', cause);
  }
}

/** Cuts before a space if there is one, as tokens begin with it; never within a surrogate pair. */
function* piecesOf(text: string): Generator<string> {
  let from = 0;
  while (text.length - from > pieceLength) {
    const end = from + pieceLength;
    const blank = text.lastIndexOf(' ', end);
    const to = blank > from ? blank : end - (isLowSurrogate(text.charCodeAt(end)) ? 1 : 0);
    yield text.slice(from, to);
    from = to;
  }
  yield text.slice(from);
}

function isLowSurrogate(unit: number): boolean {
  return unit >= 0xdc00 && unit <= 0xdfff;
}
