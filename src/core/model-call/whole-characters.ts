import type { StreamChunk } from '../journal/index.ts';

/**
 * Keeps the two halves of a surrogate pair in one delta: a delta that ends with the first half is emitted without it, and the next delta of the
 * same kind begins with it. Vendors cut strings between any two UTF-16 units. A half without its other half is left out of the deltas; the
 * response has it. State of one model call; memory: at most one unit for the text, the reasoning and each tool call.
 */
export class WholeCharacters {
  /** The held first halves, by kind of delta or index of tool call. `undefined` if there are none. */
  #held: Map<string | number, string> | undefined;

  /** Returns the delta to emit; `undefined` if nothing of it is left. */
  take(chunk: StreamChunk): StreamChunk | undefined {
    if (chunk.type === 'attempt') {
      this.#held = undefined;
      return chunk;
    }
    const piece = chunk.type === 'tool-call' ? chunk.arguments : chunk.text;
    if (!piece || (this.#held === undefined && !endsInHalf(piece))) return chunk;
    return this.#joined(chunk, piece);
  }

  #joined(chunk: Exclude<StreamChunk, { type: 'attempt' }>, piece: string): StreamChunk | undefined {
    const place = chunk.type === 'tool-call' ? chunk.index : chunk.type;
    this.#held ??= new Map();
    const text = (this.#held.get(place) ?? '') + piece;
    const end = endsInHalf(text) ? text.length - 1 : text.length;
    if (end < text.length) this.#held.set(place, text.slice(end));
    else this.#held.delete(place);
    if (this.#held.size === 0) this.#held = undefined;
    const whole = text.slice(0, end);
    if (chunk.type !== 'tool-call') return whole === '' ? undefined : { ...chunk, text: whole };
    const saysMore = chunk.id !== undefined || chunk.name !== undefined;
    return whole === '' && !saysMore ? undefined : { ...chunk, arguments: whole };
  }
}

function endsInHalf(text: string): boolean {
  return (text.charCodeAt(text.length - 1) & 0xfc00) === 0xd800;
}
