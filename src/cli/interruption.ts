import { constants } from 'node:os';

type Signal = 'SIGINT' | 'SIGTERM';
type Controllers = Readonly<Record<Signal, AbortController>>;

/** The error of a command that was interrupted before there was a turn to cancel. It is not printed. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted';
  readonly exitCode: number;

  constructor(exitCode: number) {
    super('interrupted');
    this.exitCode = exitCode;
  }
}

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
  #controllers = newControllers();
  #exitCode: number | undefined;

  /** `atOnce` is called on the second signal and has to end the process. */
  constructor(source: SignalSource, atOnce: (exitCode: number) => void) {
    this.#source = source;
    this.#atOnce = atOnce;
    source.on('SIGINT', this.#onSignal);
    source.on('SIGTERM', this.#onSignal);
  }

  /** Aborted by the first signal, whichever it is. */
  get signal(): AbortSignal {
    return AbortSignal.any([this.byKey, this.byOrder]);
  }

  /** Aborted where the first signal is Ctrl-C: somebody does not want it any more. */
  get byKey(): AbortSignal {
    return this.#controllers.SIGINT.signal;
  }

  /** Aborted where the first signal is SIGTERM: the process has to go. */
  get byOrder(): AbortSignal {
    return this.#controllers.SIGTERM.signal;
  }

  /** 128 and the signal's number, once there was one: 130 for Ctrl-C, 143 for SIGTERM. */
  get exitCode(): number | undefined {
    return this.#exitCode;
  }

  /** What the work gives, unless there is a signal first: then it rejects with `Interrupted`, and the work is left alone. */
  race<T>(work: Promise<T>): Promise<T> {
    const { signal } = this;
    return new Promise((resolve, reject) => {
      const stop = () => reject(new Interrupted(this.#exitCode ?? 1));
      signal.addEventListener('abort', stop);
      work.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop));
      if (signal.aborted) stop();
    });
  }

  /** Forgets an interruption that was dealt with. */
  reset(): void {
    this.#controllers = newControllers();
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
      this.#controllers[name].abort('interrupted');
    } else {
      this.#atOnce(exitCode);
    }
  };
}

function newControllers(): Controllers {
  return { SIGINT: new AbortController(), SIGTERM: new AbortController() };
}
