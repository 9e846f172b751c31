/** Estimates the tokens of a text by its characters; the rule stands at `estimateTokens`. Rounds up. Linear. */
export function textTokens(text: string): number {
  let quarters = 0;
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index);
    quarters += unit < 0x80 ? 1 : unit < 0x2e80 ? 2 : 4;
  }
  return Math.ceil(quarters / 4);
}
