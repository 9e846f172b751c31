import { createReadStream } from 'node:fs';

/** A line of a file without its end. */
export interface TextLine {
  readonly text: string;
  /** From 1. */
  readonly number: number;
  /** False for a last line that has no end. */
  readonly isWhole: boolean;
  /** Where the next line begins, in bytes. */
  readonly end: number;
}

const newline = 0x0a;

/** The lines of a file or of a stream of bytes. Memory: the longest line and one chunk. Errors: those of the file. */
export async function* textLines(source: string | AsyncIterable<Uint8Array | string>): AsyncGenerator<TextLine> {
  const chunks: AsyncIterable<Uint8Array | string> = typeof source === 'string' ? createReadStream(source) : source;
  let open: Buffer[] = [];
  let number = 0;
  let end = 0;
  for await (const given of chunks) {
    const chunk =
      typeof given === 'string' ? Buffer.from(given) : Buffer.from(given.buffer, given.byteOffset, given.length);
    let from = 0;
    for (let at = chunk.indexOf(newline); at !== -1; at = chunk.indexOf(newline, from)) {
      const bytes = Buffer.concat([...open, chunk.subarray(from, at)]);
      open = [];
      number += 1;
      end += bytes.length + 1;
      from = at + 1;
      yield { text: bytes.toString(), number, isWhole: true, end };
    }
    if (from < chunk.length) open.push(chunk.subarray(from));
  }
  const rest = Buffer.concat(open);
  if (rest.length > 0) yield { text: rest.toString(), number: number + 1, isWhole: false, end: end + rest.length };
}
