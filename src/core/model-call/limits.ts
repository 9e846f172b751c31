import { AgentLoopError, type Clock, type LLMCallParams } from '../contracts/index.ts';

/** The number of checks per time limit: a periodic check replaces a timer per chunk. */
const looks = 8;

/** A symbol, so that a spread copy of the parameters keeps the limit, and other code does not see it. */
const key = Symbol.for('millrace.ModelSilence');

type LimitedParams = LLMCallParams & { [key]?: ModelSilence };

/**
 * Limits the silence of one model request; it fires at most an eighth of the limit late. The parameters of
 * the call pass it to policies: while a policy's call is in progress this limit is suspended, and each request of the policy has its own
 * limit. So delays and queues of policies do not count as silence.
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

  /** The limit in the parameters of a call. */
  static of(params: LimitedParams): ModelSilence | undefined {
    return params[key];
  }

  /** A new limit of the same length, for a request of the call. */
  another(): ModelSilence {
    return new ModelSilence(this.#clock, this.#ms);
  }

  /** Sets this limit on a call, replacing any other. */
  limit(params: LimitedParams): void {
    params[key] = this;
  }

  /** Calls `onSilence` once no chunk has arrived for the whole limit. */
  start(onSilence: (error: AgentLoopError) => void): void {
    this.#onSilence = onSilence;
    this.#heard = false;
    if (this.#suspended === 0) this.#arm();
  }

  /** A chunk has arrived. */
  heard(): void {
    this.#heard = true;
  }

  /** Suspends the limit until the returned function is called; then the whole time is left. */
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
  /** The maximum size of one response, decompressed. */
  readonly maxBodyBytes: number;
  /** The maximum size of one event of a `text/event-stream`. */
  readonly maxEventBytes: number;
  /** The name of the option that limits the response. Default `maxBodyBytes`. */
  readonly bodyOption?: string;
}

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

  /** Counts chunks that are not bytes. */
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

/** Wraps a response: its body errors with the error of `fail` if it is too large, and the connection is closed. */
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

/** Finds the error if an SDK has wrapped the exception of its fetch. */
export function tooLargeIn(thrown: unknown): AgentLoopError | undefined {
  for (let error = thrown, depth = 0; depth < 5 && typeof error === 'object' && error !== null; depth++) {
    if (AgentLoopError.isInstance(error) && error.code.endsWith('_TOO_LARGE')) return error;
    error = 'cause' in error ? error.cause : undefined;
  }
  return undefined;
}
