import { constants } from 'node:os';

type Signal = 'SIGINT' | 'SIGTERM';

/** The part of `process` that is used. */
export interface SignalSource {
  on(signal: Signal, listener: (signal: Signal) => void): unknown;
  off(signal: Signal, listener: (signal: Signal) => void): unknown;
}

/**
 * Turns Ctrl-C and SIGTERM into an aborted signal, so that a turn can stop cleanly; the second one no longer waits.
 * Listens from its making until `close`.
 */
export class Interruption {
  readonly #source: SignalSource;
  readonly #atOnce: (exitCode: number) => void;
  #controller = new AbortController();
  #exitCode: number | undefined;

  /** `atOnce` is called on the second signal and has to end the process. */
  constructor(source: SignalSource, atOnce: (exitCode: number) => void) {
    this.#source = source;
    this.#atOnce = atOnce;
    source.on('SIGINT', this.#onSignal);
    source.on('SIGTERM', this.#onSignal);
  }

  /** Aborted by the first signal. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** 128 and the signal's number, once there was one: 130 for Ctrl-C, 143 for SIGTERM. */
  get exitCode(): number | undefined {
    return this.#exitCode;
  }

  /** Forgets an interruption that was dealt with. */
  reset(): void {
    this.#controller = new AbortController();
    this.#exitCode = undefined;
  }

  close(): void {
    this.#source.off('SIGINT', this.#onSignal);
    this.#source.off('SIGTERM', this.#onSignal);
  }

  readonly #onSignal = (name: Signal): void => {
    const exitCode = 128 + constants.signals[name];
    if (this.#exitCode === undefined) {
      this.#exitCode = exitCode;
      this.#controller.abort('interrupted');
    } else {
      this.#atOnce(exitCode);
    }
  };
}
