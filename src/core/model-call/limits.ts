import { AgentLoopError, type Clock, type LLMCallParams } from '../contracts/index.ts';

/** A request is looked at that often in the time that it may be silent, so that a chunk sets no timer. */
const looks = 8;

/** By a symbol, so that a copy of the parameters by spread has it, and nobody else sees it. */
const key = Symbol.for('millrace.ModelSilence');

type LimitedParams = LLMCallParams & { [key]?: ModelSilence };

/**
 * Limits how long one request of a model is silent; it is noticed at the latest when an eighth of its time more is over. The parameters of
 * the call carry it to policies: while a call of theirs is under way it is suspended, and each request that they make has a limit of its
 * own. So their pauses and queues are no silence.
 */
export class ModelSilence {
  readonly #clock: Clock;
  readonly #ms: number;
  #onSilence: ((error: AgentLoopError) => void) | undefined;
  #suspended = 0;
  #heard = false;
  #quiet = 0;
  #cancel: (() => void) | undefined;

  constructor(clock: Clock, ms: number) {
    this.#clock = clock;
    this.#ms = ms;
  }

  /** The limit that a call carries. */
  static of(params: LimitedParams): ModelSilence | undefined {
    return params[key];
  }

  /** A limit of the same length, for a request of the call. */
  another(): ModelSilence {
    return new ModelSilence(this.#clock, this.#ms);
  }

  /** Has a call carry this limit, in place of the one that it may have. */
  limit(params: LimitedParams): void {
    params[key] = this;
  }

  /** Calls `onSilence` once nothing was heard for the whole time. */
  start(onSilence: (error: AgentLoopError) => void): void {
    this.#onSilence = onSilence;
    this.#heard = false;
    if (this.#suspended === 0) this.#arm();
  }

  /** A chunk has come. */
  heard(): void {
    this.#heard = true;
  }

  /** Measures nothing until the function that it gives is called; the whole time is left then. */
  suspend(): () => void {
    this.#suspended++;
    this.#stop();
    return () => {
      this.#suspended--;
      this.#resume();
    };
  }

  end(): void {
    this.#onSilence = undefined;
    this.#cancel?.();
    this.#cancel = undefined;
  }

  #resume(): void {
    if (this.#suspended > 0 || !this.#onSilence) return;
    this.#quiet = 0;
    this.#heard = false;
    this.#arm();
  }

  #stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }

  #arm(): void {
    this.#cancel = this.#clock.schedule(this.#ms / looks, () => this.#look(), { watchdog: true });
  }

  #look(): void {
    this.#quiet = this.#heard ? 0 : this.#quiet + 1;
    this.#heard = false;
    if (this.#quiet < looks) return this.#arm();
    const onSilence = this.#onSilence;
    this.end();
    const message = `The model was silent for ${this.#ms} ms (modelSilenceMs).`;
    onSilence?.(new AgentLoopError('PROVIDER_TIMEOUT', message, { retryable: true }));
  }
}

export interface BodyLimits {
  /** Of one response, decompressed. */
  readonly maxBodyBytes: number;
  /** Of one event of a `text/event-stream`. */
  readonly maxEventBytes: number;
  /** What the option is called that limits the response. Default `maxBodyBytes`. */
  readonly bodyOption?: string;
}

export const defaultBodyLimits: BodyLimits = { maxBodyBytes: 32 * 1024 * 1024, maxEventBytes: 4 * 1024 * 1024 };

const lf = 10;
const cr = 13;

/**
 * Counts the bytes of one response, and those of the event that is being received where it is an event stream. `add` throws what `fail`
 * makes of a sentence that names the limit. Looks at the end of each piece only, as far as its last blank line.
 */
export class BodyCounter {
  readonly #limits: BodyLimits;
  readonly #isEventStream: boolean;
  readonly #fail: (what: string) => Error;
  #bytes = 0;
  #eventBytes = 0;
  /** The last byte. */
  #last: number | undefined;

  constructor(limits: BodyLimits, contentType: string | null, fail: (what: string) => Error) {
    this.#limits = limits;
    this.#isEventStream = /^\s*text\/event-stream/i.test(contentType ?? '');
    this.#fail = fail;
  }

  /** Counts what comes in other pieces than bytes. */
  count(size: number): void {
    const { maxBodyBytes, bodyOption = 'maxBodyBytes' } = this.#limits;
    this.#bytes += size;
    if (this.#bytes > maxBodyBytes) throw this.#tooLarge(bodyOption, maxBodyBytes);
  }

  add(piece: Uint8Array): void {
    const { maxEventBytes } = this.#limits;
    this.count(piece.byteLength);
    if (!this.#isEventStream || piece.byteLength === 0) return;
    const begin = this.#eventBegin(piece);
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
    return this.#fail(`sent more than ${option} (${bytes} bytes): raise it, or ask for a shorter answer`);
  }
}

/** The same response, whose body errors with what `fail` makes where it is too large. The connection is closed then. */
export function boundedResponse(response: Response, limits: BodyLimits, fail: (what: string) => Error): Response {
  const { body, status, statusText, headers } = response;
  if (!body) return response;
  const counter = new BodyCounter(limits, headers.get('content-type'), fail);
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

/** Found where an SDK wraps what its fetch threw. */
export function tooLargeIn(thrown: unknown): AgentLoopError | undefined {
  for (let error = thrown, depth = 0; depth < 5 && typeof error === 'object' && error !== null; depth++) {
    if (AgentLoopError.isInstance(error) && error.code.endsWith('_TOO_LARGE')) return error;
    error = 'cause' in error ? error.cause : undefined;
  }
  return undefined;
}
