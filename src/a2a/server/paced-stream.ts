import type { Clock } from '../../core/contracts/index.ts';
import type { Connection } from './connection.ts';

export interface Pace {
  readonly connection: Connection;
  /** Ends the stream with its reason, an error. */
  readonly stop: AbortSignal;
  /** How long a stream may be silent before it sends a heartbeat. Milliseconds; 0: never. */
  readonly heartbeatMs: number;
  readonly clock: Clock;
}

/**
 * The events of a source, as fast as they are read: the next is asked for when the one before has been written and the connection has
 * room. Ends when the reader leaves, also while nothing happens; `stop` makes it throw. The source is left in every case.
 */
export async function* pacedStream<T>(source: AsyncIterator<T>, pace: Pace): AsyncGenerator<T, void, undefined> {
  const wait = new InterruptibleWait(pace);
  try {
    for (;;) {
      await pace.connection.drained();
      const next = await wait.for(source.next());
      if (next === undefined || next.done) return;
      yield next.value;
    }
  } finally {
    wait.end();
    // What waits for its next event may not hear of it before that; nobody has to wait for it.
    source.return?.().catch(() => {});
  }
}

/** Waits for a promise, or the end of the reader or of the server, without a listener for each event. */
class InterruptibleWait {
  readonly #pace: Pace;
  #settle: (() => void) | undefined;
  #cancelBeat: (() => void) | undefined;

  constructor(pace: Pace) {
    this.#pace = pace;
    pace.connection.closed.addEventListener('abort', this.#interrupt);
    pace.stop.addEventListener('abort', this.#interrupt);
    this.#scheduleBeat();
  }

  /** What the promise gives; `undefined` where the reader has left. */
  async for<T>(promise: Promise<T>): Promise<T | undefined> {
    const { stop, connection } = this.#pace;
    let value: { readonly is: T } | undefined;
    await new Promise<void>((resolve, reject) => {
      this.#settle = resolve;
      promise.then((is) => {
        value = { is };
        resolve();
      }, reject);
      if (stop.aborted || connection.closed.aborted) resolve();
    });
    this.#settle = undefined;
    if (connection.closed.aborted) return undefined;
    if (value === undefined) throw stop.reason;
    return value.is;
  }

  end(): void {
    const { connection, stop } = this.#pace;
    connection.closed.removeEventListener('abort', this.#interrupt);
    stop.removeEventListener('abort', this.#interrupt);
    this.#cancelBeat?.();
  }

  readonly #interrupt = (): void => this.#settle?.();

  #scheduleBeat(): void {
    const { heartbeatMs, clock, connection } = this.#pace;
    if (heartbeatMs === 0) return;
    this.#cancelBeat = clock.schedule(heartbeatMs, () => {
      connection.beat();
      this.#scheduleBeat();
    });
  }
}
