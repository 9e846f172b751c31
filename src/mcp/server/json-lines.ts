import { Transform, type TransformCallback } from 'node:stream';
import { JsonCounter, maxJsonDepth, maxJsonValues } from '../../core/contracts/index.ts';
import type { JsonFault } from '../../json-body.ts';

/** What the SDK takes as one message. */
const maxLineBytes = 10 * 2 ** 20;

/** Why JSON of a client is refused, as it reads it. */
export function sentenceOf(fault: JsonFault, maxBytes: number): string {
  switch (fault) {
    case 'bytes':
      return `the body must not exceed ${maxBytes} bytes`;
    case 'depth':
      return `the body nests deeper than ${maxJsonDepth} levels`;
    case 'values':
      return `the body has more than ${maxJsonValues} values`;
    case 'syntax':
      return 'the body is not JSON';
  }
}

/** Passes lines of JSON on, whole, and leaves out those beyond a limit, for each of which it calls `refuse` with the reason. Keeps the bytes of one line, 10 MiB at most. */
export class JsonLines extends Transform {
  readonly #refuse: (message: string) => void;
  #counter = new JsonCounter();
  #line: Buffer[] = [];
  #bytes = 0;
  #isRefused = false;

  constructor(refuse: (message: string) => void) {
    super();
    this.#refuse = refuse;
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    let from = 0;
    for (let end = chunk.indexOf('\n'); end !== -1; end = chunk.indexOf('\n', from)) {
      this.#add(chunk.subarray(from, end + 1));
      this.#endLine();
      from = end + 1;
    }
    this.#add(chunk.subarray(from));
    done();
  }

  #add(piece: Buffer): void {
    if (this.#isRefused) return;
    this.#bytes += piece.length;
    const fault = this.#bytes > maxLineBytes ? 'bytes' : this.#counter.add(piece);
    if (fault === undefined) return void this.#line.push(piece);
    this.#isRefused = true;
    this.#line = [];
    this.#refuse(sentenceOf(fault, maxLineBytes));
  }

  #endLine(): void {
    for (const piece of this.#line) this.push(piece);
    this.#counter = new JsonCounter();
    this.#line = [];
    this.#bytes = 0;
    this.#isRefused = false;
  }
}
