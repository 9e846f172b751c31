import { maxJsonDepth, maxJsonValues } from './core/contracts/index.ts';

/** Why JSON is refused: it has more bytes, levels or values than it may have, or it is not JSON. */
export type JsonFault = 'bytes' | 'depth' | 'values' | 'syntax';

const quote = 0x22;
const comma = 0x2c;
const backslash = 0x5c;

/**
 * Counts the levels and the values of JSON from its bytes in UTF-8, as they arrive, without parsing: what is beyond `maxJsonDepth` or
 * `maxJsonValues` costs only the bytes up to there. Names that come twice count twice. Keeps no bytes.
 */
export class JsonCounter {
  #values = 1;
  #depth = 0;
  #isInString = false;
  /** Whether the next byte of the string is escaped. */
  #isEscaped = false;
  /** Whether an array or an object has begun whose first value has not. */
  #isOpened = false;

  /** Returns the limit that the bytes so far exceed. */
  add(bytes: Uint8Array): 'depth' | 'values' | undefined {
    for (let at = 0; at < bytes.length; at++) {
      if (this.#isInString) {
        at = this.#endOfString(bytes, at);
        continue;
      }
      const byte = bytes[at] ?? 0;
      if (byte <= 0x20) continue;
      const closes = byte === 0x5d || byte === 0x7d;
      if (this.#isOpened && !closes) this.#values++;
      this.#isOpened = byte === 0x5b || byte === 0x7b;
      if (closes) this.#depth--;
      else if (byte === quote) this.#isInString = true;
      else if (byte === comma) this.#values++;
      else if (this.#isOpened && ++this.#depth > maxJsonDepth) return 'depth';
      if (this.#values > maxJsonValues) return 'values';
    }
    return undefined;
  }

  /** The end of the string that continues at `from`; the length of the bytes if it does not end in them. */
  #endOfString(bytes: Uint8Array, from: number): number {
    for (let begin = from; begin < bytes.length; ) {
      const found = bytes.indexOf(quote, begin);
      const end = found === -1 ? bytes.length : found;
      let first = end;
      while (first > begin && bytes[first - 1] === backslash) first--;
      const isOdd = (end - first) % 2 === 1;
      // A byte that an earlier backslash escapes is not one that escapes.
      const isEscaped = first === begin && this.#isEscaped ? !isOdd : isOdd;
      this.#isEscaped = found === -1 && isEscaped;
      if (found === -1) return end;
      if (!isEscaped) {
        this.#isInString = false;
        return end;
      }
      begin = end + 1;
    }
    return bytes.length;
  }
}

/**
 * Reads a body as JSON. Reads no further, and parses nothing, once it exceeds `maxBytes` or a limit of `JsonCounter`; what the source sends after that is
 * its owner's. `declared`: its length as a header says it, with which a larger body is not read at all. Errors: those of the source. Keeps at most
 * `maxBytes`.
 */
export async function readJson(
  chunks: AsyncIterable<Uint8Array>,
  { maxBytes, declared }: { readonly maxBytes: number; readonly declared: string | null | undefined },
): Promise<{ readonly value: unknown } | { readonly fault: JsonFault }> {
  if (Number(declared ?? 0) > maxBytes) return { fault: 'bytes' };
  const counter = new JsonCounter();
  const decoder = new TextDecoder();
  let text = '';
  let size = 0;
  for await (const chunk of chunks) {
    size += chunk.byteLength;
    const fault = size > maxBytes ? 'bytes' : counter.add(chunk);
    if (fault) return { fault };
    text += decoder.decode(chunk, { stream: true });
  }
  try {
    return { value: JSON.parse(text + decoder.decode()) };
  } catch {
    return { fault: 'syntax' };
  }
}
