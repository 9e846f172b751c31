import { BodyCounter, type BodyLimits } from '../../body-limits.ts';
import { AgentLoopError, type Clock } from '../../core/contracts/index.ts';
import { after, onAbort, Timer } from '../../core/streams/index.ts';
import { type ModelServer, wireError } from './wire-errors.ts';

export interface RequestLimits extends BodyLimits {
  /** From the start of the request to the last byte of its answer, in milliseconds; 0 means no limit. */
  readonly timeoutMs: number;
  /** The longest silence once the headers are there, in milliseconds; 0 means no limit. */
  readonly chunkTimeoutMs: number;
}

interface RequestWatchOptions {
  readonly server: ModelServer;
  readonly limits: RequestLimits;
  readonly clock: Clock;
  /** Whoever may cancel the request. */
  readonly signals: readonly AbortSignal[];
}

/**
 * Watches one request to its last byte: who cancels it, how long it takes, how long it is silent, how much it sends. The
 * first of these to go wrong is the `failure`, and aborts `signal`, which closes the connection. `close` must be called.
 */
export class RequestWatch {
  readonly #options: RequestWatchOptions;
  readonly #controller = new AbortController();
  readonly #leave: readonly (() => void)[];
  #failure: AgentLoopError | undefined;
  #canceled = false;
  #stopDeadline: (() => void) | undefined;
  readonly #silence: Timer;
  #silenceMs: number;
  #lastByteAt = 0;
  #counter: BodyCounter;
  #complete = false;

  constructor(options: RequestWatchOptions) {
    this.#options = options;
    this.#silence = new Timer(options.clock);
    this.#silenceMs = options.limits.chunkTimeoutMs;
    this.#counter = this.#counterOf(null);
    this.#leave = options.signals.map((signal) => onAbort(signal, () => this.#takeCancel()));
    this.#takeCancel();
    const { timeoutMs } = options.limits;
    if (timeoutMs === 0 || this.#canceled) return;
    this.#stopDeadline = after(timeoutMs, options.clock, () =>
      this.fail(this.#timeout(`took longer than timeoutMs (${timeoutMs} ms) to answer`)),
    );
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get failure(): AgentLoopError | undefined {
    return this.#failure;
  }

  get canceled(): boolean {
    return this.#canceled;
  }

  /** Ends the request with `error`, unless it has failed already; gives the failure that counts. */
  fail(error: AgentLoopError): AgentLoopError {
    if (this.#failure !== undefined) return this.#failure;
    this.#failure = error;
    this.#controller.abort(error);
    return error;
  }

  /** The headers are there: from now on silence counts. */
  opened(contentType: string | null = null): void {
    this.#counter = this.#counterOf(contentType);
    this.#lastByteAt = this.#options.clock.now();
    this.#watchSilence(this.#silenceMs);
  }

  /** Counts a piece of the body, or its size; throws where it is one too many. */
  received(piece: Uint8Array | number): void {
    this.#lastByteAt = this.#options.clock.now();
    if (typeof piece === 'number') this.#counter.count(piece);
    else this.#counter.add(piece);
  }

  /** All that counts was received: from now on, only so much silence is waited out. */
  settle(silenceMs: number): void {
    if (this.#silenceMs !== 0 && this.#silenceMs <= silenceMs) return;
    this.#silenceMs = silenceMs;
    this.#watchSilence(silenceMs);
  }

  /** The body was read to its end: the connection is left to the next request. */
  complete(): void {
    this.#complete = true;
  }

  /** Removes timers and listeners, and closes the connection unless the body was read to its end. */
  close(): void {
    this.#stopDeadline?.();
    this.#silence.close();
    for (const leave of this.#leave) leave();
    if (!this.#complete) this.#controller.abort(this.#failure);
  }

  #counterOf(contentType: string | null): BodyCounter {
    const { limits, server } = this.#options;
    return new BodyCounter(limits, contentType, (what) => this.fail(wireError(server, 'PROVIDER_TOO_LARGE', what)));
  }

  #watchSilence(ms: number): void {
    if (ms === 0) this.#silence.stop();
    else this.#silence.set(ms, () => this.#checkSilence());
  }

  /** One timer looks at the time of the last byte, instead of one timer for each byte. */
  #checkSilence(): void {
    const silence = Math.max(0, this.#options.clock.now() - this.#lastByteAt);
    if (silence < this.#silenceMs) this.#watchSilence(this.#silenceMs - silence);
    else
      this.fail(this.#timeout(`sent nothing for ${this.#silenceMs} ms (chunkTimeoutMs) in the middle of its answer`));
  }

  #timeout(what: string): AgentLoopError {
    return wireError(this.#options.server, 'PROVIDER_TIMEOUT', `${what}: try again, or raise the limit`);
  }

  #takeCancel(): void {
    const signal = this.#options.signals.find(({ aborted }) => aborted);
    if (signal === undefined) return;
    this.#canceled ||= this.#failure === undefined;
    this.fail(cancellation(this.#options.server, signal.reason));
  }
}

function cancellation(server: ModelServer, reason: unknown): AgentLoopError {
  if (AgentLoopError.isInstance(reason)) return reason;
  return new AgentLoopError('CANCELED', `The call of model ${server.model} was cancelled.`, { cause: reason });
}
