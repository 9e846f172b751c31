import { columnsOf } from './one-line.ts';

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
