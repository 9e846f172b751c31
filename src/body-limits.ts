import { AgentLoopError, JsonCounter, maxMessageDepth } from './core/contracts/index.ts';

export interface BodyLimits {
  /** The maximum size of one response, decompressed. */
  readonly maxBodyBytes: number;
  /** The maximum size of one event of a `text/event-stream`. */
  readonly maxEventBytes: number;
  /** The name of the option that limits the response. Default `maxBodyBytes`. */
  readonly bodyOption?: string;
}

/** Creates the error of a response that exceeds a limit, from the rest of a sentence that begins with its sender. */
export type LimitError = (what: string, limit: 'size' | 'depth') => Error;

/** The reason of errors of JSON that nests too deep. */
export const nestedTooDeep = 'nested_too_deep';

export const defaultBodyLimits: BodyLimits = { maxBodyBytes: 32 * 1024 * 1024, maxEventBytes: 4 * 1024 * 1024 };

const lf = 10;
const cr = 13;

/**
 * Counts the bytes of one response and, in an event stream, those of the current event. `add` throws the error that `fail`
 * creates from a sentence that names the limit. Scans each chunk from its end, back to its last blank line.
 */
export class BodyCounter {
  readonly #limits: BodyLimits;
  readonly #isEventStream: boolean;
  readonly #fail: LimitError;
  readonly #depth: ResponseDepth | undefined;
  #bytes = 0;
  #eventBytes = 0;
  /** The last byte. */
  #last: number | undefined;

  /** `depth`: also limits the nesting of JSON, where the bytes are read by others. */
  constructor(limits: BodyLimits, contentType: string | null, fail: LimitError, depth?: ResponseDepth) {
    this.#limits = limits;
    this.#depth = depth;
    this.#isEventStream = /^\s*text\/event-stream/i.test(contentType ?? '');
    this.#fail = fail;
  }

  /** Counts chunks that are not bytes. */
  count(size: number): void {
    const { maxBodyBytes, bodyOption = 'maxBodyBytes' } = this.#limits;
    this.#bytes += size;
    if (this.#bytes > maxBodyBytes) throw this.#tooLarge(bodyOption, maxBodyBytes);
  }

  add(piece: Uint8Array): void {
    const { maxEventBytes } = this.#limits;
    this.count(piece.byteLength);
    if (piece.byteLength === 0) return;
    const begin = this.#isEventStream ? this.#eventBegin(piece) : undefined;
    if (this.#depth?.add(piece, begin))
      throw this.#fail(`sent JSON that nests deeper than ${maxMessageDepth} levels`, 'depth');
    if (!this.#isEventStream) return;
    this.#eventBytes = begin === undefined ? this.#eventBytes + piece.byteLength : piece.byteLength - begin;
    if (this.#eventBytes > maxEventBytes) throw this.#tooLarge('maxEventBytes', maxEventBytes);
    this.#last = piece[piece.byteLength - 1];
  }

  /** The index after the last blank line of a piece; `undefined` if there is none. */
  #eventBegin(piece: Uint8Array): number | undefined {
    for (let at = piece.byteLength - 1; at > 0; at--) {
      const [before, own] = [piece[at - 1], piece[at]];
      if (own === lf && (before === lf || (before === cr && (piece[at - 2] === lf || piece[at - 2] === cr))))
        return at + 1;
      if (own === cr && (before === cr || before === lf)) return at + 1;
    }
    const isBlank = this.#last === lf ? piece[0] === lf || piece[0] === cr : this.#last === cr && piece[0] === cr;
    return isBlank ? 1 : undefined;
  }

  #tooLarge(option: string, bytes: number): Error {
    return this.#fail(`sent more than ${option} (${bytes} bytes): raise it, or ask for a shorter answer`, 'size');
  }
}

/**
 * Wraps a response: its body errors with the error of `fail` if it is too large, or a good one nests too deep, and the connection is closed. Of one that is
 * not good the status says what failed.
 */
export function boundedResponse(response: Response, limits: BodyLimits, fail: LimitError): Response {
  const { body, status, statusText, headers } = response;
  if (!body) return response;
  const depth = response.ok ? new ResponseDepth() : undefined;
  const counter = new BodyCounter(limits, headers.get('content-type'), fail, depth);
  const reader = body.getReader();
  const stream = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { value, done } = await reader.read();
        if (done) return controller.close();
        counter.add(value);
        controller.enqueue(value);
      } catch (error) {
        controller.error(error);
        await reader.cancel(error).catch(() => {});
      }
    },
    cancel: (reason: unknown) => reader.cancel(reason),
  });
  const bounded = new Response(stream, { status, statusText, headers });
  Object.defineProperty(bounded, 'url', { value: response.url });
  return bounded;
}

