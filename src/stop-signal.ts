import { assertKnownOptions } from './options/option-rules.ts';

/** What a process that a signal ended answers: 128 and the number of the signal. */
export const stopExitCodes = { SIGINT: 130, SIGTERM: 143 } as const;

export type StopName = keyof typeof stopExitCodes;

/** The part of `process` that is used. */
export interface SignalSource {
  on(signal: StopName, listener: (signal: StopName) => void): unknown;
  off(signal: StopName, listener: (signal: StopName) => void): unknown;
}

/** npm, npx and `node --watch` forward a Ctrl-C that the terminal has sent to the process itself: within this time the same signal is the same request. */
const echoMs = 500;

interface StopRequestsOptions {
  readonly source: SignalSource;
  readonly first: (name: StopName) => void;
  /** On each later request: has to end the process. */
  readonly again: (exitCode: number) => void;
  /** In milliseconds. */
  readonly now?: () => number;
}

/** Listens for SIGINT and SIGTERM from its construction until `close`, and distinguishes the second request from an echo of the first. */
export class StopRequests {
  readonly #options: StopRequestsOptions;
  #asked: { readonly name: StopName; readonly at: number } | undefined;

  constructor(options: StopRequestsOptions) {
    this.#options = options;
    for (const name of names) options.source.on(name, this.#onSignal);
  }

  /** The next signal is a first request again. */
  reset(): void {
    this.#asked = undefined;
  }

  close(): void {
    for (const name of names) this.#options.source.off(name, this.#onSignal);
  }

  readonly #onSignal = (name: StopName): void => {
    const { first, again, now = () => performance.now() } = this.#options;
    if (this.#asked === undefined) {
      this.#asked = { name, at: now() };
      first(name);
    } else if (name !== this.#asked.name || now() - this.#asked.at >= echoMs) {
      again(stopExitCodes[name]);
    }
  };
}

const names: readonly StopName[] = ['SIGINT', 'SIGTERM'];

let stopping: AbortController | undefined;

/**
 * The signal that Ctrl-C (SIGINT) or SIGTERM aborts, for the option `shutdown`: turns drain and release their leases, and the next process continues them at once. From
 * the first call on the process no longer ends at these signals by itself: close in a listener of `abort` what keeps it alive. A second Ctrl-C or SIGTERM ends it at
 * once; one that npm or `node --watch` forwards within 500 ms counts as the first. All calls return the same signal. Never aborted where there is no `process`.
 */
export function stopSignal(): AbortSignal;
export function stopSignal(options: object = {}): AbortSignal {
  assertKnownOptions('stopSignal', options, {});
  if (stopping) return stopping.signal;
  const controller = new AbortController();
  stopping = controller;
  const { process } = globalThis;
  if (typeof process?.on === 'function')
    new StopRequests({
      source: process,
      first: (name) => controller.abort(`the process received ${name}`),
      again: (exitCode) => process.exit(exitCode),
    });
  return controller.signal;
}
