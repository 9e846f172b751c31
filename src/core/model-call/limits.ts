import { AgentLoopError, type Clock, type SilenceLimit } from '../contracts/index.ts';

/** The number of checks per time limit: a periodic check replaces a timer per chunk. */
const looks = 8;

/**
 * Limits the silence of one model request; it fires at most an eighth of the limit late. The parameters of
 * the call pass it to policies: while a policy's call is in progress this limit is suspended, and each request of the policy has its own
 * limit. So delays and queues of policies do not count as silence.
 */
export class ModelSilence implements SilenceLimit {
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

  /** A new limit of the same length, for a request of the call. */
  another(): ModelSilence {
    return new ModelSilence(this.#clock, this.#ms);
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
