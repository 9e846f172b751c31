import { randomInt } from 'node:crypto';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { type SignalSource, type StopName, StopRequests, stopExitCodes } from '../stop-signal.ts';
import type { OutputStream, Terminal } from './terminal.ts';

/** The process, as the commands see it. */
export interface CommandHost {
  readonly terminal: Terminal;
  readonly stdin: Readable & { readonly isTTY?: boolean };
  /** The bare streams below the terminal, for editing a line on. */
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
  readonly signals: SignalSource;
  /** Ends the process, losing whatever was not written. */
  readonly exitAtOnce: (exitCode: number) => void;
  /** What the process answers when the command is over. Default 0. */
  exitCode: number;
}

type Controllers = Readonly<Record<StopName, AbortController>>;

/** The error of a command that was interrupted before there was a turn to cancel. It is not printed. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted';
  readonly exitCode: number;

  constructor(exitCode: number) {
    super('interrupted');
    this.exitCode = exitCode;
  }
}

/**
 * Turns Ctrl-C and SIGTERM into an aborted signal, so that a turn can stop cleanly; the second one, which is no echo of the first, no longer waits.
 * Listens from its making until `close`.
 */
export class Interruption {
  readonly #requests: StopRequests;
  #controllers = newControllers();
  #exitCode: number | undefined;

  /** `atOnce` is called on the second signal and has to end the process. `now`: in milliseconds. */
  constructor(source: SignalSource, atOnce: (exitCode: number) => void, now?: () => number) {
    const first = (name: StopName) => {
      this.#exitCode = stopExitCodes[name];
      this.#controllers[name].abort('interrupted');
    };
    this.#requests = new StopRequests({ source, first, again: atOnce, ...(now && { now }) });
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
    this.#requests.reset();
  }

  close(): void {
    this.#requests.close();
  }
}

/** Listens for Ctrl-C and SIGTERM for the time of an action. */
export async function withInterruption(
  { signals, exitAtOnce }: Pick<CommandHost, 'signals' | 'exitAtOnce'>,
  action: (interruption: Interruption) => Promise<void>,
): Promise<void> {
  const interruption = new Interruption(signals, exitAtOnce);
  try {
    await action(interruption);
  } finally {
    interruption.close();
  }
}

function newControllers(): Controllers {
  return { SIGINT: new AbortController(), SIGTERM: new AbortController() };
}

/** Without those that are mistaken for each other, and without vowels, so that no words come out. */
const letters = '23456789bcdfghjkmnpqrstvwxz';
const length = 10;

/** A new id that can be read out and typed: 10 letters and digits, 47 bits of chance. */
export function newId(): string {
  return Array.from({ length }, () => letters[randomInt(letters.length)]).join('');
}

/** A file of this package, by its path in it: where a module is in the build says nothing about that. */
export function ownFile(path: string): string {
  return join(dirname(createRequire(import.meta.url).resolve('millrace/package.json')), path);
}
