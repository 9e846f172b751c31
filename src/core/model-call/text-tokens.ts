/** Estimates the tokens of a string by its characters; see `estimateTokens` for the rule. Rounds up. Linear. */
export function textTokens(text: string): number {
  return Math.ceil(quartersOf(text) / 4);
}

/** Counts the tokens of a string that arrives in pieces, like `textTokens` for the whole; buffers nothing. */
export class StreamedTokens {
  #quarters = 0;

  add(piece: string): void {
    this.#quarters += quartersOf(piece);
  }

  get tokens(): number {
    return Math.ceil(this.#quarters / 4);
  }
}

/** Tokens times four. */
function quartersOf(text: string): number {
  let quarters = 0;
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index);
    quarters += unit < 0x80 ? 1 : unit < 0x2e80 ? 2 : 4;
  }
  return quarters;
}
