import type { Clock } from '../contracts/clock.ts';
import { AgentLoopError } from '../contracts/errors.ts';
import type { LLMCallParams } from '../contracts/provider.ts';

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
    this.#resume();
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
    this.#stop();
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
