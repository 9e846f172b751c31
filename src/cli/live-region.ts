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
    this.#write(erase + [...above, ...lines].map((line) => `${line}\n`).join(''));
    this.#drawn = lines;
  }

  clear(): void {
    this.draw([]);
  }
}

function sameLines(some: readonly string[], others: readonly string[]): boolean {
  return some.length === others.length && some.every((line, index) => line === others[index]);
}