/** Finds the error of `boundedResponse` if an SDK has wrapped the exception of its fetch. */
export function limitErrorIn(thrown: unknown): AgentLoopError | undefined {
  for (let error = thrown, depth = 0; depth < 5 && typeof error === 'object' && error !== null; depth++) {
    if (AgentLoopError.isInstance(error) && (error.code.endsWith('_TOO_LARGE') || error.reason === nestedTooDeep))
      return error;
    error = 'cause' in error ? error.cause : undefined;
  }
  return undefined;
}
const dataField = new TextEncoder().encode('data:');
const byteOrderMark: ReadonlySet<number> = new Set([0xef, 0xbb, 0xbf]);

/**
 * Finds JSON beyond `maxMessageDepth` in a response, before what reads it parses it: in the whole body, and in the data of each event, whatever its
 * content type says. An event cannot nest deeper than it has bytes, so those of short ones are not read. Keeps `maxMessageDepth` bytes.
 */
export class ResponseDepth {
  /** Of a body that is JSON. */
  #body: JsonCounter | undefined;
  #event = messageCounter();
  #isBegun = false;
  /** The bytes of the event so far. */
  #size = 0;
  /** Those of them that were not read. */
  #unread: Uint8Array[] = [];
  /** The bytes of the line that match `dataField`; -1 in a line of another field. */
  #matched = 0;
  #last = lf;

  /** Returns whether a piece nests too deep. `begin`: where the last event in it begins; `undefined` if none does. */
  add(piece: Uint8Array, begin: number | undefined): boolean {
    if (!this.#isBegun) this.#begin(piece);
    const size = this.#size + piece.byteLength;
    const ended = this.#body ? undefined : begin;
    this.#size = ended === undefined ? size : piece.byteLength - ended;
    if (size > maxMessageDepth) {
      const unread = this.#unread;
      this.#unread = [];
      return [...unread, piece].some((each) => this.#read(each));
    }
    if (ended !== undefined) {
      this.#event = messageCounter();
      this.#matched = 0;
      this.#last = lf;
      this.#unread = [];
    }
    this.#unread.push(piece.slice(ended));
    return false;
  }

  #begin(piece: Uint8Array): void {
    const first = piece.find((byte) => byte > 0x20 && !byteOrderMark.has(byte));
    if (first === undefined) return;
    this.#isBegun = true;
    if (first === 0x5b || first === 0x7b) this.#body = messageCounter();
  }

  #read(piece: Uint8Array): boolean {
    if (this.#body?.add(piece)) return true;
    const ends = { [lf]: -1, [cr]: -1 };
    for (let at = 0; at < piece.byteLength; at++) {
      if (this.#matched === dataField.length || this.#matched === -1) {
        const end = Math.min(nextIn(piece, at, lf, ends), nextIn(piece, at, cr, ends));
        if (this.#matched !== -1 && this.#event.add(piece.subarray(at, end))) return true;
        at = end;
      }
      const byte = piece[at];
      if (byte === undefined) break;
      const isSecond = byte === lf && this.#last === cr;
      this.#last = byte;
      if (byte === lf || byte === cr) {
        // A blank line ends the event.
        if (this.#matched === 0 && !isSecond) this.#event = messageCounter();
        this.#matched = 0;
      } else if (byte === dataField[this.#matched]) this.#matched++;
      else if (this.#matched > 0 || !byteOrderMark.has(byte)) this.#matched = -1;
    }
    return false;
  }
}

/** The index of the next such byte; the length of the piece if there is none. `known`: those found before, so that all are found in one pass. */
function nextIn(piece: Uint8Array, from: number, byte: typeof lf | typeof cr, known: Record<number, number>): number {
  const before = known[byte] ?? -1;
  if (before >= from) return before;
  const found = piece.indexOf(byte, from);
  const next = found === -1 ? piece.byteLength : found;
  known[byte] = next;
  return next;
}

function messageCounter(): JsonCounter {
  return new JsonCounter(maxMessageDepth, Number.POSITIVE_INFINITY);
}
