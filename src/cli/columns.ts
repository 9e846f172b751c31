import { withoutSteering } from './format.ts';

const wide =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}/u;
const invisible = /\p{M}|[\u200b-\u200f]/u;

/** The terminal columns of a string without control characters. */
export function columnsOf(text: string): number {
  let columns = 0;
  for (const character of text) columns += widthOf(character);
  return columns;
}

function widthOf(character: string): number {
  if (character >= ' ' && character <= '~') return 1;
  if (invisible.test(character)) return 0;
  return wide.test(character) ? 2 : 1;
}

/** The text, cut so that it takes at most `columns`, with the ellipsis in the last of them where something is missing. */
export function cut(text: string, columns: number, ellipsis = '…'): string {
  if (columnsOf(text) <= columns) return text;
  let kept = '';
  let room = columns - ellipsis.length;
  if (room < 0) return '';
  for (const character of text) {
    room -= widthOf(character);
    if (room < 0) break;
    kept += character;
  }
  return `${kept.trimEnd()}${ellipsis}`;
}

/** The end of the text, cut so that it takes at most `columns`, with the ellipsis in front where something is missing. */
export function cutStart(text: string, columns: number, ellipsis = '…'): string {
  if (columnsOf(text) <= columns) return text;
  let kept = '';
  let room = columns - ellipsis.length;
  for (const character of [...text].reverse()) {
    room -= widthOf(character);
    if (room < 0) break;
    kept = character + kept;
  }
  return columns < ellipsis.length ? '' : `${ellipsis}${kept.trimStart()}`;
}

/** The text with spaces after it up to `columns`. */
export function pad(text: string, columns: number): string {
  return text + ' '.repeat(Math.max(0, columns - columnsOf(text)));
}

/** Wraps a string to lines of at most so many columns; a longer word has its own line. */
export function wrapLines(text: string, columns: number): readonly string[] {
  const lines: string[] = [];
  for (const word of text.split(/\s+/).filter((part) => part !== '')) {
    const last = lines.at(-1);
    if (last !== undefined && columnsOf(last) + 1 + columnsOf(word) <= columns)
      lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}

/** Takes the word that is being written back from the end of the line. */
const backspace = (columns: number): string => (columns === 0 ? '' : `\u001b[${columns}D\u001b[K`);

/**
 * Breaks text that arrives in pieces between words, for a terminal. Nothing is held back: a word that turns out not to fit
 * is taken from the end of its line and written again on the next. A word longer than a line is left to the terminal.
 */
export class WordWrap {
  #column = 0;
  /** What was written of the current word. */
  #word = '';

  /** What to write for the next piece, on a terminal that is `columns` wide now. */
  add(text: string, columns: number): string {
    let out = '';
    for (const [token] of text.matchAll(/\s|[^\s]+/g))
      out += /\s/.test(token) ? this.#space(token) : this.#part(token, columns);
    return out;
  }

  /** Tells that the cursor stands at the start of a line. */
  reset(): void {
    this.#column = 0;
    this.#word = '';
  }

  #space(space: string): string {
    this.#word = '';
    if (space === '\n') this.#column = 0;
    else this.#column += space === '\t' ? 8 - (this.#column % 8) : 1;
    return space;
  }

  #part(part: string, columns: number): string {
    const written = columnsOf(this.#word);
    const added = columnsOf(part);
    const word = this.#word + part;
    const begin = this.#column - written;
    this.#word = word;
    const fits = this.#column + added < columns;
    if (fits || begin === 0 || written + added >= columns) {
      this.#column += added;
      return part;
    }
    this.#column = written + added;
    return `${backspace(written)}\n${word}`;
  }
}

/** Lines at the lower end of a terminal that are redrawn in place. The cursor rests at the start of the line below them. */
export class LiveRegion {
  readonly #write: (text: string) => void;
  #drawn: readonly string[] = [];

  constructor(write: (text: string) => void) {
    this.#write = write;
  }

  /** Replaces what is drawn by `lines`; `above` is written first and stays. Each line must fit the terminal's width. */
  draw(lines: readonly string[], above: readonly string[] = []): void {
    if (above.length === 0 && sameLines(lines, this.#drawn)) return;
    // The return is for a `^C` that the terminal wrote where the cursor rests.
    const erase = this.#drawn.length === 0 ? '' : `\r\u001b[${this.#drawn.length}A\u001b[J`;
    this.#write(erase + withoutSteering([...above, ...lines].map((line) => `${line}\n`).join('')));
    this.#drawn = lines;
  }

  clear(): void {
    this.draw([]);
  }
}

function sameLines(some: readonly string[], others: readonly string[]): boolean {
  return some.length === others.length && some.every((line, index) => line === others[index]);
}
