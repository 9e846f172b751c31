const piecesBetweenJoins = 256;

/**
 * A text that grows by pieces, in memory that grows with the text. Adding with `+=` would keep every piece, and some 50 bytes beside
 * each, for as long as nobody reads the text.
 */
export class GrowingText {
  #joined: string[] = [];
  #pieces: string[] = [];

  get isEmpty(): boolean {
    return this.#pieces.length === 0 && this.#joined.length === 0;
  }

  /** Pieces that are empty count as none. */
  add(piece: string): void {
    if (piece === '') return;
    this.#pieces.push(piece);
    if (this.#pieces.length < piecesBetweenJoins) return;
    this.#joined.push(this.#pieces.join(''));
    this.#pieces = [];
  }

  clear(): void {
    if (this.isEmpty) return;
    this.#joined = [];
    this.#pieces = [];
  }

  toString(): string {
    return this.#joined.join('') + this.#pieces.join('');
  }
}
