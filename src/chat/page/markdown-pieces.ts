import { Lexer, type Token } from 'marked';

/** Parsed as it is: the worst text of this length takes about 20 ms, and its time grows with the square of the length. Characters. */
const longestUnit = 2_500;
/** Short blocks are parsed together. */
const shortestPiece = 400;
/** A list or a table. */
const longestPiece = 20_000;
/** After this time, what was not parsed before is text. */
const budgetMs = 40;
const mostKept = 1_000;

const fence = /^\s*(?:(`{3,})[^`]*|(~{3,}).*)$/;
const marker = /^\s*(?:[-*+]|\d{1,9}[.)])(?:\s|$)/;
/** Lines that begin a block of their own: an item, a row of a table, a heading, a quote. */
const beginning = /^\s*(?:[-*+|>#]|\d{1,9}[.)])/;

interface Piece {
  readonly text: string;
  readonly isShort: boolean;
}

/** Tokens of pieces by their text: Markdown that grows is parsed from where it changes, and one that has ended never again. */
const kept = new Map<string, readonly Token[]>();

/** The tokens of Markdown, block by block, in bounded time. A block that is too long, or too late, is a paragraph. */
export function tokensOf(text: string, now: () => number = () => performance.now()): readonly Token[] {
  if (text.length <= longestUnit) return lexed(text);
  const definitions = definitionsIn(text);
  const end = now() + budgetMs;
  return piecesOf(text).flatMap(({ text: piece, isShort }) => {
    const whole = definitions !== '' && piece.includes('[') ? `${piece}\n\n${definitions}` : piece;
    const known = kept.get(whole);
    if (known) return known;
    if (!isShort || now() > end) return [{ type: 'html', raw: piece, text: piece }];
    const tokens = lexed(whole);
    kept.set(whole, tokens);
    if (kept.size > mostKept) for (const first of [...kept.keys()].slice(0, mostKept / 10)) kept.delete(first);
    return tokens;
  });
}

function lexed(text: string): readonly Token[] {
  return new Lexer({ gfm: true, breaks: true }).lex(text);
}

/** Addresses that links of any block may name. */
function definitionsIn(text: string): string {
  const lines = text.match(/^ {0,3}\[[^\]\n]{1,200}\]:[^\n]{1,1000}$/gm) ?? [];
  const all = lines.join('\n');
  return all.length <= longestUnit ? all : '';
}

/** Cut before what begins anew at the start of a line: after an empty line, and at fences. */
function piecesOf(text: string): readonly Piece[] {
  const pieces: Piece[] = [];
  let lines: string[] = [];
  let open: string | undefined;
  let unit = 0;
  let length = 0;
  let size = 0;
  let isShort = true;
  const cut = () => {
    if (lines.length > 0) pieces.push({ text: lines.join('\n'), isShort: isShort && length <= longestPiece });
    lines = [];
    unit = 0;
    length = 0;
    size = 0;
    isShort = true;
  };
  const cutBefore = (line: string) => {
    if (size + line.length > shortestPiece || !isShort) cut();
  };
  for (const line of text.split('\n')) {
    const [, ticks, tildes] = fence.exec(line) ?? [];
    const mark = ticks ?? tildes;
    if (open !== undefined) {
      lines.push(line);
      size += line.length + 1;
      if (!mark?.startsWith(open) || line.trim() !== mark) continue;
      open = undefined;
      if (/^\S/.test(line)) cutBefore('');
      continue;
    }
    const isNew = lines.at(-1)?.trim() === '' && /^\S/.test(line) && !marker.test(line);
    if (isNew || (mark !== undefined && /^\S/.test(line))) cutBefore(line);
    lines.push(line);
    size += line.length + 1;
    if (mark !== undefined) {
      open = mark;
      continue;
    }
    unit = line.trim() === '' ? 0 : beginning.test(line) ? line.length : unit + line.length;
    length += line.length;
    if (unit > longestUnit) isShort = false;
  }
  cut();
  return pieces;
}
