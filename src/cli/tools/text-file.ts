/** Text as far as it is text: whole UTF-8 characters, from the first to the last. */
export interface TextPiece {
  readonly text: string;
  /** Bytes left out before the text and after it, parts of characters that were cut. */
  readonly before: number;
  readonly after: number;
}

/** Which ends of a piece are not those of the file. */
export interface Cuts {
  readonly start: boolean;
  readonly end: boolean;
}

/** The text of a piece of a file, or `undefined` where the piece is not UTF-8 text: a NUL byte, or bytes of no character. */
export function decodeText(bytes: Uint8Array, cuts: Cuts = { start: false, end: false }): TextPiece | undefined {
  if (bytes.includes(0)) return undefined;
  const before = cuts.start ? cutStart(bytes) : 0;
  const after = cuts.end ? cutEnd(bytes.subarray(before)) : 0;
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes.subarray(before, bytes.length - after));
    return { text, before, after };
  } catch {
    return undefined;
  }
}

/** How many bytes at the start continue a character that began before, at most 3. */
function cutStart(bytes: Uint8Array): number {
  let count = 0;
  while (count < 3 && isContinuation(bytes[count])) count += 1;
  return count;
}

/** The number of bytes at the end that begin an incomplete character, at most 3. */
function cutEnd(bytes: Uint8Array): number {
  for (let count = 1; count <= 3; count += 1) {
    const byte = bytes[bytes.length - count];
    if (isContinuation(byte)) continue;
    return byte !== undefined && lengthFrom(byte) > count ? count : 0;
  }
  return 0;
}

function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0b1100_0000) === 0b1000_0000;
}

function lengthFrom(byte: number): number {
  if (byte >= 0b1111_0000) return 4;
  if (byte >= 0b1110_0000) return 3;
  return byte >= 0b1100_0000 ? 2 : 1;
}
