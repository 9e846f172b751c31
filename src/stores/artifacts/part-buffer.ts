/** Makes parts of one size out of pieces of any size, and holds what does not fill one yet. */
export class PartBuffer {
  readonly #partBytes: number;
  #pieces: Uint8Array[] = [];
  #bytes = 0;

  constructor(partBytes: number) {
    this.#partBytes = partBytes;
  }

  /** How many bytes are held: less than a part. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Adds a piece, and gives the parts that are full by it. */
  *fill(piece: Uint8Array): Generator<Uint8Array> {
    for (let from = 0; from < piece.length; ) {
      const taken = piece.subarray(from, from + this.#partBytes - this.#bytes);
      this.#pieces.push(taken);
      this.#bytes += taken.length;
      from += taken.length;
      if (this.#bytes === this.#partBytes) yield this.take();
    }
  }

  /** Gives what is held, and holds nothing then. */
  take(): Uint8Array {
    const only = this.#pieces.length === 1 ? this.#pieces[0] : undefined;
    const whole = only ?? Buffer.concat(this.#pieces);
    this.#pieces = [];
    this.#bytes = 0;
    return whole;
  }
}
