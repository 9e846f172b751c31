import type { Writable } from 'node:stream';

/** The part of `process.stdout` and `process.stderr` that is used. */
export type OutputStream = Writable & {
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
};

/** One of the process's outputs: says when it is full, and survives that its reader leaves. */
export class Output {
  readonly isTerminal: boolean;
  readonly #stream: OutputStream;
  readonly #closed = new AbortController();

  constructor(stream: OutputStream) {
    this.#stream = stream;
    this.isTerminal = stream.isTTY === true;
    // `millrace … | head -1` breaks the pipe. Without a listener that would end the process with a stack trace.
    const close = () => this.#closed.abort('stdout was closed');
    stream.on('error', close);
    stream.on('close', close);
  }

  /** Aborted when stdout is closed; later writes do nothing. */
  get closed(): AbortSignal {
    return this.#closed.signal;
  }

  /** Of the terminal, or 80. */
  get columns(): number {
    return this.#stream.columns ?? 80;
  }

  /** Of the terminal, or 24. */
  get rows(): number {
    return this.#stream.rows ?? 24;
  }

  /** Writes; for a slow reader, returns a promise that resolves when there is room again or stdout is closed. */
  write(text: string): void | Promise<void> {
    if (text === '' || this.#closed.signal.aborted) return;
    if (this.#stream.write(text)) return;
    return this.#room();
  }

  /** Resolves when all output has left the process, or stdout is closed. */
  flush(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#closed.signal.aborted) return resolve();
      this.#closed.signal.addEventListener('abort', () => resolve(), { once: true });
      this.#stream.write('', () => resolve());
    });
  }

  #room(): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        this.#stream.off('drain', done);
        this.#closed.signal.removeEventListener('abort', done);
        resolve();
      };
      this.#stream.on('drain', done);
      this.#closed.signal.addEventListener('abort', done, { once: true });
    });
  }
}
