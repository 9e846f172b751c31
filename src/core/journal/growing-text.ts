const piecesBetweenJoins = 256;

/** A flat string and where it begins in the text. */
interface Block {
  readonly from: number;
  readonly text: string;
}

/** The block that was made last, by whichever text. */
let newest: WeakRef<Block> | undefined;

/** The events of a turn and its store write down the same answer, piece by piece at the same time: they share its blocks. */
function blockOf(from: number, text: string): Block {
  const known = newest?.deref();
  if (known !== undefined && known.from === from && known.text === text) return known;
  const block = { from, text };
  newest = new WeakRef(block);
  return block;
}

/**
 * A string that grows by pieces, in memory proportional to its length: at most 255 pieces are kept as they came, all before them in flat
 * blocks. Adding with `+=` would keep every piece, and some 50 bytes beside each, until the string is read; reading a part
 * of such a string would copy the whole text, once for each part that its reader keeps.
 */
export class GrowingText {
  #blocks: Block[] = [];
  /** Characters in the blocks. */
  #joined = 0;
  #pieces: string[] = [];
  #length = 0;

  get isEmpty(): boolean {
    return this.#length === 0;
  }

  /** In UTF-16 units, as of a string. */
  get length(): number {
    return this.#length;
  }

  /** Pieces that are empty count as none. */
  add(piece: string): void {
    if (piece === '') return;
    this.#pieces.push(piece);
    this.#length += piece.length;
    if (this.#pieces.length < piecesBetweenJoins) return;
    this.#blocks.push(blockOf(this.#joined, this.#pieces.join('')));
    this.#joined = this.#length;
    this.#pieces = [];
  }

  clear(): void {
    if (this.#length === 0) return;
    this.#blocks = [];
    this.#joined = 0;
    this.#pieces = [];
    this.#length = 0;
  }

  /** The text between two offsets. Costs what it reads, not the whole text, where it reads near the end. */
  slice(from: number, to: number = this.#length): string {
    const parts: string[] = [];
    let begin = this.#length;
    const take = (text: string, at: number) => {
      begin = at;
      if (at < to) parts.push(text.slice(Math.max(0, from - at), to - at));
    };
    for (let index = this.#pieces.length - 1; index >= 0 && begin > from; index--) {
      const piece = this.#pieces[index] ?? '';
      take(piece, begin - piece.length);
    }
    for (let index = this.#blocks.length - 1; index >= 0 && begin > from; index--) {
      const block = this.#blocks[index];
      if (block) take(block.text, block.from);
    }
    return parts.reverse().join('');
  }

  toString(): string {
    return this.#blocks.map(({ text }) => text).join('') + this.#pieces.join('');
  }
}
